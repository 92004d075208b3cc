-- What learning remembers between runs: few rows of Arrow streams. Kinds: head (JSON), point, aged, current,
-- predictions, and step, of which each number is a block of days in order.

CREATE TABLE folded (
    cluster VARCHAR NOT NULL, kind VARCHAR NOT NULL, number INTEGER NOT NULL, part INTEGER NOT NULL,
    since BIGINT NOT NULL, until BIGINT NOT NULL, "rows" DOUBLE NOT NULL,     -- microseconds; 0 where of no step
    body BLOB NOT NULL
);
