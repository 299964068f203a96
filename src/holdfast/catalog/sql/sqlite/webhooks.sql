-- Write transactions are serial here: nobody else can be changing or claiming anything.

-- name: lock_webhook
SELECT {webhook}
FROM webhooks WHERE tenant_id = :tenant_id AND id = :id

-- name: claim_deliveries
UPDATE deliveries SET claimed_until = :until
WHERE id IN (
    SELECT id FROM deliveries
    WHERE webhook_id = :webhook_id AND state = 'pending' AND next_at <= :now
        AND claimed_until <= :now
    ORDER BY next_at, event_number LIMIT :most
)
RETURNING {delivery}
