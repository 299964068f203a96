-- Traces: what happened, as a chain that shows when it was changed.

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
