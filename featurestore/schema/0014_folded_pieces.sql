-- Long bodies of what is folded stand in pieces of 256 bytes, by the entry of their row in folded (0: the body stands
-- in the row; NULL: it does, however long, as an earlier version wrote it). A row group of rows that are long is as long
-- as all of them, and is written anew with each that is added; and a model is written in parts by who is `saving`.

ALTER TABLE folded ALTER COLUMN body DROP NOT NULL;
ALTER TABLE folded ADD COLUMN entry BIGINT;

CREATE TABLE folded_pieces (
    entry BIGINT NOT NULL, place INTEGER NOT NULL,
    body BLOB NOT NULL USING COMPRESSION uncompressed                -- numbers, packed already
);

CREATE TABLE saving (                -- one row a cluster of which a model is being written: what of it is not read yet
    cluster VARCHAR NOT NULL, model VARCHAR NOT NULL,
    first BIGINT NOT NULL, last BIGINT NOT NULL                      -- entries that are its own
);
