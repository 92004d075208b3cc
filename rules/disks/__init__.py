"""Which disks a pod's volumes may and should lie on: annotations, filters, one plan a node. Pure: no clock, no I/O.

Follows the proposal "Supporting disk affinity/anti-affinity feature" of csi-baremetal; where that is silent, what is
decided here is said beside the code that does it.
"""
