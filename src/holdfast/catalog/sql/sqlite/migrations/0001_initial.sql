-- The first tables: tenants, namespaces, pending changes, snapshots, packs, objects.

CREATE TABLE migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

CREATE TABLE tenants (
    -- AUTOINCREMENT: rows elsewhere may still name an id whose row is gone.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    public_id TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    quota_bytes INTEGER,
    -- Moved on by each collection. Objects carry the epoch they were last needed in.
    epoch INTEGER NOT NULL DEFAULT 1
) STRICT;

CREATE TABLE namespaces (
    -- AUTOINCREMENT: rows elsewhere may still name an id whose row is gone.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id INTEGER NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    generation INTEGER NOT NULL DEFAULT 0,
    sequence INTEGER NOT NULL DEFAULT 0,
    root BLOB NOT NULL,
    position TEXT,
    redo TEXT NOT NULL DEFAULT '[]',
    entries INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    deleted_at INTEGER,
    quota_bytes INTEGER,
    retention TEXT,
    fork_of INTEGER,
    fork_root BLOB
) STRICT;

-- A deleted namespace keeps its row through the grace period; its name is free at once.
CREATE UNIQUE INDEX namespaces_live ON namespaces (tenant_id, name) WHERE deleted_at IS NULL;

CREATE INDEX namespaces_of_tenant ON namespaces (tenant_id, name);

-- A NULL entry says that the key is gone.
CREATE TABLE pending (
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    plane TEXT NOT NULL,
    key BLOB NOT NULL,
    entry BLOB,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (namespace_id, plane, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE snapshots (
    id TEXT PRIMARY KEY,
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    root BLOB NOT NULL,
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
    UNIQUE (namespace_id, number)
) STRICT;

CREATE TABLE packs (
    -- AUTOINCREMENT: rows elsewhere may still name an id whose row is gone.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id INTEGER NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL UNIQUE,
    -- writing: announced, its bytes may or may not be there; stored: complete.
    state TEXT NOT NULL,
    -- inline packs keep their bytes in pack_data, the others in the blob store.
    is_inline INTEGER NOT NULL,
    writer TEXT,
    size_bytes INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX packs_of_tenant ON packs (tenant_id, size_bytes);

CREATE TABLE pack_data (
    pack_id INTEGER PRIMARY KEY REFERENCES packs (id),
    data BLOB NOT NULL
) STRICT;

CREATE TABLE objects (
    tenant_id INTEGER NOT NULL,
    id BLOB NOT NULL,
    pack_id INTEGER NOT NULL,
    block_offset INTEGER NOT NULL,
    block_size INTEGER NOT NULL,
    place INTEGER NOT NULL,
    size INTEGER NOT NULL,
    touched INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;
