-- API keys, without their secrets.

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
    secret_hash BLOB NOT NULL UNIQUE
) STRICT;

CREATE INDEX keys_of_tenant ON keys (tenant_id, created_at);
