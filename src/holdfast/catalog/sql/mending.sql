-- Rows that have a checksum, a page at a time and with what they are found by, and how one is put
-- right, or let go of: if it is still the row that was seen. What is of no namespace that there is may
-- be anybody's whose number was damaged: everybody finds it.

-- name: page_namespace_rows
SELECT id, {namespace} FROM namespaces
WHERE tenant_id = :tenant_id AND id > :after ORDER BY id LIMIT :most

-- name: mend_namespace_row
UPDATE namespaces
SET tenant_id = :tenant_id, name = :name, generation = :generation, root = :root,
    position = :position, redo = :redo, created_at = :created_at, deleted_at = :deleted_at,
    quota_bytes = :quota_bytes, retention = :retention, fork_of = :fork_of,
    fork_root = :fork_root, checksum = :checksum
WHERE id = :was
  AND COALESCE(checksum, -1) = :found

-- name: page_tenant_rows
SELECT id, {tenant} FROM tenants
WHERE id = :tenant_id AND id > :after ORDER BY id LIMIT :most

-- name: mend_tenant_row
UPDATE tenants
SET name = :name, public_id = :public_id, quota_bytes = :quota_bytes, checksum = :checksum
WHERE id = :was
  AND COALESCE(checksum, -1) = :found

-- name: page_key_rows
SELECT id, {key} FROM keys
WHERE tenant_id = :tenant_id AND id > CAST(:after AS TEXT) ORDER BY id LIMIT :most

-- name: mend_key_row
UPDATE keys SET ({key}) = ({:key}) WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: page_webhook_rows
SELECT id, {webhook} FROM webhooks
WHERE tenant_id = :tenant_id AND id > CAST(:after AS TEXT) ORDER BY id LIMIT :most

-- name: mend_webhook_row
UPDATE webhooks SET ({webhook}) = ({:webhook}) WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: page_delivery_rows
SELECT id, {delivery} FROM deliveries
WHERE tenant_id = :tenant_id AND id > CAST(:after AS TEXT) ORDER BY id LIMIT :most

-- name: mend_delivery_row
UPDATE deliveries SET ({delivery}) = ({:delivery}) WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: page_snapshot_rows
SELECT id, {snapshot} FROM snapshots
WHERE namespace_id NOT IN (SELECT id FROM namespaces WHERE tenant_id < :tenant_id OR tenant_id > :tenant_id)
  AND id > CAST(:after AS TEXT) ORDER BY id LIMIT :most

-- name: mend_snapshot_row
UPDATE snapshots SET ({snapshot}) = ({:snapshot}) WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: page_entity_rows
SELECT id, {entity} FROM entities
WHERE namespace_id NOT IN (SELECT id FROM namespaces WHERE tenant_id < :tenant_id OR tenant_id > :tenant_id)
  AND id > CAST(:after AS TEXT) ORDER BY id LIMIT :most

-- name: mend_entity_row
UPDATE entities SET ({entity}) = ({:entity}) WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: page_task_rows
SELECT id, {task} FROM tasks
WHERE namespace_id NOT IN (SELECT id FROM namespaces WHERE tenant_id < :tenant_id OR tenant_id > :tenant_id)
  AND id > CAST(:after AS TEXT) ORDER BY id LIMIT :most

-- name: mend_task_row
UPDATE tasks SET ({task}) = ({:task}) WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: page_schedule_rows
SELECT id, {schedule} FROM schedules
WHERE namespace_id NOT IN (SELECT id FROM namespaces WHERE tenant_id < :tenant_id OR tenant_id > :tenant_id)
  AND id > CAST(:after AS TEXT) ORDER BY id LIMIT :most

-- name: mend_schedule_row
UPDATE schedules SET ({schedule}) = ({:schedule}) WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: page_gitbackup_rows
SELECT id, {gitbackup} FROM git_backups
WHERE namespace_id NOT IN (SELECT id FROM namespaces WHERE tenant_id < :tenant_id OR tenant_id > :tenant_id)
  AND id > CAST(:after AS TEXT) ORDER BY id LIMIT :most

-- name: mend_gitbackup_row
UPDATE git_backups SET ({gitbackup}) = ({:gitbackup}) WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: page_erasure_rows
SELECT id, {erasure} FROM erasures
WHERE tenant_id NOT IN (SELECT id FROM tenants WHERE id < :tenant_id OR id > :tenant_id)
  AND id > CAST(:after AS TEXT) ORDER BY id LIMIT :most

-- name: mend_erasure_row
UPDATE erasures SET ({erasure}) = ({:erasure}) WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: page_event_rows
SELECT number, {event} FROM events
WHERE tenant_id = :tenant_id AND number > :after ORDER BY number LIMIT :most

-- name: mend_event_row
UPDATE events SET ({event}) = ({:event}) WHERE tenant_id = :whose AND number = :was
  AND COALESCE(checksum, -1) = :found

-- name: page_telling_rows
SELECT position, {telling} FROM told
WHERE tenant_id NOT IN (SELECT id FROM tenants WHERE id < :tenant_id OR id > :tenant_id)
  AND position > :after ORDER BY position LIMIT :most

-- name: mend_telling_row
UPDATE told SET ({telling}) = ({:telling}) WHERE position = :was
  AND COALESCE(checksum, -1) = :found

-- name: page_memory_rows
SELECT number, {memory} FROM memories
WHERE namespace_id NOT IN (SELECT id FROM namespaces WHERE tenant_id < :tenant_id OR tenant_id > :tenant_id)
  AND number > :after ORDER BY number LIMIT :most

-- A fork has memories of the same id; the number is the database's.
-- name: mend_memory_row
UPDATE memories
SET namespace_id = :namespace_id, id = :id, session_id = :session_id, user_id = :user_id,
    agent_id = :agent_id, type = :type, tags = :tags, metadata = :metadata,
    is_searchable = :is_searchable, version = :version, created_at = :created_at,
    updated_at = :updated_at, terms = :terms, content = :content, checksum = :checksum
WHERE number = :was
  AND COALESCE(checksum, -1) = :found

-- What is damaged beyond one bit, and nothing else is made of.

-- name: drop_key_row
DELETE FROM keys WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: drop_webhook_row
DELETE FROM webhooks WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- What was on its way to a webhook goes with it.
-- name: drop_deliveries_to
DELETE FROM deliveries WHERE webhook_id = :was

-- name: drop_delivery_row
DELETE FROM deliveries WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: drop_entity_row
DELETE FROM entities WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: drop_task_row
DELETE FROM tasks WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: drop_changes_of_task
DELETE FROM task_changes WHERE task_id = :was

-- name: drop_schedule_row
DELETE FROM schedules WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: drop_gitbackup_row
DELETE FROM git_backups WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: drop_erasure_row
DELETE FROM erasures WHERE id = CAST(:was AS TEXT)
  AND COALESCE(checksum, -1) = :found

-- name: drop_telling_row
DELETE FROM told WHERE position = :was
  AND COALESCE(checksum, -1) = :found

-- name: drop_memory_row
DELETE FROM memories WHERE number = :was
  AND COALESCE(checksum, -1) = :found

-- What tasks changed.

-- name: page_task_changes
SELECT namespace_id, task_id, plane, key, old_entry, old_sum, new_entry, new_sum, is_shared,
    (SELECT 1 FROM tasks t
     WHERE t.id = task_changes.task_id AND t.namespace_id = task_changes.namespace_id)
FROM task_changes
WHERE namespace_id = :namespace_id AND (task_id, plane, key) > (:task_id, :plane, :key)
ORDER BY task_id, plane, key LIMIT :most

-- name: stray_task_changes
-- Ids of tasks are given out once: whose namespace a change is in, its task says.
SELECT t.namespace_id, c.namespace_id, c.task_id, c.plane, c.key, c.old_entry, c.old_sum,
    c.new_entry, c.new_sum, c.is_shared
FROM task_changes c JOIN tasks t ON t.id = c.task_id AND t.namespace_id <> c.namespace_id

-- name: drop_task_change
DELETE FROM task_changes
WHERE namespace_id = :namespace_id AND task_id = :task_id AND plane = :plane AND key = :key

-- name: set_task_change
INSERT INTO task_changes
    (namespace_id, task_id, plane, key, old_entry, old_sum, new_entry, new_sum, is_shared)
VALUES
    (:namespace_id, :task_id, :plane, :key, :old_entry, :old_sum, :new_entry, :new_sum, :is_shared)
ON CONFLICT (namespace_id, task_id, plane, key) DO UPDATE SET is_shared = -1 - task_changes.old_sum

-- Packs

-- name: own_packs
UPDATE packs SET tenant_id = :tenant_id
WHERE (tenant_id < :tenant_id OR tenant_id > :tenant_id)
  AND id IN (SELECT pack_id FROM objects WHERE tenant_id = :tenant_id)
  AND id NOT IN (
      SELECT pack_id FROM objects WHERE tenant_id < :tenant_id OR tenant_id > :tenant_id)

-- name: iter_pack_facts
SELECT p.id, p.name, p.state, p.is_inline, p.writer, p.size_bytes, length(d.data)
FROM packs p LEFT JOIN pack_data d ON d.pack_id = p.id
WHERE p.tenant_id = :tenant_id ORDER BY p.id

-- name: set_pack_facts
UPDATE packs
SET name = :name, state = :state, is_inline = :is_inline, writer = :writer,
    size_bytes = :size_bytes
WHERE id = :id

-- name: iter_stray_bytes
SELECT d.pack_id, length(d.data),
    CASE WHEN EXISTS (
        SELECT 1 FROM objects o WHERE o.pack_id = d.pack_id AND o.tenant_id = :tenant_id
    ) AND NOT EXISTS (
        SELECT 1 FROM objects o WHERE o.pack_id = d.pack_id
        AND (o.tenant_id < :tenant_id OR o.tenant_id > :tenant_id)
    ) THEN 1 ELSE 0 END
FROM pack_data d WHERE NOT EXISTS (SELECT 1 FROM packs p WHERE p.id = d.pack_id)

-- name: join_bytes
UPDATE pack_data SET pack_id = :target WHERE pack_id = :source
