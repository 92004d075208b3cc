-- Consistent regions of stream jobs: as last listed, and every drain and reset that was seen.

CREATE TABLE regions (
    cluster VARCHAR NOT NULL, namespace VARCHAR NOT NULL, name VARCHAR NOT NULL, stream_job VARCHAR NOT NULL,
    region INTEGER NOT NULL, "trigger" VARCHAR NOT NULL, state VARCHAR NOT NULL, healthy BOOLEAN NOT NULL,
    current_seq_id BIGINT NOT NULL, last_completed_seq_id BIGINT NOT NULL,
    reset_attempts BIGINT NOT NULL, max_reset_attempts BIGINT NOT NULL,
    average_drain_ms BIGINT NOT NULL, average_reset_ms BIGINT NOT NULL,     -- of the last ten
    last_consistent_at TIMESTAMPTZ, last_reset_at TIMESTAMPTZ,             -- NULL: never
    last_completed_drain BIGINT NOT NULL, last_completed_reset BIGINT NOT NULL,   -- -1: none
    pes INTEGER NOT NULL, members VARCHAR NOT NULL,                        -- number and JSON array of the PEs
    seen TIMESTAMPTZ NOT NULL
);

CREATE TABLE region_spans (          -- one completed drain or reset
    cluster VARCHAR NOT NULL, namespace VARCHAR NOT NULL, stream_job VARCHAR NOT NULL, region INTEGER NOT NULL,
    kind VARCHAR NOT NULL, seq_id BIGINT NOT NULL,                         -- drain | reset
    started TIMESTAMPTZ NOT NULL, ended TIMESTAMPTZ NOT NULL
);
