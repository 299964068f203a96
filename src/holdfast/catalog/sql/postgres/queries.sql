-- Queries whose PostgreSQL form differs: here a lock has to be asked for.

-- name: lock_head
SELECT {namespace}
FROM namespaces WHERE id = :namespace_id FOR UPDATE

-- name: lock_live_head
SELECT {namespace}
FROM namespaces WHERE tenant_id = :tenant_id AND name = :name AND deleted_at IS NULL FOR UPDATE

-- Writers share the epoch, the collector takes it alone: it may not move on while a writer
-- that stamped objects with the old one has yet to commit. An advisory lock, not the row's: who
-- waits for it alone comes before those who ask to share it later. 7433 says what kind of lock.
-- name: share_epoch
SELECT pg_advisory_xact_lock_shared(7433, CAST(:tenant_id AS INTEGER))

-- name: lock_epoch
SELECT pg_advisory_xact_lock(7433, CAST(:tenant_id AS INTEGER))

-- name: lock_counted
SELECT namespaces, keys, webhooks FROM counted WHERE tenant_id = :tenant_id FOR UPDATE

-- name: find_tasks
SELECT {task} FROM tasks
WHERE namespace_id = :namespace_id AND id IN (SELECT jsonb_array_elements_text(CAST(:ids AS JSONB)))

-- name: find_keys
SELECT {key} FROM keys
WHERE tenant_id = :tenant_id AND id IN (SELECT jsonb_array_elements_text(CAST(:ids AS JSONB)))

-- Of some names, those that rows of packs have: by where bytes are, as `pack_names`.
-- name: named_packs
SELECT p.name FROM packs p
WHERE p.name = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:names AS JSONB))))
  AND NOT EXISTS (SELECT 1 FROM pack_data d WHERE d.pack_id = p.id)

-- name: retired_packs
SELECT r.name FROM retired r WHERE r.name = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:names AS JSONB))))

-- Namespaces whose texts take something else than is counted: with 0, of all of a tenant's.
-- The texts are those of `catalog/counting.py`.
-- name: miscounted_row_bytes
SELECT sums.id, sums.bytes FROM (
    SELECT n.id, n.row_bytes, (
        SELECT COALESCE(SUM(
            octet_length(COALESCE(r.label, '')) + octet_length(COALESCE(r.reason, ''))
            + octet_length(COALESCE(r.task_id, '')) + octet_length(COALESCE(r.trace_id, ''))
            + octet_length(r.detail) + octet_length(COALESCE(r.metadata, ''))
        ), 0) FROM snapshots r WHERE r.namespace_id = n.id
    ) + (
        SELECT COALESCE(SUM(
            octet_length(r.name) + octet_length(COALESCE(r.reason, ''))
            + octet_length(r.within) + octet_length(COALESCE(r.metadata, ''))
        ), 0) FROM tasks r WHERE r.namespace_id = n.id
    ) + (
        SELECT COALESCE(SUM(
            octet_length(r.entity_type) + octet_length(r.entity_id)
            + octet_length(r.attributes)
        ), 0) FROM entities r WHERE r.namespace_id = n.id
    ) + (
        SELECT COALESCE(SUM(
            octet_length(r.entity_type) + octet_length(r.entity_id)
            + octet_length(r.attributes)
        ), 0) FROM former_entities r WHERE r.namespace_id = n.id
    ) AS bytes
    FROM namespaces n
    WHERE n.tenant_id = :tenant_id AND (:namespace_id = 0 OR n.id = :namespace_id)
) AS sums WHERE sums.bytes <> sums.row_bytes ORDER BY sums.id
