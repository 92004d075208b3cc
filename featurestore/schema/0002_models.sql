-- What was learned. A model is one learning run; the promoted one answers.

CREATE TABLE models (
    model VARCHAR NOT NULL, cluster VARCHAR NOT NULL, created TIMESTAMPTZ NOT NULL,
    window_start TIMESTAMPTZ, window_end TIMESTAMPTZ, code_version VARCHAR NOT NULL,
    reason VARCHAR NOT NULL, promoted BOOLEAN NOT NULL,
    metrics VARCHAR NOT NULL                                         -- JSON: counts, attribution, errors, drift
);

CREATE TABLE pairs (                 -- slowdown .25 = 25 % longer beside one always-running aggressor
    model VARCHAR NOT NULL, cluster VARCHAR NOT NULL,
    victim VARCHAR NOT NULL, aggressor VARCHAR NOT NULL, node_type VARCHAR NOT NULL,   -- '' = all node types
    status VARCHAR NOT NULL,                                         -- observed | predicted | unknown | shared_cause
    slowdown DOUBLE, low DOUBLE, high DOUBLE, probability DOUBLE,
    effective_overlaps DOUBLE NOT NULL, activations BIGINT NOT NULL,
    window_start TIMESTAMPTZ, window_end TIMESTAMPTZ
);

CREATE TABLE function_profiles (     -- node_type '' = all node types together
    model VARCHAR NOT NULL, cluster VARCHAR NOT NULL, function VARCHAR NOT NULL, node_type VARCHAR NOT NULL,
    dominant VARCHAR NOT NULL, cpu VARCHAR NOT NULL, memory VARCHAR NOT NULL, network VARCHAR NOT NULL,
    disk VARCHAR NOT NULL, source VARCHAR NOT NULL,                  -- measured | declared | predicted
    cpu_cores DOUBLE, memory_bytes DOUBLE, network_bytes_per_s DOUBLE, disk_bytes_per_s DOUBLE,
    activations BIGINT NOT NULL, p50_ms DOUBLE, p95_ms DOUBLE
);

CREATE TABLE latencies (             -- undisturbed or not: what was answered, init excluded; node '' = whole type
    model VARCHAR NOT NULL, cluster VARCHAR NOT NULL, function VARCHAR NOT NULL, node_type VARCHAR NOT NULL,
    node VARCHAR NOT NULL, activations BIGINT NOT NULL, p50_ms DOUBLE NOT NULL, p95_ms DOUBLE NOT NULL
);

CREATE TABLE decisions (
    decision VARCHAR NOT NULL, "at" TIMESTAMPTZ NOT NULL, cluster VARCHAR NOT NULL, namespace VARCHAR NOT NULL,
    pod VARCHAR NOT NULL, function VARCHAR NOT NULL, mode VARCHAR NOT NULL, snapshot VARCHAR NOT NULL,
    satisfiable BOOLEAN NOT NULL, outcome VARCHAR NOT NULL,          -- patched | unchanged | left_alone | failed_open
    document VARCHAR NOT NULL                                        -- the recommendation as JSON
);
