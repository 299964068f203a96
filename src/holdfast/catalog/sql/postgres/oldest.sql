-- Takes the tables of schema.sql, while they are empty, back to those of format 15: for the rows of a
-- backup of that time. The step of migrations/ then leads on from there.

DROP TABLE journal, counted, anchored, told, listening, lagging_memories, task_changes, erasures;

CREATE TABLE traces (
    tenant_id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    id TEXT NOT NULL,
    namespace_id BIGINT,
    session_id TEXT,
    user_id TEXT,
    agent_id TEXT,
    action TEXT NOT NULL,
    resource_type TEXT,
    resource_id TEXT,
    actor TEXT,
    created_at BIGINT NOT NULL,
    details TEXT NOT NULL,
    previous BYTEA NOT NULL,
    hash BYTEA NOT NULL,
    PRIMARY KEY (tenant_id, number)
);

CREATE TABLE trace_ends (
    tenant_id BIGINT PRIMARY KEY,
    number BIGINT NOT NULL,
    hash BYTEA NOT NULL
);

ALTER TABLE pending DROP COLUMN checksum;

ALTER TABLE tenants
    DROP COLUMN journal_number, DROP COLUMN journal_hash, DROP COLUMN checksum;

ALTER TABLE namespaces
    DROP COLUMN journal_number, DROP COLUMN journal_hash, DROP COLUMN unfolded,
    DROP COLUMN commits, DROP COLUMN purged, DROP COLUMN tasks, DROP COLUMN schedules,
    DROP COLUMN memories, DROP COLUMN entities, DROP COLUMN sessions,
    DROP COLUMN checksum;

DROP INDEX sessions_present;

CREATE INDEX sessions_by_age ON sessions (namespace_id, created_at, id);

ALTER TABLE snapshots DROP COLUMN checksum;

ALTER TABLE sessions DROP COLUMN seal;

ALTER TABLE versions
    DROP COLUMN journal, DROP COLUMN salt, DROP COLUMN seal,
    ADD COLUMN reasoning TEXT, ADD COLUMN actor TEXT;

ALTER TABLE branches DROP COLUMN seal;

ALTER TABLE turns
    DROP COLUMN stream, DROP COLUMN journal, DROP COLUMN salt, DROP COLUMN seal;

ALTER TABLE memories
    DROP CONSTRAINT memories_namespace_id_id_key, ADD UNIQUE (id), DROP COLUMN checksum;

ALTER TABLE keys DROP COLUMN checksum;

ALTER TABLE events DROP COLUMN checksum;

ALTER TABLE event_ends DROP COLUMN purged;

ALTER TABLE webhooks DROP COLUMN checksum;

ALTER TABLE deliveries DROP COLUMN checksum;

ALTER TABLE tasks DROP COLUMN within, DROP COLUMN beside_others, DROP COLUMN checksum;

ALTER TABLE schedules DROP COLUMN checksum;

ALTER TABLE entities DROP COLUMN checksum;
