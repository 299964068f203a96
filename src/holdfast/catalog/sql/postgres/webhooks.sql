-- Whoever changes a webhook waits for its turn; whoever claims leaves alone what another claims.

-- name: lock_webhook
SELECT
    id, tenant_id, url, events, namespace, description, secret, enabled, disabled_reason,
    created_at, last_delivery_at, last_delivery_ok, last_delivery_status,
    last_success_at, cursor
FROM webhooks WHERE tenant_id = :tenant_id AND id = :id FOR UPDATE

-- Materialized: so that it is looked for once, and no more is locked than is claimed.
-- name: claim_deliveries
WITH due AS MATERIALIZED (
    SELECT id FROM deliveries
    WHERE webhook_id = :webhook_id AND state = 'pending' AND next_at <= :now
        AND claimed_until <= :now
    ORDER BY next_at, event_number LIMIT :most
    FOR UPDATE SKIP LOCKED
)
UPDATE deliveries SET claimed_until = :until
FROM due WHERE deliveries.id = due.id
RETURNING
    deliveries.id, webhook_id, tenant_id, event_number, event_id, event_type, state, attempts,
    created_at, next_at, claimed_until, finished_at, status, error
