-- What happened, for whoever listens.

CREATE TABLE events (
    tenant_id BIGINT NOT NULL REFERENCES tenants (id),
    number BIGINT NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    created_us BIGINT NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    -- No reference: what happened in a namespace that is gone did happen.
    namespace_id BIGINT,
    namespace TEXT COLLATE "C",
    data TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, number)
);

CREATE UNIQUE INDEX events_by_instant ON events (tenant_id, created_us);

CREATE INDEX events_of_namespace ON events (tenant_id, namespace, created_us);

-- Where a tenant's events end: whoever appends locks its row.
CREATE TABLE event_ends (
    tenant_id BIGINT PRIMARY KEY REFERENCES tenants (id),
    number BIGINT NOT NULL,
    created_us BIGINT NOT NULL
);
