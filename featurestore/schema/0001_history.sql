-- What happened. All times are TIMESTAMPTZ and every connection sets TimeZone = 'UTC'.
-- No primary keys on the large tables: batches are deduplicated and anti-joined before they are inserted.

CREATE TABLE node_specs (            -- one row for each time a node's facts changed (type-2 history)
    cluster VARCHAR NOT NULL, node VARCHAR NOT NULL, uid VARCHAR NOT NULL,
    valid_from TIMESTAMPTZ NOT NULL, valid_to TIMESTAMPTZ,           -- valid_to NULL: the current row
    node_type VARCHAR NOT NULL,
    ready BOOLEAN NOT NULL, schedulable BOOLEAN NOT NULL,
    cpu_cores DOUBLE, memory_bytes DOUBLE, pods DOUBLE,              -- allocatable
    gpu_count INTEGER NOT NULL, gpu_model VARCHAR NOT NULL, disk_type VARCHAR NOT NULL,
    network_bytes_per_s DOUBLE,
    labels VARCHAR NOT NULL, taints VARCHAR NOT NULL, addresses VARCHAR NOT NULL, conditions VARCHAR NOT NULL,
    capacity VARCHAR NOT NULL, allocatable VARCHAR NOT NULL          -- JSON objects; taints a JSON array
);

CREATE TABLE usage (                 -- one row per scope, metric and step
    cluster VARCHAR NOT NULL, scope VARCHAR NOT NULL,                -- scope: node | pod
    namespace VARCHAR NOT NULL, name VARCHAR NOT NULL,               -- namespace '' for nodes
    metric VARCHAR NOT NULL, "at" TIMESTAMPTZ NOT NULL, value DOUBLE NOT NULL
);

CREATE TABLE placements (            -- the life of a pod on a node; one row a pod uid
    cluster VARCHAR NOT NULL, uid VARCHAR NOT NULL, namespace VARCHAR NOT NULL, pod VARCHAR NOT NULL,
    node VARCHAR NOT NULL, function VARCHAR,                         -- function NULL: none, or not known yet
    function_from TIMESTAMPTZ,                                       -- from when the pod is its function's
    started TIMESTAMPTZ NOT NULL, ended TIMESTAMPTZ,                 -- ended NULL: alive when last seen
    last_seen TIMESTAMPTZ NOT NULL, phase VARCHAR NOT NULL,
    cpu_limit_cores DOUBLE, memory_limit_bytes DOUBLE, cpu_request_cores DOUBLE, memory_request_bytes DOUBLE,
    labels VARCHAR NOT NULL
);

CREATE TABLE activations (
    cluster VARCHAR NOT NULL, activation_id VARCHAR NOT NULL,
    function VARCHAR NOT NULL,                                       -- namespace/[package/]action
    version VARCHAR NOT NULL, kind VARCHAR NOT NULL,
    "start" TIMESTAMPTZ NOT NULL, "end" TIMESTAMPTZ,                 -- end NULL: none or not known
    duration_ms DOUBLE, init_ms DOUBLE, wait_ms DOUBLE,              -- init_ms NULL: warm; inside duration_ms
    status_code INTEGER NOT NULL, memory_mb INTEGER, timeout_ms BIGINT, concurrency INTEGER,
    composite BOOLEAN NOT NULL,                                      -- sequence or conductor: no pod of its own
    caused_by VARCHAR NOT NULL,
    node VARCHAR, pod VARCHAR, node_type VARCHAR,                    -- only where an imported file names them
    collected TIMESTAMPTZ NOT NULL
);

CREATE TABLE workflows (
    cluster VARCHAR NOT NULL, namespace VARCHAR NOT NULL, workflow VARCHAR NOT NULL,
    seen TIMESTAMPTZ NOT NULL, document VARCHAR NOT NULL             -- the normalised workflow as JSON
);

CREATE TABLE declared_profiles (     -- imported from files or stated by workflows
    cluster VARCHAR NOT NULL, function VARCHAR NOT NULL, node_type VARCHAR NOT NULL,
    cpu_cores DOUBLE, memory_bytes DOUBLE, network_bytes_per_s DOUBLE, disk_bytes_per_s DOUBLE,
    seen TIMESTAMPTZ NOT NULL
);

CREATE TABLE watermarks (            -- up to when a source is known
    cluster VARCHAR NOT NULL, source VARCHAR NOT NULL, scope VARCHAR NOT NULL, "at" TIMESTAMPTZ NOT NULL
);

CREATE TABLE runs (                  -- every collection and every learning run
    cluster VARCHAR NOT NULL, source VARCHAR NOT NULL, started TIMESTAMPTZ NOT NULL, finished TIMESTAMPTZ NOT NULL,
    rows BIGINT NOT NULL, refused BIGINT NOT NULL, outcome VARCHAR NOT NULL,   -- ok | partial | failed
    reason VARCHAR NOT NULL, message VARCHAR NOT NULL                -- '' when ok; never a secret
);
