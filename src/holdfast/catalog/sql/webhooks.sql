-- Who is told of events, and how that went.

-- name: add_webhook
INSERT INTO webhooks ({webhook}) VALUES ({:webhook})

-- name: find_webhook
SELECT {webhook}
FROM webhooks WHERE tenant_id = :tenant_id AND id = :id

-- name: list_webhooks
SELECT {webhook}
FROM webhooks WHERE tenant_id = :tenant_id ORDER BY created_at, id

-- name: set_webhook
UPDATE webhooks SET
    url = :url, events = :events, namespace = :namespace, description = :description,
    secret = :secret, enabled = :enabled, disabled_reason = :disabled_reason,
    last_delivery_at = :last_delivery_at, last_delivery_ok = :last_delivery_ok,
    last_delivery_status = :last_delivery_status, last_success_at = :last_success_at,
    cursor = :cursor, checksum = :checksum
WHERE id = :id

-- To write a row is what locks it, on both databases.
-- name: hold_webhook
UPDATE webhooks SET enabled = enabled WHERE id = :id RETURNING {webhook}

-- name: delete_webhook
DELETE FROM webhooks WHERE tenant_id = :tenant_id AND id = :id

-- name: delete_deliveries_of
DELETE FROM deliveries WHERE tenant_id = :tenant_id AND webhook_id = :id

-- name: lagging_webhooks
SELECT {webhooks.webhook}
FROM webhooks JOIN event_ends ON event_ends.tenant_id = webhooks.tenant_id
WHERE webhooks.id > :after AND webhooks.enabled = 1 AND webhooks.cursor < event_ends.number
ORDER BY webhooks.id LIMIT :most

-- name: due_webhooks
SELECT id FROM webhooks
WHERE id > :after AND enabled = 1 AND EXISTS (
    SELECT 1 FROM deliveries
    WHERE deliveries.webhook_id = webhooks.id AND deliveries.state = 'pending'
        AND deliveries.next_at <= :now AND deliveries.claimed_until <= :now
)
ORDER BY id LIMIT :most

-- name: add_delivery
INSERT INTO deliveries ({delivery}) VALUES ({:delivery})

-- name: find_delivery
SELECT {delivery}
FROM deliveries WHERE tenant_id = :tenant_id AND id = :id

-- name: set_delivery
UPDATE deliveries SET
    state = :state, attempts = :attempts, next_at = :next_at, claimed_until = :claimed_until,
    finished_at = :finished_at, status = :status, error = :error, checksum = :checksum
WHERE id = :id

-- Whoever has claimed it says how it went, unless it was claimed by another since.
-- name: settle_delivery
UPDATE deliveries SET
    state = :state, attempts = :attempts, next_at = :next_at, claimed_until = :claimed_until,
    finished_at = :finished_at, status = :status, error = :error, checksum = :checksum
WHERE id = :id AND state = 'pending' AND claimed_until = :claimed

-- name: list_deliveries
SELECT {delivery}
FROM deliveries WHERE webhook_id = :webhook_id AND event_number < :below
ORDER BY event_number DESC LIMIT :most

-- name: purge_deliveries
DELETE FROM deliveries WHERE state != 'pending' AND finished_at < :before
