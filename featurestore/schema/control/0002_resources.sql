-- Items of tree-shaped interfaces: every item under its path, children under their parent's.

CREATE TABLE resources (
    path TEXT PRIMARY KEY,           -- such as projects/p1/composite-apps/ca1/v1
    parent TEXT REFERENCES resources (path),
    collection TEXT NOT NULL,        -- the path without the item's own name
    body TEXT NOT NULL,              -- JSON
    updated INTEGER NOT NULL,
    revision INTEGER NOT NULL        -- 1 for a new item, one more with each change
) STRICT;

CREATE INDEX resources_by_collection ON resources (collection, path);
CREATE INDEX resources_by_parent ON resources (parent);
