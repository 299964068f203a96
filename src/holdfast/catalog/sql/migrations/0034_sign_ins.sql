-- Who is signed in to the console, and the links by which somebody may.

CREATE TABLE sign_ins (
    -- SHA-256 of a token of 256 random bits, as of keys.
    token_hash BYTES PRIMARY KEY,
    tenant_id INTEGER NOT NULL REFERENCES tenants (id),
    -- 1 for a link, which one sign-in takes away.
    is_link INTEGER NOT NULL,
    runtime_key TEXT,
    admin_key TEXT,
    created_at INTEGER NOT NULL,
    -- When it was last used, to the minute.
    seen_at INTEGER NOT NULL
);

CREATE INDEX sign_ins_of_tenant ON sign_ins (tenant_id);
