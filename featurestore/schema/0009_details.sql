-- What a fit knows besides its pairs: why it says so. And models that have a number, and may be chosen by hand.

CREATE TABLE pair_evidence (         -- one row a pair that met
    model VARCHAR NOT NULL, cluster VARCHAR NOT NULL, victim VARCHAR NOT NULL, aggressor VARCHAR NOT NULL,
    estimate DOUBLE, error DOUBLE,                                   -- slowdown and its standard error before any prior
    inflation DOUBLE, discovered BOOLEAN NOT NULL,                   -- by how much clustered errors widen the variance
    placebo DOUBLE, placebo_error DOUBLE                             -- of one more run elsewhere, on the log of the time
);

CREATE TABLE fits (                  -- one row a function; reason '' = fitted
    model VARCHAR NOT NULL, cluster VARCHAR NOT NULL, function VARCHAR NOT NULL,
    runs BIGINT NOT NULL, reason VARCHAR NOT NULL, noise DOUBLE, drift DOUBLE
);

CREATE TABLE base_times (            -- the time alone, by node type
    model VARCHAR NOT NULL, cluster VARCHAR NOT NULL, function VARCHAR NOT NULL, node_type VARCHAR NOT NULL,
    base_ms DOUBLE NOT NULL
);

CREATE TABLE controls (              -- what was held constant, and by how much it moved the log of the time
    model VARCHAR NOT NULL, cluster VARCHAR NOT NULL, function VARCHAR NOT NULL, control VARCHAR NOT NULL,
    moved DOUBLE NOT NULL
);

CREATE TABLE comparisons (           -- the obvious comparison: typical time beside over that without, less 1
    model VARCHAR NOT NULL, cluster VARCHAR NOT NULL, victim VARCHAR NOT NULL, aggressor VARCHAR NOT NULL,
    alone BIGINT NOT NULL,                                           -- runs of the victim that met nobody
    naive DOUBLE NOT NULL,
    own_part DOUBLE, others_part DOUBLE, node_types_part DOUBLE, rest_part DOUBLE,   -- they add up to log(1 + naive)
    cold_beside DOUBLE, cold_without DOUBLE                          -- shares of cold starts
);

ALTER TABLE models ADD COLUMN number BIGINT;                         -- counts a cluster's models; never used again
ALTER TABLE models ADD COLUMN chosen BOOLEAN DEFAULT false;          -- by hand: answers until told otherwise
UPDATE models SET number = n.number FROM (
    SELECT model, cluster, row_number() OVER (PARTITION BY cluster ORDER BY created, model) AS number FROM models
) AS n WHERE n.model = models.model AND n.cluster = models.cluster;
