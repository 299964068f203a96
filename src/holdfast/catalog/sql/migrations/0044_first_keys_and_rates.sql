-- The secrets of keys that a server has made on its first start, until one of them is used.

CREATE TABLE first_keys (
    key_id TEXT PRIMARY KEY,
    tenant_id INTEGER NOT NULL REFERENCES tenants (id),
    secret TEXT NOT NULL
);

CREATE INDEX first_keys_of_tenant ON first_keys (tenant_id);

-- How many requests a key has left, in millionths, and as of when by the database's clock.

CREATE TABLE rates (
    key_id TEXT PRIMARY KEY,
    spare INTEGER,
    as_of INTEGER
);
