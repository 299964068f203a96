-- All rows that have a checksum, and how one is put right: by the id that it is found with.

-- name: all_namespace_rows
SELECT {namespace} FROM namespaces WHERE tenant_id = :tenant_id

-- name: mend_namespace_row
UPDATE namespaces
SET tenant_id = :tenant_id, name = :name, generation = :generation, root = :root,
    position = :position, redo = :redo, created_at = :created_at, deleted_at = :deleted_at,
    quota_bytes = :quota_bytes, retention = :retention, fork_of = :fork_of,
    fork_root = :fork_root, checksum = :checksum
WHERE id = :was

-- name: all_tenant_rows
SELECT {tenant} FROM tenants WHERE id = :tenant_id

-- name: mend_tenant_row
UPDATE tenants
SET name = :name, public_id = :public_id, quota_bytes = :quota_bytes, checksum = :checksum
WHERE id = :was

-- name: all_key_rows
SELECT {key} FROM keys WHERE tenant_id = :tenant_id

-- name: mend_key_row
UPDATE keys SET ({key}) = ({:key}) WHERE id = :was

-- name: all_webhook_rows
SELECT {webhook} FROM webhooks WHERE tenant_id = :tenant_id

-- name: mend_webhook_row
UPDATE webhooks SET ({webhook}) = ({:webhook}) WHERE id = :was

-- name: all_delivery_rows
SELECT {delivery} FROM deliveries WHERE tenant_id = :tenant_id

-- name: mend_delivery_row
UPDATE deliveries SET ({delivery}) = ({:delivery}) WHERE id = :was

-- name: all_snapshot_rows
SELECT {snapshot} FROM snapshots WHERE namespace_id IN (SELECT id FROM namespaces WHERE tenant_id = :tenant_id)

-- name: mend_snapshot_row
UPDATE snapshots SET ({snapshot}) = ({:snapshot}) WHERE id = :was

-- name: all_entity_rows
SELECT {entity} FROM entities WHERE namespace_id IN (SELECT id FROM namespaces WHERE tenant_id = :tenant_id)

-- name: mend_entity_row
UPDATE entities SET ({entity}) = ({:entity}) WHERE id = :was

-- name: all_task_rows
SELECT {task} FROM tasks WHERE namespace_id IN (SELECT id FROM namespaces WHERE tenant_id = :tenant_id)

-- name: mend_task_row
UPDATE tasks SET ({task}) = ({:task}) WHERE id = :was

-- name: all_schedule_rows
SELECT {schedule} FROM schedules WHERE namespace_id IN (SELECT id FROM namespaces WHERE tenant_id = :tenant_id)

-- name: mend_schedule_row
UPDATE schedules SET ({schedule}) = ({:schedule}) WHERE id = :was

-- name: all_event_rows
SELECT {event} FROM events WHERE tenant_id = :tenant_id

-- name: mend_event_row
UPDATE events SET ({event}) = ({:event}) WHERE id = :was

-- name: all_telling_rows
SELECT {telling} FROM told WHERE tenant_id = :tenant_id

-- It has no id: two of a tenant with one checksum are taken for the same.
-- name: mend_telling_row
UPDATE told SET ({telling}) = ({:telling}) WHERE tenant_id = :tenant_id AND checksum = :found

-- name: all_memory_rows
SELECT {memory} FROM memories WHERE namespace_id IN (SELECT id FROM namespaces WHERE tenant_id = :tenant_id)

-- A fork has memories of the same id; the number is the database's.
-- name: mend_memory_row
UPDATE memories
SET namespace_id = :namespace_id, id = :id, session_id = :session_id, user_id = :user_id,
    agent_id = :agent_id, type = :type, tags = :tags, metadata = :metadata,
    is_searchable = :is_searchable, version = :version, created_at = :created_at,
    updated_at = :updated_at, terms = :terms, content = :content, checksum = :checksum
WHERE number = :number AND id = :was
