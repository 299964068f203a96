-- Up to where the log of an open store has been written into the pending changes.

CREATE TABLE logs (
    namespace_id INTEGER PRIMARY KEY REFERENCES namespaces (id),
    name TEXT NOT NULL,
    position INTEGER NOT NULL
) STRICT;
