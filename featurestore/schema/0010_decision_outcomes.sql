-- What became of a decision: the pod's node, and how its function fared there. No row: no pod was seen to follow it.

CREATE TABLE decision_outcomes (
    cluster VARCHAR NOT NULL, decision VARCHAR NOT NULL, "at" TIMESTAMPTZ NOT NULL,   -- of the decision
    uid VARCHAR NOT NULL, node VARCHAR NOT NULL,
    started TIMESTAMPTZ NOT NULL, ended TIMESTAMPTZ,                 -- of the pod; ended NULL: alive when last seen
    followed BOOLEAN,                                                -- on a node ranked first; NULL: not known
    activations BIGINT NOT NULL, p50_ms DOUBLE, usual_ms DOUBLE,     -- the pod's own, and the function's usual median
    updated TIMESTAMPTZ NOT NULL
);
