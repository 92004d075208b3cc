-- Medians of a function's answers by the company that it had: see featurestore/company.py for the number of a company.

CREATE TABLE company (               -- node '' = whole type; company 0 = nobody
    model VARCHAR NOT NULL, cluster VARCHAR NOT NULL, function VARCHAR NOT NULL, node_type VARCHAR NOT NULL,
    node VARCHAR NOT NULL, company BIGINT NOT NULL, activations BIGINT NOT NULL, p50_ms DOUBLE NOT NULL
);
