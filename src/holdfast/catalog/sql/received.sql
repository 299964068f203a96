-- Objects that were sent ahead of the snapshot that will name them.

-- name: add_received
INSERT INTO received (namespace_id, id, received_at) VALUES (:namespace_id, :id, :received_at)
ON CONFLICT (namespace_id, id) DO UPDATE SET received_at = excluded.received_at

-- name: find_received
SELECT id FROM received WHERE namespace_id = :namespace_id AND id = :key

-- name: iter_received
SELECT received.id FROM namespaces JOIN received ON received.namespace_id = namespaces.id
WHERE namespaces.tenant_id = :tenant_id

-- name: drop_received
DELETE FROM received WHERE namespace_id = :namespace_id AND id = :id

-- name: expire_received
DELETE FROM received
WHERE namespace_id IN (SELECT id FROM namespaces WHERE tenant_id = :tenant_id)
    AND received_at < :before

-- name: purge_received
DELETE FROM received WHERE namespace_id = :namespace_id

-- name: measure_object
SELECT id, size FROM objects WHERE tenant_id = :tenant_id AND id = :key
