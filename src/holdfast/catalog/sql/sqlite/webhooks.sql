-- Write transactions are serial here: nobody else can be changing or claiming anything.

-- name: lock_webhook
SELECT
    id, tenant_id, url, events, namespace, description, secret, enabled, disabled_reason,
    created_at, last_delivery_at, last_delivery_ok, last_delivery_status,
    last_success_at, cursor
FROM webhooks WHERE tenant_id = :tenant_id AND id = :id

-- name: claim_deliveries
UPDATE deliveries SET claimed_until = :until
WHERE id IN (
    SELECT id FROM deliveries
    WHERE webhook_id = :webhook_id AND state = 'pending' AND next_at <= :now
        AND claimed_until <= :now
    ORDER BY next_at, event_number LIMIT :most
)
RETURNING
    id, webhook_id, tenant_id, event_number, event_id, event_type, state, attempts, created_at,
    next_at, claimed_until, finished_at, status, error
