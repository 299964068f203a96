-- Sessions: what there is now, and every version and every turn that there has been.

CREATE TABLE sessions (
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    user_id TEXT,
    metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER,
    -- The number of its newest version.
    version INTEGER NOT NULL,
    -- Its conversation: the first turns of a branch.
    branch TEXT NOT NULL,
    turns INTEGER NOT NULL,
    forked_from TEXT,
    forked_version INTEGER,
    -- Whether the plane holds it: not, if it was deleted, or is younger than what was restored.
    is_present INTEGER NOT NULL,
    deleted_at INTEGER,
    PRIMARY KEY (namespace_id, id)
) STRICT;

CREATE INDEX sessions_by_age ON sessions (namespace_id, created_at, id);

CREATE INDEX sessions_by_origin ON sessions (namespace_id, forked_from)
WHERE forked_from IS NOT NULL;

CREATE TABLE versions (
    namespace_id INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    state BLOB NOT NULL,
    bytes INTEGER NOT NULL,
    branch TEXT NOT NULL,
    turns INTEGER NOT NULL,
    -- The version whose state came back.
    target INTEGER,
    reasoning TEXT,
    actor TEXT,
    trace_id TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (namespace_id, session_id, number)
) STRICT;

-- A conversation that went back and on has branches. `turns` counts its parent's, too.
CREATE TABLE branches (
    id TEXT PRIMARY KEY,
    tenant_id INTEGER NOT NULL,
    parent TEXT,
    parent_turns INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    -- Of its own turns: what they count against a quota.
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX branches_of_tenant ON branches (tenant_id, bytes);

CREATE TABLE turns (
    branch TEXT NOT NULL,
    number INTEGER NOT NULL,
    id TEXT NOT NULL UNIQUE,
    data BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (branch, number)
) STRICT;

-- Namespaces whose sessions have no rows yet: forks, until somebody asks for a session of theirs.
CREATE TABLE lagging (
    namespace_id INTEGER PRIMARY KEY REFERENCES namespaces (id)
) STRICT;
