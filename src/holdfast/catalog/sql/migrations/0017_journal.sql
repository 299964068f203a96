-- What was done, in a chain for each namespace and one for the tenant itself: whoever writes to a
-- namespace has its row locked already, and there the end of its chain stands.
-- The one chain that a tenant had goes on as its own.

ALTER TABLE tenants ADD COLUMN journal_number INTEGER NOT NULL DEFAULT 0;

ALTER TABLE tenants ADD COLUMN journal_hash BYTES;

-- How many rows the namespace's chain has, and the hash of the newest; NULL if there is none.
ALTER TABLE namespaces ADD COLUMN journal_number INTEGER NOT NULL DEFAULT 0;

ALTER TABLE namespaces ADD COLUMN journal_hash BYTES;

CREATE TABLE journal (
    tenant_id INTEGER NOT NULL,
    -- Which chain it is in: that of the namespace with this id, or with 0 the tenant's own.
    stream INTEGER NOT NULL,
    -- 1, 2, 3 without a gap: the order of the chain.
    number INTEGER NOT NULL,
    -- How it is hashed: 0 for what was in the tenant's one chain.
    format INTEGER NOT NULL,
    -- done: by one of our operations; added: by somebody who only tells of it; anchor: where other
    -- chains ended.
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
    PRIMARY KEY (tenant_id, stream, number)
) BY KEY;

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

CREATE INDEX journal_by_time ON journal (tenant_id, created_at, stream, number);

-- With what counting active sessions asks for.
CREATE INDEX journal_of_namespace
ON journal (namespace_id, created_at, stream, number, session_id, agent_id);

CREATE INDEX journal_of_action ON journal (namespace_id, action, created_at, stream, number);

CREATE INDEX journal_of_session ON journal (tenant_id, session_id, created_at, stream, number)
WHERE session_id IS NOT NULL;

-- Up to which row of each namespace's chain the tenant's own has an anchor.
CREATE TABLE anchored (
    tenant_id INTEGER NOT NULL,
    namespace_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, namespace_id)
) BY KEY;
