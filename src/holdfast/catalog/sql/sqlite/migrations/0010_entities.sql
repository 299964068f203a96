-- What a session knows of things. An entity goes when its session's row goes.

CREATE TABLE entities (
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
    FOREIGN KEY (namespace_id, session_id) REFERENCES sessions (namespace_id, id)
    ON DELETE CASCADE
) STRICT;

-- One of a kind and name in a session; a deleted one makes room at once.
CREATE UNIQUE INDEX entities_live
ON entities (namespace_id, session_id, entity_type, entity_id) WHERE deleted_at IS NULL;

CREATE INDEX entities_by_age ON entities (namespace_id, created_at, id);

-- What goes with a session; with what counting them asks for.
CREATE INDEX entities_of_session
ON entities (namespace_id, session_id, created_at, id, deleted_at);

CREATE INDEX entities_deleted ON entities (namespace_id, deleted_at)
WHERE deleted_at IS NOT NULL;
