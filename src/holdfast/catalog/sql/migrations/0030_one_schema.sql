-- From format 15, the oldest that is carried on, to the tables of schema.sql. MAKE stands for what
-- makes a table there, with its indexes. `sealing.py` does the rest.

DELETE FROM migrations;

-- The one chain that a tenant had goes on as its own.

ALTER TABLE tenants ADD COLUMN journal_number INTEGER NOT NULL DEFAULT 0;

ALTER TABLE tenants ADD COLUMN journal_hash BYTES;

ALTER TABLE namespaces ADD COLUMN journal_number INTEGER NOT NULL DEFAULT 0;

ALTER TABLE namespaces ADD COLUMN journal_hash BYTES;

-- Of what is pending nobody has kept it.
ALTER TABLE namespaces ADD COLUMN unfolded INTEGER DEFAULT 0;

UPDATE namespaces SET unfolded = NULL
WHERE EXISTS (SELECT 1 FROM pending p WHERE p.namespace_id = namespaces.id);

ALTER TABLE namespaces ADD COLUMN commits INTEGER NOT NULL DEFAULT 0;

ALTER TABLE namespaces ADD COLUMN purged INTEGER NOT NULL DEFAULT 0;

ALTER TABLE namespaces ADD COLUMN tasks INTEGER NOT NULL DEFAULT 0;

ALTER TABLE namespaces ADD COLUMN schedules INTEGER NOT NULL DEFAULT 0;

ALTER TABLE namespaces ADD COLUMN memories INTEGER NOT NULL DEFAULT 0;

ALTER TABLE namespaces ADD COLUMN entities INTEGER NOT NULL DEFAULT 0;

ALTER TABLE namespaces ADD COLUMN sessions INTEGER NOT NULL DEFAULT 0;

UPDATE namespaces
SET purged = generation - (SELECT COUNT(*) FROM snapshots s WHERE s.namespace_id = namespaces.id),
    tasks = (SELECT COUNT(*) FROM tasks t WHERE t.namespace_id = namespaces.id),
    schedules = (SELECT COUNT(*) FROM schedules s WHERE s.namespace_id = namespaces.id),
    memories = (
        SELECT COUNT(*) FROM memories m
        WHERE m.namespace_id = namespaces.id AND m.deleted_at IS NULL),
    entities = (
        SELECT COUNT(*) FROM entities e
        WHERE e.namespace_id = namespaces.id AND e.deleted_at IS NULL),
    sessions = (
    SELECT COUNT(*) FROM sessions s WHERE s.namespace_id = namespaces.id AND s.is_present = 1);

MAKE counted;

INSERT INTO counted (tenant_id, namespaces, keys, webhooks)
SELECT id, (SELECT COUNT(*) FROM namespaces n WHERE n.tenant_id = tenants.id),
       (SELECT COUNT(*) FROM keys k WHERE k.tenant_id = tenants.id),
       (SELECT COUNT(*) FROM webhooks w WHERE w.tenant_id = tenants.id)
FROM tenants;

DROP INDEX sessions_by_age;

MAKE sessions_present;

MAKE journal;

INSERT INTO journal
    (tenant_id, stream, number, format, kind, id, namespace_id, session_id, user_id, agent_id,
     action, resource_type, resource_id, actor, created_at, details, previous, hash)
SELECT tenant_id, 0, number, 0, 'done', id, namespace_id, session_id, user_id, agent_id,
       action, resource_type, resource_id, actor, created_at, details, previous, hash
FROM traces;

UPDATE tenants
SET journal_number = (SELECT e.number FROM trace_ends e WHERE e.tenant_id = tenants.id),
    journal_hash = (SELECT e.hash FROM trace_ends e WHERE e.tenant_id = tenants.id)
WHERE EXISTS (SELECT 1 FROM trace_ends e WHERE e.tenant_id = tenants.id);

DROP TABLE traces;

DROP TABLE trace_ends;

MAKE anchored;

-- Versions and turns become parts of rows of the journal.

ALTER TABLE sessions ADD COLUMN seal BYTES;

ALTER TABLE branches ADD COLUMN seal BYTES;

ALTER TABLE versions ADD COLUMN journal INTEGER;

ALTER TABLE versions ADD COLUMN salt BYTES;

ALTER TABLE versions ADD COLUMN seal BYTES;

ALTER TABLE turns ADD COLUMN stream INTEGER;

ALTER TABLE turns ADD COLUMN journal INTEGER;

ALTER TABLE turns ADD COLUMN salt BYTES;

ALTER TABLE turns ADD COLUMN seal BYTES;

-- Where events were told, somebody did listen.

MAKE told;

MAKE listening;

INSERT INTO listening (what, since)
SELECT 'events', 0 WHERE EXISTS (SELECT 1 FROM event_ends) OR EXISTS (SELECT 1 FROM webhooks);

MAKE task_changes;

ALTER TABLE tasks ADD COLUMN within TEXT NOT NULL DEFAULT '[]';

ALTER TABLE tasks ADD COLUMN beside_others INTEGER NOT NULL DEFAULT 0;

-- What is there has no checksum, until it is written again.

ALTER TABLE pending ADD COLUMN checksum INTEGER;

ALTER TABLE tenants ADD COLUMN checksum INTEGER;

ALTER TABLE namespaces ADD COLUMN checksum INTEGER;

ALTER TABLE snapshots ADD COLUMN checksum INTEGER;

ALTER TABLE entities ADD COLUMN checksum INTEGER;

ALTER TABLE keys ADD COLUMN checksum INTEGER;

ALTER TABLE events ADD COLUMN checksum INTEGER;

ALTER TABLE webhooks ADD COLUMN checksum INTEGER;

ALTER TABLE deliveries ADD COLUMN checksum INTEGER;

ALTER TABLE tasks ADD COLUMN checksum INTEGER;

ALTER TABLE schedules ADD COLUMN checksum INTEGER;

-- Memories become a plane; what each database has to do for that is in its own file.

MAKE lagging_memories;

ALTER TABLE event_ends ADD COLUMN purged INTEGER NOT NULL DEFAULT 0;

UPDATE event_ends
SET purged = COALESCE(
    (SELECT MIN(e.number) FROM events e WHERE e.tenant_id = event_ends.tenant_id) - 1, number);

-- Nothing was erased yet.

MAKE erasures;
