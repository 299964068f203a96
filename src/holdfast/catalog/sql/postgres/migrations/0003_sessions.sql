-- Sessions: what there is now, and every version and every turn that there has been.

CREATE TABLE sessions (
    namespace_id BIGINT NOT NULL REFERENCES namespaces (id),
    id TEXT COLLATE "C" NOT NULL,
    agent_id TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C",
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    expires_at BIGINT,
    -- The number of its newest version.
    version BIGINT NOT NULL,
    -- Its conversation: the first turns of a branch.
    branch TEXT COLLATE "C" NOT NULL,
    turns BIGINT NOT NULL,
    forked_from TEXT,
    forked_version BIGINT,
    -- Whether the plane holds it: not, if it was deleted, or is younger than what was restored.
    is_present BIGINT NOT NULL,
    deleted_at BIGINT,
    PRIMARY KEY (namespace_id, id)
);

CREATE INDEX sessions_by_age ON sessions (namespace_id, created_at, id);

CREATE INDEX sessions_by_origin ON sessions (namespace_id, forked_from)
WHERE forked_from IS NOT NULL;

CREATE TABLE versions (
    namespace_id BIGINT NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    kind TEXT NOT NULL,
    state BYTEA NOT NULL,
    bytes BIGINT NOT NULL,
    branch TEXT COLLATE "C" NOT NULL,
    turns BIGINT NOT NULL,
    -- The version whose state came back.
    target BIGINT,
    reasoning TEXT,
    actor TEXT,
    trace_id TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (namespace_id, session_id, number)
);

-- A conversation that went back and on has branches. `turns` counts its parent's, too.
CREATE TABLE branches (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant_id BIGINT NOT NULL,
    parent TEXT COLLATE "C",
    parent_turns BIGINT NOT NULL,
    turns BIGINT NOT NULL,
    -- Of its own turns: what they count against a quota.
    bytes BIGINT NOT NULL
);

CREATE INDEX branches_of_tenant ON branches (tenant_id, bytes);

CREATE TABLE turns (
    branch TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    data BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (branch, number)
);

-- Namespaces whose sessions have no rows yet: forks, until somebody asks for a session of theirs.
CREATE TABLE lagging (
    namespace_id BIGINT PRIMARY KEY REFERENCES namespaces (id)
);
