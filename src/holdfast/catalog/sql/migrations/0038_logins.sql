-- Programs that wait for a person to sign them in, and what was decided of each.

CREATE TABLE logins (
    -- SHA-256 of what the program asks by, and of what the person types.
    device_hash BYTES PRIMARY KEY,
    user_hash BYTES NOT NULL,
    -- What the program says that it is, and where it asks from.
    client TEXT NOT NULL,
    address TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- Whose operator has decided, and with which key; none while nobody has.
    tenant_id INTEGER REFERENCES tenants (id),
    decided_by TEXT,
    is_denied INTEGER NOT NULL,
    -- The key that is made when the program asks again.
    name TEXT,
    scope TEXT,
    namespace TEXT,
    expires_in INTEGER
);

CREATE UNIQUE INDEX logins_by_code ON logins (user_hash);
