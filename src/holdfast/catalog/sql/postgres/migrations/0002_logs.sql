-- Up to where the log of an open store has been written into the pending changes.

CREATE TABLE logs (
    namespace_id BIGINT PRIMARY KEY REFERENCES namespaces (id),
    name TEXT COLLATE "C" NOT NULL,
    position BIGINT NOT NULL
);
