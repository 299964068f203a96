-- Queries whose SQLite form differs. Write transactions are serial here: nothing is left to lock.

-- name: lock_head
SELECT id, tenant_id, name, generation, sequence, root, position, redo, entries, bytes,
       created_at, deleted_at, quota_bytes, retention, fork_of, fork_root, writer
FROM namespaces WHERE id = :namespace_id

-- name: lock_live_head
SELECT id, tenant_id, name, generation, sequence, root, position, redo, entries, bytes,
       created_at, deleted_at, quota_bytes, retention, fork_of, fork_root, writer
FROM namespaces WHERE tenant_id = :tenant_id AND name = :name AND deleted_at IS NULL

-- name: share_epoch
SELECT :tenant_id

-- name: lock_epoch
SELECT :tenant_id
