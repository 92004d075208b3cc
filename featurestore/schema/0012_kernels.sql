-- The release of the kernel that a node runs (status.nodeInfo.kernelVersion); NULL: not said, or not listed since.

ALTER TABLE node_specs ADD COLUMN kernel VARCHAR;
