-- Who is told of events, and how that went.

CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    tenant_id INTEGER NOT NULL REFERENCES tenants (id),
    url TEXT NOT NULL,
    -- A JSON array of types.
    events TEXT NOT NULL,
    namespace TEXT,
    description TEXT,
    -- As it is: deliveries are signed with it.
    secret TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    disabled_reason TEXT,
    created_at INTEGER NOT NULL,
    last_delivery_at INTEGER,
    last_delivery_ok INTEGER,
    last_delivery_status INTEGER,
    last_success_at INTEGER,
    -- The number of the last event that was looked at for it.
    cursor INTEGER NOT NULL
) STRICT;

CREATE INDEX webhooks_of_tenant ON webhooks (tenant_id, created_at);

-- The outbox. What is sent is in `events`.
CREATE TABLE deliveries (
    id TEXT PRIMARY KEY,
    webhook_id TEXT NOT NULL REFERENCES webhooks (id),
    tenant_id INTEGER NOT NULL,
    event_number INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    claimed_until INTEGER NOT NULL,
    finished_at INTEGER,
    status INTEGER,
    error TEXT,
    UNIQUE (webhook_id, event_number)
) STRICT;

-- Of each webhook by itself: one that has much to be told keeps nobody else waiting.
CREATE INDEX deliveries_due ON deliveries (webhook_id, next_at, event_number)
WHERE state = 'pending';

CREATE INDEX deliveries_finished ON deliveries (finished_at) WHERE state != 'pending';
