"""Rules whose advice becomes affinity of a pod, and the one merge through which every change goes."""
