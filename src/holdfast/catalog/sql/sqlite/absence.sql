-- Rows that have a key, or one that differs from it by a bit; where there are few, all of them, and
-- of namespaces some that begin as a long name does. The key itself is looked for past the index that
-- has not found it, unless there are very many rows.

-- name: near_namespace
SELECT {namespace} FROM namespaces
WHERE (tenant_id = :tenant_id AND name = :name)
  OR (tenant_id = :tenant_id AND name IN (SELECT value FROM json_each(:keys)))
  OR (tenant_id IN (SELECT value FROM json_each(:tenants)) AND name = :name)
  OR tenant_id = (
      SELECT c.tenant_id FROM counted c WHERE c.tenant_id = :tenant_id AND c.namespaces <= :few)
  OR id IN (
      SELECT n.id FROM namespaces n
      WHERE n.tenant_id = :tenant_id AND n.name >= :start AND n.name < :stop LIMIT :few)

-- name: near_task
SELECT {task} FROM tasks
WHERE id = :id OR id IN (SELECT value FROM json_each(:keys))
  OR (namespace_id = (
      SELECT n.id FROM namespaces n WHERE n.id = :namespace_id AND n.tasks <= :most
    ) AND +id = :id)
  OR namespace_id = (
      SELECT n.id FROM namespaces n WHERE n.id = :namespace_id AND n.tasks <= :few)

-- name: near_schedule
SELECT {schedule} FROM schedules
WHERE id = :id OR id IN (SELECT value FROM json_each(:keys))
  OR (namespace_id = (
      SELECT n.id FROM namespaces n WHERE n.id = :namespace_id AND n.schedules <= :most
    ) AND +id = :id)
  OR namespace_id = (
      SELECT n.id FROM namespaces n WHERE n.id = :namespace_id AND n.schedules <= :few)

-- name: near_snapshot
SELECT {snapshot} FROM snapshots
WHERE id = :id OR id IN (SELECT value FROM json_each(:keys))
  OR (namespace_id = (
      SELECT n.id FROM namespaces n WHERE n.id = :namespace_id AND n.generation - n.purged <= :most
    ) AND +id = :id)
  OR namespace_id = (
      SELECT n.id FROM namespaces n WHERE n.id = :namespace_id AND n.generation - n.purged <= :few)

-- name: near_key
SELECT {key} FROM keys
WHERE id = :id OR id IN (SELECT value FROM json_each(:keys))
  OR (tenant_id = (
      SELECT c.tenant_id FROM counted c WHERE c.tenant_id = :tenant_id AND c.keys <= :most
    ) AND +id = :id)
  OR tenant_id = (
      SELECT c.tenant_id FROM counted c WHERE c.tenant_id = :tenant_id AND c.keys <= :few)

-- name: near_webhook
SELECT {webhook} FROM webhooks
WHERE id = :id OR id IN (SELECT value FROM json_each(:keys))
  OR (tenant_id = (
      SELECT c.tenant_id FROM counted c WHERE c.tenant_id = :tenant_id AND c.webhooks <= :most
    ) AND +id = :id)
  OR tenant_id = (
      SELECT c.tenant_id FROM counted c WHERE c.tenant_id = :tenant_id AND c.webhooks <= :few)

-- name: near_memory
SELECT {memory} FROM memories
WHERE namespace_id = :namespace_id AND deleted_at IS NULL
  AND (+id = :id OR +id IN (SELECT value FROM json_each(:keys))
    OR :few >= (SELECT n.memories FROM namespaces n WHERE n.id = :namespace_id))

-- Of sessions that are there, as those that are found.

-- name: near_entity
SELECT {e.entity}
FROM entities e JOIN sessions s ON s.namespace_id = e.namespace_id AND s.id = e.session_id
WHERE e.namespace_id = :namespace_id AND e.deleted_at IS NULL
  AND (+e.id = :id OR +e.id IN (SELECT value FROM json_each(:keys))
    OR :few >= (SELECT n.entities FROM namespaces n WHERE n.id = :namespace_id))
  AND s.deleted_at IS NULL AND (s.expires_at IS NULL OR s.expires_at > :now)
