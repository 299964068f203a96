-- Queries whose SQLite form differs. Write transactions are serial here: nothing is left to lock.

-- name: lock_head
SELECT {namespace}
FROM namespaces WHERE id = :namespace_id

-- name: lock_live_head
SELECT {namespace}
FROM namespaces WHERE tenant_id = :tenant_id AND name = :name AND deleted_at IS NULL

-- name: share_epoch
SELECT :tenant_id

-- name: lock_epoch
SELECT :tenant_id

-- name: lock_counted
SELECT namespaces, keys, webhooks FROM counted WHERE tenant_id = :tenant_id

-- name: find_tasks
SELECT {task} FROM tasks
WHERE namespace_id = :namespace_id AND id IN (SELECT value FROM json_each(:ids))

-- name: find_keys
SELECT {key} FROM keys
WHERE tenant_id = :tenant_id AND id IN (SELECT value FROM json_each(:ids))
