-- API keys, without their secrets.

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
