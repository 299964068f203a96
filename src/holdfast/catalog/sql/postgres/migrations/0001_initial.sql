-- The first tables: tenants, namespaces, pending changes, snapshots, packs, objects.

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
    fork_root BYTEA
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
