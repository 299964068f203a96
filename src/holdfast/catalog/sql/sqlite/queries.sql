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

-- Of some names, those that rows of packs have: by where bytes are, as `pack_names`.
-- name: named_packs
SELECT p.name FROM packs p
WHERE p.name IN (SELECT value FROM json_each(:names))
  AND NOT EXISTS (SELECT 1 FROM pack_data d WHERE d.pack_id = p.id)

-- name: retired_packs
SELECT r.name FROM retired r WHERE r.name IN (SELECT value FROM json_each(:names))

-- Namespaces whose texts take something else than is counted: with 0, of all of a tenant's.
-- The texts are those of `catalog/counting.py`.
-- name: miscounted_row_bytes
SELECT sums.id, sums.bytes FROM (
    SELECT n.id, n.row_bytes, (
        SELECT COALESCE(SUM(
            length(CAST(COALESCE(r.label, '') AS BLOB)) + length(CAST(COALESCE(r.reason, '') AS BLOB))
            + length(CAST(COALESCE(r.task_id, '') AS BLOB)) + length(CAST(COALESCE(r.trace_id, '') AS BLOB))
            + length(CAST(r.detail AS BLOB)) + length(CAST(COALESCE(r.metadata, '') AS BLOB))
        ), 0) FROM snapshots r WHERE r.namespace_id = n.id
    ) + (
        SELECT COALESCE(SUM(
            length(CAST(r.name AS BLOB)) + length(CAST(COALESCE(r.reason, '') AS BLOB))
            + length(CAST(r.within AS BLOB)) + length(CAST(COALESCE(r.metadata, '') AS BLOB))
        ), 0) FROM tasks r WHERE r.namespace_id = n.id
    ) + (
        SELECT COALESCE(SUM(
            length(CAST(r.entity_type AS BLOB)) + length(CAST(r.entity_id AS BLOB))
            + length(CAST(r.attributes AS BLOB))
        ), 0) FROM entities r WHERE r.namespace_id = n.id
    ) + (
        SELECT COALESCE(SUM(
            length(CAST(r.entity_type AS BLOB)) + length(CAST(r.entity_id AS BLOB))
            + length(CAST(r.attributes AS BLOB))
        ), 0) FROM former_entities r WHERE r.namespace_id = n.id
    ) AS bytes
    FROM namespaces n
    WHERE n.tenant_id = :tenant_id AND (:namespace_id = 0 OR n.id = :namespace_id)
) AS sums WHERE sums.bytes <> sums.row_bytes ORDER BY sums.id
