-- Answers that a repeated request gets again.

CREATE TABLE replies (
    key_id TEXT NOT NULL,
    name TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    leased_until INTEGER NOT NULL,
    -- None while it is being worked on.
    status INTEGER,
    media_type TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (key_id, name, method, path)
) STRICT;

CREATE INDEX replies_by_age ON replies (created_at);
