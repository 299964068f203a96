-- Whoever changes a webhook waits for its turn; whoever claims leaves alone what another claims.

-- name: lock_webhook
SELECT {webhook}
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
RETURNING {deliveries.delivery}
