-- What each activation used and where it ran; no row for composites and triggers, which have no pod of their own.

CREATE TABLE activation_use (
    cluster VARCHAR NOT NULL, activation_id VARCHAR NOT NULL,
    "start" TIMESTAMPTZ NOT NULL, "end" TIMESTAMPTZ, function VARCHAR NOT NULL,
    node VARCHAR, pod VARCHAR, method VARCHAR,                       -- NULL: not certain; method of attribution
    latency_ms DOUBLE,                                               -- initialisation excluded
    vcores DOUBLE, memory_limit_bytes DOUBLE,                        -- the pod's limits; vcores NULL: no limit, no pod
    cpu_seconds DOUBLE, memory_bytes DOUBLE,                         -- NULL: no series covers the run
    network_bytes DOUBLE, disk_bytes DOUBLE                          -- memory: mean working set over the run
);

ALTER TABLE function_profiles ADD COLUMN cpu_seconds_per_run DOUBLE;
ALTER TABLE function_profiles ADD COLUMN memory_bytes_p95 DOUBLE;
ALTER TABLE function_profiles ADD COLUMN network_bytes_per_run DOUBLE;
ALTER TABLE function_profiles ADD COLUMN disk_bytes_per_run DOUBLE;
