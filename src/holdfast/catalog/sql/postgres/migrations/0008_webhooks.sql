-- Who is told of events, and how that went.

CREATE TABLE webhooks (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id),
    url TEXT COLLATE "C" NOT NULL,
    -- A JSON array of types.
    events TEXT COLLATE "C" NOT NULL,
    namespace TEXT COLLATE "C",
    description TEXT COLLATE "C",
    -- As it is: deliveries are signed with it.
    secret TEXT COLLATE "C" NOT NULL,
    enabled BIGINT NOT NULL,
    disabled_reason TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    last_delivery_at BIGINT,
    last_delivery_ok BIGINT,
    last_delivery_status BIGINT,
    last_success_at BIGINT,
    -- The number of the last event that was looked at for it.
    cursor BIGINT NOT NULL
);

CREATE INDEX webhooks_of_tenant ON webhooks (tenant_id, created_at);

-- The outbox. What is sent is in `events`.
CREATE TABLE deliveries (
    id TEXT COLLATE "C" PRIMARY KEY,
    webhook_id TEXT COLLATE "C" NOT NULL REFERENCES webhooks (id),
    tenant_id BIGINT NOT NULL,
    event_number BIGINT NOT NULL,
    event_id TEXT COLLATE "C" NOT NULL,
    event_type TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    attempts BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    claimed_until BIGINT NOT NULL,
    finished_at BIGINT,
    status BIGINT,
    error TEXT COLLATE "C",
    UNIQUE (webhook_id, event_number)
);

-- Of each webhook by itself: one that has much to be told keeps nobody else waiting.
CREATE INDEX deliveries_due ON deliveries (webhook_id, next_at, event_number)
WHERE state = 'pending';

CREATE INDEX deliveries_finished ON deliveries (finished_at) WHERE state != 'pending';
