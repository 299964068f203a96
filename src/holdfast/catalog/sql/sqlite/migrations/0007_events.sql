-- What happened, for whoever listens.

CREATE TABLE events (
    tenant_id INTEGER NOT NULL REFERENCES tenants (id),
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    type TEXT NOT NULL,
    -- No reference: what happened in a namespace that is gone did happen.
    namespace_id INTEGER,
    namespace TEXT,
    data TEXT NOT NULL,
    PRIMARY KEY (tenant_id, number)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX events_by_instant ON events (tenant_id, created_us);

CREATE INDEX events_of_namespace ON events (tenant_id, namespace, created_us);

-- Where a tenant's events end: whoever appends locks its row.
CREATE TABLE event_ends (
    tenant_id INTEGER PRIMARY KEY REFERENCES tenants (id),
    number INTEGER NOT NULL,
    created_us INTEGER NOT NULL
) STRICT;
