-- The tables, as SQLite and PostgreSQL both have them. `tables.py` makes each one's text of this;
-- what only one of them has (indexes of words, how bytes are stored) is in its own tables.sql.
--
--   INTEGER    64 bits; an instant is so many microseconds since 1970 in UTC, a yes or no 1 or 0
--   TEXT       compared by its bytes
--   BYTES
--   IDENTITY   the primary key, a number that the database gives out, and never again: rows
--              elsewhere may still name one whose row is gone
--   ) BY KEY   the rows lie in the order of the primary key
--
-- `checksum` and `seal` are of the row that has them (`rows.py`, `hashing.py`).
--
-- This is format 29. What later formats change is in migrations/, for vaults that are there and for
-- new ones alike.

CREATE TABLE migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at INTEGER NOT NULL
);

CREATE TABLE tenants (
    id IDENTITY,
    name TEXT NOT NULL UNIQUE,
    public_id TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    quota_bytes INTEGER,
    -- Moved on by each collection. Objects carry the epoch they were last needed in.
    epoch INTEGER NOT NULL DEFAULT 1,
    -- How many rows its own chain has, and the hash of the newest; NULL if there is none.
    journal_number INTEGER NOT NULL DEFAULT 0,
    journal_hash BYTES,
    checksum INTEGER
);

CREATE TABLE namespaces (
    id IDENTITY,
    tenant_id INTEGER NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    generation INTEGER NOT NULL DEFAULT 0,
    sequence INTEGER NOT NULL DEFAULT 0,
    root BYTES NOT NULL,
    position TEXT,
    redo TEXT NOT NULL DEFAULT '[]',
    entries INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    deleted_at INTEGER,
    quota_bytes INTEGER,
    retention TEXT,
    fork_of INTEGER,
    fork_root BYTES,
    -- Who has changed it last, and since when nobody else has.
    writer TEXT NOT NULL DEFAULT '',
    -- How many rows its chain has, and the hash of the newest; NULL if there is none.
    journal_number INTEGER NOT NULL DEFAULT 0,
    journal_hash BYTES,
    -- The sum of the marks of all keys that are pending; NULL if not known.
    unfolded INTEGER DEFAULT 0,
    -- On SQLite, the count of the last commit that has changed it.
    commits INTEGER NOT NULL DEFAULT 0,
    -- How many rows there are of what is listed: a list that lacks one is noticed by it. Snapshots
    -- are numbered: of these, how many are no more. Memories and entities without deleted ones, and
    -- sessions that are present.
    purged INTEGER NOT NULL DEFAULT 0,
    tasks INTEGER NOT NULL DEFAULT 0,
    schedules INTEGER NOT NULL DEFAULT 0,
    memories INTEGER NOT NULL DEFAULT 0,
    entities INTEGER NOT NULL DEFAULT 0,
    sessions INTEGER NOT NULL DEFAULT 0,
    checksum INTEGER
);

-- The same for what a tenant has. Not in its own row: whoever makes a namespace would keep others
-- from it.
CREATE TABLE counted (
    tenant_id INTEGER PRIMARY KEY REFERENCES tenants (id),
    namespaces INTEGER NOT NULL,
    keys INTEGER NOT NULL,
    webhooks INTEGER NOT NULL
);

-- A deleted namespace keeps its row through the grace period; its name is free at once.
CREATE UNIQUE INDEX namespaces_live ON namespaces (tenant_id, name) WHERE deleted_at IS NULL;

CREATE INDEX namespaces_of_tenant ON namespaces (tenant_id, name);

-- A NULL entry says that the key is gone.
CREATE TABLE pending (
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    plane TEXT NOT NULL,
    key BYTES NOT NULL,
    entry BYTES,
    sequence INTEGER NOT NULL,
    checksum INTEGER,
    PRIMARY KEY (namespace_id, plane, key)
) BY KEY;

-- Up to where the log of an open store is in the rows of its namespace.
CREATE TABLE logs (
    namespace_id INTEGER PRIMARY KEY REFERENCES namespaces (id),
    name TEXT NOT NULL,
    position INTEGER NOT NULL
);

CREATE TABLE snapshots (
    id TEXT PRIMARY KEY,
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    root BYTES NOT NULL,
    parent TEXT,
    target TEXT,
    label TEXT,
    reason TEXT,
    actor TEXT,
    task_id TEXT,
    trace_id TEXT,
    pinned INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    deleted_at INTEGER,
    entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    detail TEXT NOT NULL DEFAULT '{}',
    checksum INTEGER,
    UNIQUE (namespace_id, number)
);

CREATE TABLE packs (
    id IDENTITY,
    tenant_id INTEGER NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL UNIQUE,
    -- writing: announced, its bytes may or may not be there; stored: complete.
    state TEXT NOT NULL,
    -- inline packs keep their bytes in pack_data, the others in the blob store.
    is_inline INTEGER NOT NULL,
    writer TEXT,
    size_bytes INTEGER NOT NULL,
    created_at INTEGER NOT NULL
);

CREATE INDEX packs_of_tenant ON packs (tenant_id, size_bytes);

CREATE TABLE pack_data (
    pack_id INTEGER PRIMARY KEY REFERENCES packs (id),
    data BYTES NOT NULL
);

CREATE TABLE objects (
    tenant_id INTEGER NOT NULL,
    id BYTES NOT NULL,
    pack_id INTEGER NOT NULL,
    block_offset INTEGER NOT NULL,
    block_size INTEGER NOT NULL,
    place INTEGER NOT NULL,
    size INTEGER NOT NULL,
    touched INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, id)
) BY KEY;

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
    seal BYTES,
    PRIMARY KEY (namespace_id, id)
);

-- Those that lists show; they are counted by it, too.
CREATE INDEX sessions_present ON sessions (namespace_id, created_at, id) WHERE is_present = 1;

CREATE INDEX sessions_by_origin ON sessions (namespace_id, forked_from)
WHERE forked_from IS NOT NULL;

-- Those that will end: what a server asks for every second.
CREATE INDEX sessions_by_end ON sessions (expires_at)
WHERE expires_at IS NOT NULL AND is_present = 1 AND deleted_at IS NULL;

CREATE TABLE versions (
    namespace_id INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    state BYTES NOT NULL,
    bytes INTEGER NOT NULL,
    branch TEXT NOT NULL,
    turns INTEGER NOT NULL,
    -- The version whose state came back.
    target INTEGER,
    trace_id TEXT,
    created_at INTEGER NOT NULL,
    -- The row of the namespace's chain that has its hash, why it was made, and by whom.
    journal INTEGER,
    salt BYTES,
    seal BYTES,
    PRIMARY KEY (namespace_id, session_id, number)
);

-- A conversation that went back and on has branches. `turns` counts its parent's, too.
CREATE TABLE branches (
    id TEXT PRIMARY KEY,
    tenant_id INTEGER NOT NULL,
    parent TEXT,
    parent_turns INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    -- Of its own turns: what they count against a quota.
    bytes INTEGER NOT NULL,
    seal BYTES
) BY KEY;

CREATE INDEX branches_of_tenant ON branches (tenant_id, bytes);

CREATE TABLE turns (
    branch TEXT NOT NULL,
    number INTEGER NOT NULL,
    id TEXT NOT NULL UNIQUE,
    data BYTES NOT NULL,
    created_at INTEGER NOT NULL,
    -- The chain that has its hash, and the row there.
    stream INTEGER,
    journal INTEGER,
    salt BYTES,
    seal BYTES,
    PRIMARY KEY (branch, number)
);

-- Namespaces whose sessions have no rows yet: forks, until somebody asks for a session of theirs.
CREATE TABLE lagging (
    namespace_id INTEGER PRIMARY KEY REFERENCES namespaces (id)
);

-- What was done, in a chain for each namespace and one for the tenant itself: whoever writes to a
-- namespace has its row locked already, and there the end of its chain stands.
CREATE TABLE journal (
    tenant_id INTEGER NOT NULL,
    -- Which chain it is in: that of the namespace with this id, or with 0 the tenant's own.
    stream INTEGER NOT NULL,
    -- 1, 2, 3 without a gap: the order of the chain.
    number INTEGER NOT NULL,
    -- How it is hashed: 0 for what was in the tenant's one chain.
    format INTEGER NOT NULL,
    -- done: by one of our operations; added: by somebody who only tells of it; anchor: where other
    -- chains ended; kept: a version or a turn that came with something else.
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    namespace_id INTEGER,
    session_id TEXT,
    user_id TEXT,
    agent_id TEXT,
    action TEXT NOT NULL,
    resource_type TEXT,
    resource_id TEXT,
    -- The number of the version that it made.
    version INTEGER,
    task_id TEXT,
    actor TEXT,
    created_at INTEGER NOT NULL,
    details TEXT NOT NULL,
    -- Random bytes that are hashed with the details, so that nobody guesses what was taken out.
    salt BYTES,
    -- The hash of the row before it, and its own over that and all of the above.
    previous BYTES NOT NULL,
    hash BYTES NOT NULL,
    -- Of the version and of the turn that it made.
    version_hash BYTES,
    turn_hash BYTES,
    -- Those of the snapshots that it tells of, behind random bytes; or, once taken out, their hash.
    roots BYTES,
    PRIMARY KEY (tenant_id, stream, number)
) BY KEY;

CREATE INDEX journal_by_time ON journal (tenant_id, created_at, stream, number);

-- With what counting active sessions asks for, and what is looked for among all that is done.
CREATE INDEX journal_of_namespace
ON journal (namespace_id, created_at, stream, number, session_id, agent_id, action);

-- Of what is done rarely. What sessions do all the time is found among all that is done.
CREATE INDEX journal_of_action ON journal (namespace_id, action, created_at, stream, number)
WHERE action <> 'state.updated' AND action <> 'turn.added';

CREATE INDEX journal_of_session ON journal (tenant_id, session_id, created_at, stream, number)
WHERE session_id IS NOT NULL;

-- Up to which row of each namespace's chain the tenant's own has an anchor.
CREATE TABLE anchored (
    tenant_id INTEGER NOT NULL,
    namespace_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, namespace_id)
) BY KEY;

-- Memories, and which of them hold a word. They are a plane of the snapshot; rows hold what they are
-- now, and are what is searched.

CREATE TABLE memories (
    number IDENTITY,
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    -- One namespace's own: a fork has the memories of its origin under the same ids.
    id TEXT NOT NULL,
    session_id TEXT,
    user_id TEXT,
    agent_id TEXT,
    type TEXT NOT NULL,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    is_searchable INTEGER NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    -- What it counts against a quota.
    bytes INTEGER NOT NULL,
    -- Its words as they are looked for, one space between two.
    terms TEXT NOT NULL,
    content TEXT NOT NULL,
    -- Little-endian float32. Last: what reads the columns before it does not read so much.
    embedding BYTES,
    checksum INTEGER,
    UNIQUE (namespace_id, id)
);

-- In the order in which they are listed; with what a quota asks for.
CREATE INDEX memories_of_namespace ON memories (namespace_id, created_at, number, bytes);

CREATE INDEX memories_of_session ON memories (namespace_id, session_id)
WHERE session_id IS NOT NULL;

CREATE INDEX memories_deleted ON memories (namespace_id, deleted_at)
WHERE deleted_at IS NOT NULL;

-- Namespaces whose memories have no rows yet: forks, until somebody asks for a memory of theirs.
CREATE TABLE lagging_memories (
    namespace_id INTEGER PRIMARY KEY REFERENCES namespaces (id)
);

CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    tenant_id INTEGER NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    prefix TEXT NOT NULL,
    scope TEXT NOT NULL,
    -- By name: it may not exist yet.
    namespace TEXT,
    rate_limit INTEGER,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    last_used_at INTEGER,
    requests INTEGER NOT NULL DEFAULT 0,
    -- SHA-256. Secrets have 256 random bits: nothing slower is needed.
    secret_hash BYTES NOT NULL UNIQUE,
    checksum INTEGER
);

CREATE INDEX keys_of_tenant ON keys (tenant_id, created_at);

-- What happened, for whoever listens.
CREATE TABLE events (
    tenant_id INTEGER NOT NULL REFERENCES tenants (id),
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    type TEXT NOT NULL,
    -- No reference: what happened in a namespace that is gone did happen.
    namespace_id INTEGER,
    namespace TEXT,
    data TEXT NOT NULL,
    checksum INTEGER,
    PRIMARY KEY (tenant_id, number)
) BY KEY;

CREATE UNIQUE INDEX events_by_instant ON events (tenant_id, created_us);

CREATE INDEX events_of_namespace ON events (tenant_id, namespace, created_us);

-- Where a tenant's events end: whoever appends locks its row.
CREATE TABLE event_ends (
    tenant_id INTEGER PRIMARY KEY REFERENCES tenants (id),
    number INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    -- Up to which number they are no longer kept.
    purged INTEGER NOT NULL DEFAULT 0
);

-- What was told and has no number yet: writers put it here and wait for nobody, and whoever asks
-- for events numbers it first.
CREATE TABLE told (
    -- In a namespace, the order in which it was told.
    position IDENTITY,
    tenant_id INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    type TEXT NOT NULL,
    namespace_id INTEGER,
    namespace TEXT,
    data TEXT NOT NULL,
    checksum INTEGER
);

CREATE INDEX told_of_tenant ON told (tenant_id, position);

-- Whether somebody listens to events, and since when: without the row, none is told.
CREATE TABLE listening (
    what TEXT PRIMARY KEY,
    since INTEGER NOT NULL
);

-- Who is told of events, and how that went.

CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    tenant_id INTEGER NOT NULL REFERENCES tenants (id),
    url TEXT NOT NULL,
    -- A JSON array of types.
    events TEXT NOT NULL,
    namespace TEXT,
    description TEXT,
    -- As it is: deliveries are signed with it.
    secret TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    disabled_reason TEXT,
    created_at INTEGER NOT NULL,
    last_delivery_at INTEGER,
    last_delivery_ok INTEGER,
    last_delivery_status INTEGER,
    last_success_at INTEGER,
    -- The number of the last event that was looked at for it.
    cursor INTEGER NOT NULL,
    checksum INTEGER
);

CREATE INDEX webhooks_of_tenant ON webhooks (tenant_id, created_at);

-- The outbox. What is sent is in `events`.
CREATE TABLE deliveries (
    id TEXT PRIMARY KEY,
    webhook_id TEXT NOT NULL REFERENCES webhooks (id),
    tenant_id INTEGER NOT NULL,
    event_number INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    claimed_until INTEGER NOT NULL,
    finished_at INTEGER,
    status INTEGER,
    error TEXT,
    checksum INTEGER,
    UNIQUE (webhook_id, event_number)
);

-- Of each webhook by itself: one that has much to be told keeps nobody else waiting.
CREATE INDEX deliveries_due ON deliveries (webhook_id, next_at, event_number)
WHERE state = 'pending';

CREATE INDEX deliveries_finished ON deliveries (finished_at) WHERE state != 'pending';

CREATE TABLE tasks (
    id TEXT PRIMARY KEY,
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    rolls_back INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    actor TEXT,
    reason TEXT,
    -- Snapshots by id: they may be gone.
    before_id TEXT NOT NULL,
    after_id TEXT,
    restored_id TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    began INTEGER NOT NULL DEFAULT 0,
    is_named INTEGER NOT NULL DEFAULT 0,
    -- The tasks that it was begun in, outermost first.
    within TEXT NOT NULL DEFAULT '[]',
    -- Whether others changed the namespace while it ran, where its changes do not name it.
    beside_others INTEGER NOT NULL DEFAULT 0,
    checksum INTEGER
);

CREATE INDEX tasks_of_namespace ON tasks (namespace_id, started_at, id);

-- What each task changed: once for each key, as it was before the task's first change of it and as
-- the task's last one has left it; NULL where there was nothing.
CREATE TABLE task_changes (
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    task_id TEXT NOT NULL,
    plane TEXT NOT NULL,
    key BYTES NOT NULL,
    old_entry BYTES,
    old_sum INTEGER NOT NULL,
    new_entry BYTES,
    new_sum INTEGER NOT NULL,
    -- Whether somebody else changed it between two changes of the task's own.
    is_shared INTEGER NOT NULL,
    PRIMARY KEY (namespace_id, task_id, plane, key)
) BY KEY;

CREATE TABLE schedules (
    id TEXT PRIMARY KEY,
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    cadence TEXT NOT NULL,
    amount INTEGER NOT NULL,
    label TEXT,
    enabled INTEGER NOT NULL,
    only_if_changed INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    seen_sequence INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    last_run_at INTEGER,
    last_snapshot_id TEXT,
    -- Why the last attempt came to nothing.
    last_error TEXT,
    checksum INTEGER
);

CREATE INDEX schedules_of_namespace ON schedules (namespace_id);

CREATE INDEX schedules_due ON schedules (next_at) WHERE enabled = 1;

-- When what is done now and then was last done, whoever did it.
CREATE TABLE chores (
    name TEXT PRIMARY KEY,
    done_at INTEGER NOT NULL
);

CREATE TABLE replies (
    key_id TEXT NOT NULL,
    name TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    fingerprint BYTES NOT NULL,
    created_at INTEGER NOT NULL,
    leased_until INTEGER NOT NULL,
    -- None while it is being worked on.
    status INTEGER,
    media_type TEXT NOT NULL,
    body BYTES NOT NULL,
    PRIMARY KEY (key_id, name, method, path)
);

CREATE INDEX replies_by_age ON replies (created_at);

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
    checksum INTEGER,
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
    namespace_id INTEGER NOT NULL,
    id BYTES NOT NULL,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (namespace_id, id)
) BY KEY;

CREATE INDEX received_by_age ON received (namespace_id, received_at);

-- Packs that nothing here needs any more, and whose bytes are still there: an older catalog that
-- is brought back may name them. They go when their period ends.

CREATE TABLE retired (
    name TEXT PRIMARY KEY,
    -- NULL for what was found under no name: nobody can say whose it was.
    tenant_id INTEGER,
    size_bytes INTEGER NOT NULL,
    retired_at INTEGER NOT NULL
) BY KEY;

-- What was erased for good, or is about to be: until there is a certificate, bytes may be left.
CREATE TABLE erasures (
    id TEXT PRIMARY KEY,
    tenant_id INTEGER NOT NULL,
    -- namespace, session or user.
    what TEXT NOT NULL,
    -- No reference: it may be gone.
    namespace_id INTEGER,
    namespace TEXT,
    -- The id of the session, or of the user.
    subject TEXT,
    begun_at INTEGER NOT NULL,
    -- What is known of it so far, or the certificate: JSON.
    told TEXT NOT NULL,
    finished_at INTEGER,
    checksum INTEGER
);

CREATE INDEX erasures_of_tenant ON erasures (tenant_id, begun_at, id);
