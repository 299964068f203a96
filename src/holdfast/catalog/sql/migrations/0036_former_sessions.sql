-- Sessions whose id another has by now. A version of an id is of the session that had the id then:
-- `since` is the first one of whoever has it, NULL if nobody else ever had it.

ALTER TABLE sessions ADD COLUMN since INTEGER;

-- As their rows were when they lost the id: each has the versions from `since`, or 0, to `version`.
-- A session that comes back and goes again has several. It is the same if it began at the same time.
CREATE TABLE former_sessions (
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    user_id TEXT,
    metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER,
    version INTEGER NOT NULL,
    branch TEXT NOT NULL,
    turns INTEGER NOT NULL,
    forked_from TEXT,
    forked_version INTEGER,
    is_present INTEGER NOT NULL,
    deleted_at INTEGER,
    since INTEGER,
    seal BYTES,
    PRIMARY KEY (namespace_id, id, version)
) BY KEY;

-- What they knew of things. An entity is back with its session, which began at this time.
CREATE TABLE former_entities (
    id TEXT PRIMARY KEY,
    namespace_id INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    entity_type TEXT NOT NULL,
    entity_id TEXT NOT NULL,
    attributes TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    checksum INTEGER,
    began_at INTEGER NOT NULL
) BY KEY;

CREATE INDEX former_entities_of_session
ON former_entities (namespace_id, session_id, began_at);
