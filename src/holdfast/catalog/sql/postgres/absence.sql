-- Rows that have a key, or one that differs from it by a bit; where there are few, all of them, and
-- of namespaces some that begin as a long name does. Arrays: a list that is a question has the server
-- read the whole table.

-- name: near_namespace
SELECT {namespace} FROM namespaces
WHERE (tenant_id = :tenant_id
    AND name = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB)))))
  OR (tenant_id = ANY (
      ARRAY(SELECT CAST(jsonb_array_elements_text(CAST(:tenants AS JSONB)) AS BIGINT)))
    AND name = :name)
  OR tenant_id = (
      SELECT c.tenant_id FROM counted c WHERE c.tenant_id = :tenant_id AND c.namespaces <= :few)
  OR id IN (
      SELECT n.id FROM namespaces n
      WHERE n.tenant_id = :tenant_id AND n.name >= :start AND n.name < :stop LIMIT :few)

-- name: near_task
SELECT {task} FROM tasks
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB))))
  OR (id = :id AND namespace_id <> :namespace_id)
  OR namespace_id = (
      SELECT n.id FROM namespaces n WHERE n.id = :namespace_id AND n.tasks <= :few)
LIMIT :most

-- name: near_schedule
SELECT {schedule} FROM schedules
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB))))
  OR (id = :id AND namespace_id <> :namespace_id)
  OR namespace_id = (
      SELECT n.id FROM namespaces n WHERE n.id = :namespace_id AND n.schedules <= :few)
LIMIT :most

-- name: near_snapshot
SELECT {snapshot} FROM snapshots
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB))))
  OR (id = :id AND namespace_id <> :namespace_id)
  OR namespace_id = (
      SELECT n.id FROM namespaces n WHERE n.id = :namespace_id AND n.generation - n.purged <= :few)
LIMIT :most

-- name: near_key
SELECT {key} FROM keys
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB))))
  OR (id = :id AND tenant_id <> :tenant_id)
  OR tenant_id = (
      SELECT c.tenant_id FROM counted c WHERE c.tenant_id = :tenant_id AND c.keys <= :few)
LIMIT :most

-- name: near_webhook
SELECT {webhook} FROM webhooks
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB))))
  OR (id = :id AND tenant_id <> :tenant_id)
  OR tenant_id = (
      SELECT c.tenant_id FROM counted c WHERE c.tenant_id = :tenant_id AND c.webhooks <= :few)
LIMIT :most

-- name: near_memory
SELECT {memory} FROM memories
WHERE deleted_at IS NULL
  AND ((namespace_id = :namespace_id AND id = :id)
    OR (namespace_id = :namespace_id
      AND id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB)))))
    OR namespace_id = (
      SELECT n.id FROM namespaces n WHERE n.id = :namespace_id AND n.memories <= :few))

-- name: near_entity
SELECT {e.entity}
FROM entities e JOIN sessions s ON s.namespace_id = e.namespace_id AND s.id = e.session_id
WHERE e.deleted_at IS NULL
  AND ((e.namespace_id = :namespace_id AND e.id = :id)
    OR (e.namespace_id = :namespace_id
      AND e.id = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST(:keys AS JSONB)))))
    OR e.namespace_id = (
      SELECT n.id FROM namespaces n WHERE n.id = :namespace_id AND n.entities <= :few))
  AND s.deleted_at IS NULL AND (s.expires_at IS NULL OR s.expires_at > :now)
