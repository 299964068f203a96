-- Traces: what happened, as a chain that shows when it was changed.

CREATE TABLE traces (
    tenant_id INTEGER NOT NULL,
    -- 1, 2, 3 without a gap: the order of the chain.
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    namespace_id INTEGER,
    session_id TEXT,
    user_id TEXT,
    agent_id TEXT,
    action TEXT NOT NULL,
    resource_type TEXT,
    resource_id TEXT,
    actor TEXT,
    created_at INTEGER NOT NULL,
    details TEXT NOT NULL,
    -- The hash of the trace before it, and its own over that and all of the above.
    previous BLOB NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (tenant_id, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX traces_by_time ON traces (tenant_id, created_at, number);

-- With what counting active sessions asks for.
CREATE INDEX traces_of_namespace
ON traces (namespace_id, created_at, number, session_id, agent_id);

CREATE INDEX traces_of_action ON traces (namespace_id, action, created_at, number);

CREATE INDEX traces_of_session ON traces (tenant_id, session_id, created_at, number)
WHERE session_id IS NOT NULL;

-- Where each chain ends: without it, nobody would miss the newest rows.
CREATE TABLE trace_ends (
    tenant_id INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;
