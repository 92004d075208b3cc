-- The mean number of the function's pods on the node over that hour: a pod of ten minutes is a sixth. NULL: no pod of
-- it is known there.

ALTER TABLE busyness ADD COLUMN pods DOUBLE;
