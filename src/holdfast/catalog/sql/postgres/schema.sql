-- The catalog on PostgreSQL. Instants are whole microseconds since 1970, UTC.
-- The truth about the tables: a test proves that the migrations lead exactly here.

CREATE SCHEMA holdfast;

CREATE TABLE migrations (
    number BIGINT PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    applied_at BIGINT NOT NULL
);

CREATE TABLE tenants (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    public_id TEXT COLLATE "C" NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    quota_bytes BIGINT,
    -- Moved on by each collection. Objects carry the epoch they were last needed in.
    epoch BIGINT NOT NULL DEFAULT 1
);

CREATE TABLE namespaces (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id),
    name TEXT COLLATE "C" NOT NULL,
    generation BIGINT NOT NULL DEFAULT 0,
    sequence BIGINT NOT NULL DEFAULT 0,
    root BYTEA NOT NULL,
    position TEXT COLLATE "C",
    redo TEXT COLLATE "C" NOT NULL DEFAULT '[]',
    entries BIGINT NOT NULL DEFAULT 0,
    bytes BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    deleted_at BIGINT,
    quota_bytes BIGINT,
    retention TEXT COLLATE "C",
    fork_of BIGINT,
    fork_root BYTEA,
    writer TEXT NOT NULL DEFAULT ''
);

-- A deleted namespace keeps its row through the grace period; its name is free at once.
CREATE UNIQUE INDEX namespaces_live ON namespaces (tenant_id, name) WHERE deleted_at IS NULL;

CREATE INDEX namespaces_of_tenant ON namespaces (tenant_id, name);

-- A NULL entry says that the key is gone.
CREATE TABLE pending (
    namespace_id BIGINT NOT NULL REFERENCES namespaces (id),
    plane TEXT COLLATE "C" NOT NULL,
    key BYTEA NOT NULL,
    entry BYTEA,
    sequence BIGINT NOT NULL,
    PRIMARY KEY (namespace_id, plane, key)
);

-- Up to where the log of an open store is in the rows of its namespace.
CREATE TABLE logs (
    namespace_id BIGINT PRIMARY KEY REFERENCES namespaces (id),
    name TEXT COLLATE "C" NOT NULL,
    position BIGINT NOT NULL
);

CREATE TABLE snapshots (
    id TEXT COLLATE "C" PRIMARY KEY,
    namespace_id BIGINT NOT NULL REFERENCES namespaces (id),
    number BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    root BYTEA NOT NULL,
    parent TEXT COLLATE "C",
    target TEXT COLLATE "C",
    label TEXT COLLATE "C",
    reason TEXT COLLATE "C",
    actor TEXT COLLATE "C",
    task_id TEXT COLLATE "C",
    trace_id TEXT COLLATE "C",
    pinned BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    deleted_at BIGINT,
    entries BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    detail TEXT COLLATE "C" NOT NULL DEFAULT '{}',
    UNIQUE (namespace_id, number)
);

CREATE TABLE packs (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id),
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    -- writing: announced, its bytes may or may not be there; stored: complete.
    state TEXT COLLATE "C" NOT NULL,
    -- inline packs keep their bytes in pack_data, the others in the blob store.
    is_inline BIGINT NOT NULL,
    writer TEXT COLLATE "C",
    size_bytes BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE INDEX packs_of_tenant ON packs (tenant_id, size_bytes);

CREATE TABLE pack_data (
    pack_id BIGINT PRIMARY KEY REFERENCES packs (id),
    data BYTEA NOT NULL
);

-- Its blocks are compressed already. Left as they are, one is read without the others.
ALTER TABLE pack_data ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE objects (
    tenant_id BIGINT NOT NULL,
    id BYTEA NOT NULL,
    pack_id BIGINT NOT NULL,
    block_offset BIGINT NOT NULL,
    block_size BIGINT NOT NULL,
    place BIGINT NOT NULL,
    size BIGINT NOT NULL,
    touched BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id)
);

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

-- Those that will end: what a server asks for every second.
CREATE INDEX sessions_by_end ON sessions (expires_at)
WHERE expires_at IS NOT NULL AND is_present = 1 AND deleted_at IS NULL;

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

CREATE TABLE traces (
    tenant_id BIGINT NOT NULL,
    -- 1, 2, 3 without a gap: the order of the chain.
    number BIGINT NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    namespace_id BIGINT,
    session_id TEXT COLLATE "C",
    user_id TEXT COLLATE "C",
    agent_id TEXT COLLATE "C",
    action TEXT COLLATE "C" NOT NULL,
    resource_type TEXT COLLATE "C",
    resource_id TEXT COLLATE "C",
    actor TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    details TEXT COLLATE "C" NOT NULL,
    -- The hash of the trace before it, and its own over that and all of the above.
    previous BYTEA NOT NULL,
    hash BYTEA NOT NULL,
    PRIMARY KEY (tenant_id, number)
);

CREATE INDEX traces_by_time ON traces (tenant_id, created_at, number);

-- With what counting active sessions asks for.
CREATE INDEX traces_of_namespace
ON traces (namespace_id, created_at, number, session_id, agent_id);

CREATE INDEX traces_of_action ON traces (namespace_id, action, created_at, number);

CREATE INDEX traces_of_session ON traces (tenant_id, session_id, created_at, number)
WHERE session_id IS NOT NULL;

-- Where each chain ends: without it, nobody would miss the newest rows.
CREATE TABLE trace_ends (
    tenant_id BIGINT PRIMARY KEY,
    number BIGINT NOT NULL,
    hash BYTEA NOT NULL
);

-- Memories, and which of them hold a word.

CREATE TABLE memories (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id BIGINT NOT NULL REFERENCES namespaces (id),
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    session_id TEXT COLLATE "C",
    user_id TEXT COLLATE "C",
    agent_id TEXT COLLATE "C",
    type TEXT COLLATE "C" NOT NULL,
    tags TEXT COLLATE "C" NOT NULL,
    metadata TEXT COLLATE "C" NOT NULL,
    is_searchable BIGINT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    -- What it counts against a quota.
    bytes BIGINT NOT NULL,
    -- Its words as they are looked for, one space between two.
    terms TEXT COLLATE "C" NOT NULL,
    content TEXT COLLATE "C" NOT NULL,
    -- Little-endian float32.
    embedding BYTEA,
    -- Each word begins with its namespace: then none is shared by two. NULL if it is not searched.
    words TSVECTOR
);

-- With what a quota asks for.
CREATE INDEX memories_of_namespace ON memories (namespace_id, number, bytes);

CREATE INDEX memories_of_session ON memories (namespace_id, session_id)
WHERE session_id IS NOT NULL;

CREATE INDEX memories_searchable ON memories (namespace_id, number)
WHERE is_searchable = 1 AND deleted_at IS NULL;

CREATE INDEX memories_deleted ON memories (namespace_id, deleted_at)
WHERE deleted_at IS NOT NULL;

-- No list of words yet to be sorted in: every search would read it.
CREATE INDEX memories_by_words ON memories USING gin (words) WITH (fastupdate = off);

CREATE TABLE keys (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id),
    name TEXT COLLATE "C" NOT NULL,
    prefix TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    -- By name: it may not exist yet.
    namespace TEXT COLLATE "C",
    rate_limit BIGINT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    last_used_at BIGINT,
    requests BIGINT NOT NULL DEFAULT 0,
    -- SHA-256. Secrets have 256 random bits: nothing slower is needed.
    secret_hash BYTEA NOT NULL UNIQUE
);

CREATE INDEX keys_of_tenant ON keys (tenant_id, created_at);

-- What happened, for whoever listens.
CREATE TABLE events (
    tenant_id BIGINT NOT NULL REFERENCES tenants (id),
    number BIGINT NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    created_us BIGINT NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    -- No reference: what happened in a namespace that is gone did happen.
    namespace_id BIGINT,
    namespace TEXT COLLATE "C",
    data TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, number)
);

CREATE UNIQUE INDEX events_by_instant ON events (tenant_id, created_us);

CREATE INDEX events_of_namespace ON events (tenant_id, namespace, created_us);

-- Where a tenant's events end: whoever appends locks its row.
CREATE TABLE event_ends (
    tenant_id BIGINT PRIMARY KEY REFERENCES tenants (id),
    number BIGINT NOT NULL,
    created_us BIGINT NOT NULL
);

-- Who is told of events, and how that went.

CREATE TABLE webhooks (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id),
    url TEXT COLLATE "C" NOT NULL,
    -- A JSON array of types.
    events TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C",
    description TEXT COLLATE "C",
    -- As it is: deliveries are signed with it.
    secret TEXT COLLATE "C" NOT NULL,
    enabled BIGINT NOT NULL,
    disabled_reason TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    last_delivery_at BIGINT,
    last_delivery_ok BIGINT,
    last_delivery_status BIGINT,
    last_success_at BIGINT,
    -- The number of the last event that was looked at for it.
    cursor BIGINT NOT NULL
);

CREATE INDEX webhooks_of_tenant ON webhooks (tenant_id, created_at);

-- The outbox. What is sent is in `events`.
CREATE TABLE deliveries (
    id TEXT COLLATE "C" PRIMARY KEY,
    webhook_id TEXT COLLATE "C" NOT NULL REFERENCES webhooks (id),
    tenant_id BIGINT NOT NULL,
    event_number BIGINT NOT NULL,
    event_id TEXT COLLATE "C" NOT NULL,
    event_type TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    attempts BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    claimed_until BIGINT NOT NULL,
    finished_at BIGINT,
    status BIGINT,
    error TEXT COLLATE "C",
    UNIQUE (webhook_id, event_number)
);

-- Of each webhook by itself: one that has much to be told keeps nobody else waiting.
CREATE INDEX deliveries_due ON deliveries (webhook_id, next_at, event_number)
WHERE state = 'pending';

CREATE INDEX deliveries_finished ON deliveries (finished_at) WHERE state != 'pending';

CREATE TABLE tasks (
    id TEXT COLLATE "C" PRIMARY KEY,
    namespace_id BIGINT NOT NULL REFERENCES namespaces (id),
    name TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    rolls_back BIGINT NOT NULL,
    metadata TEXT COLLATE "C" NOT NULL,
    actor TEXT COLLATE "C",
    reason TEXT COLLATE "C",
    -- Snapshots by id: they may be gone.
    before_id TEXT COLLATE "C" NOT NULL,
    after_id TEXT COLLATE "C",
    restored_id TEXT COLLATE "C",
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    began BIGINT NOT NULL DEFAULT 0,
    is_named BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX tasks_of_namespace ON tasks (namespace_id, started_at, id);

CREATE TABLE schedules (
    id TEXT COLLATE "C" PRIMARY KEY,
    namespace_id BIGINT NOT NULL REFERENCES namespaces (id),
    cadence TEXT COLLATE "C" NOT NULL,
    amount BIGINT NOT NULL,
    label TEXT COLLATE "C",
    enabled BIGINT NOT NULL,
    only_if_changed BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    seen_sequence BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    last_run_at BIGINT,
    last_snapshot_id TEXT COLLATE "C",
    -- Why the last attempt came to nothing.
    last_error TEXT COLLATE "C"
);

CREATE INDEX schedules_of_namespace ON schedules (namespace_id);

CREATE INDEX schedules_due ON schedules (next_at) WHERE enabled = 1;

-- When what is done now and then was last done, whoever did it.
CREATE TABLE chores (
    name TEXT COLLATE "C" PRIMARY KEY,
    done_at BIGINT NOT NULL
);

CREATE TABLE replies (
    key_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    method TEXT COLLATE "C" NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    fingerprint BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    leased_until BIGINT NOT NULL,
    -- None while it is being worked on.
    status BIGINT,
    media_type TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (key_id, name, method, path)
);

CREATE INDEX replies_by_age ON replies (created_at);

-- What a session knows of things. An entity goes when its session's row goes.

CREATE TABLE entities (
    id TEXT COLLATE "C" PRIMARY KEY,
    namespace_id BIGINT NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    entity_type TEXT COLLATE "C" NOT NULL,
    entity_id TEXT COLLATE "C" NOT NULL,
    attributes TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    FOREIGN KEY (namespace_id, session_id) REFERENCES sessions (namespace_id, id)
    ON DELETE CASCADE
);

-- One of a kind and name in a session; a deleted one makes room at once.
CREATE UNIQUE INDEX entities_live
ON entities (namespace_id, session_id, entity_type, entity_id) WHERE deleted_at IS NULL;

CREATE INDEX entities_by_age ON entities (namespace_id, created_at, id);

-- What goes with a session; with what counting them asks for.
CREATE INDEX entities_of_session
ON entities (namespace_id, session_id, created_at, id, deleted_at);

CREATE INDEX entities_deleted ON entities (namespace_id, deleted_at)
WHERE deleted_at IS NOT NULL;

-- Objects that were sent ahead of the snapshot that will name them, by the namespace that they
-- were sent for. They outlive collection for a while, and go when a snapshot has named them.

CREATE TABLE received (
    namespace_id BIGINT NOT NULL,
    id BYTEA NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (namespace_id, id)
);

CREATE INDEX received_by_age ON received (namespace_id, received_at);

-- Packs that nothing here needs any more, and whose bytes are still there: an older catalog that
-- is brought back may name them. They go when their period ends.

CREATE TABLE retired (
    name TEXT PRIMARY KEY,
    -- NULL for what was found under no name: nobody can say whose it was.
    tenant_id BIGINT,
    size_bytes BIGINT NOT NULL,
    retired_at BIGINT NOT NULL
);
