-- Rows that have a key, or one that differs from it by a bit. Arrays: a list that is a question has the
-- server read the whole table.

-- name: near_namespace
SELECT {namespace} FROM namespaces
WHERE (tenant_id = :tenant_id
    AND name = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB)))))
  OR (tenant_id = ANY (
      ARRAY(SELECT CAST(jsonb_array_elements_text(CAST(:tenants AS JSONB)) AS BIGINT)))
    AND name = :name)

-- name: near_task
SELECT {task} FROM tasks
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB))))
  OR (id = :id AND namespace_id <> :namespace_id)
LIMIT :most

-- name: near_schedule
SELECT {schedule} FROM schedules
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB))))
  OR (id = :id AND namespace_id <> :namespace_id)
LIMIT :most

-- name: near_snapshot
SELECT {snapshot} FROM snapshots
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB))))
  OR (id = :id AND namespace_id <> :namespace_id)
LIMIT :most

-- name: near_key
SELECT {key} FROM keys
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB))))
  OR (id = :id AND tenant_id <> :tenant_id)
LIMIT :most

-- name: near_webhook
SELECT {webhook} FROM webhooks
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB))))
  OR (id = :id AND tenant_id <> :tenant_id)
LIMIT :most

-- name: near_memory
SELECT {memory} FROM memories
WHERE namespace_id = :namespace_id AND deleted_at IS NULL
  AND (id = :id OR id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB)))))

-- name: near_entity
SELECT {e.entity}
FROM entities e JOIN sessions s ON s.namespace_id = e.namespace_id AND s.id = e.session_id
WHERE e.namespace_id = :namespace_id AND e.deleted_at IS NULL
  AND (e.id = :id OR e.id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB)))))
  AND s.deleted_at IS NULL AND (s.expires_at IS NULL OR s.expires_at > :now)
