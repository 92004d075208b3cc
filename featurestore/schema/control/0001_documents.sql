-- What was asked for. Times are epoch microseconds in UTC.

CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

CREATE TABLE documents (             -- intents, pools, jobs: one document under each kind and name
    kind TEXT NOT NULL, name TEXT NOT NULL,
    body TEXT NOT NULL,              -- JSON
    updated INTEGER NOT NULL,
    revision INTEGER NOT NULL,       -- 1 for a new document, one more with each change
    PRIMARY KEY (kind, name)
) STRICT;
