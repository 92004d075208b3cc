-- What was last listed about disks: drives, what is free on them, volumes, claims, and the pods that use them.

CREATE TABLE disks (
    cluster VARCHAR NOT NULL, kind VARCHAR NOT NULL, namespace VARCHAR NOT NULL, name VARCHAR NOT NULL,
    seen TIMESTAMPTZ NOT NULL, document VARCHAR NOT NULL             -- the record as JSON
);
