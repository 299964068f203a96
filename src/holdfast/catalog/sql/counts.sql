-- How many rows there are of what is listed, as whoever adds and removes them counts, and as they
-- are found. Not where there are very many: then a list would take longer to count than to read.

-- name: count_in_namespace
UPDATE namespaces
SET purged = purged + CAST(:purged AS BIGINT), tasks = tasks + CAST(:tasks AS BIGINT),
    schedules = schedules + CAST(:schedules AS BIGINT),
    memories = memories + CAST(:memories AS BIGINT),
    entities = entities + CAST(:entities AS BIGINT),
    -- What was there before it was counted may become shorter: that is no debt.
    row_bytes = CASE WHEN row_bytes + CAST(:row_bytes AS BIGINT) < 0 THEN 0
                     ELSE row_bytes + CAST(:row_bytes AS BIGINT) END
WHERE id = :namespace_id

-- Before they go with their session.
-- name: count_entities_out
UPDATE namespaces
SET entities = entities - (
    SELECT COUNT(*) FROM entities e
    WHERE e.namespace_id = namespaces.id AND e.session_id = :session_id AND e.deleted_at IS NULL
)
WHERE id = :namespace_id

-- After they came with it.
-- name: count_entities_in
UPDATE namespaces
SET entities = entities + (
    SELECT COUNT(*) FROM entities e
    WHERE e.namespace_id = namespaces.id AND e.session_id = :session_id AND e.deleted_at IS NULL
)
WHERE id = :namespace_id

-- Snapshots are numbered: those that are not there were purged.
-- name: compare_snapshots
SELECT n.generation - n.purged, CASE WHEN n.generation - n.purged <= :most THEN (
    SELECT COUNT(*) FROM snapshots s WHERE s.namespace_id = n.id
) END
FROM namespaces n WHERE n.id = :namespace_id

-- name: compare_tasks
SELECT n.tasks, CASE WHEN n.tasks <= :most THEN (
    SELECT COUNT(*) FROM tasks t WHERE t.namespace_id = n.id
) END
FROM namespaces n WHERE n.id = :namespace_id

-- name: compare_schedules
SELECT n.schedules, CASE WHEN n.schedules <= :most THEN (
    SELECT COUNT(*) FROM schedules s WHERE s.namespace_id = n.id
) END
FROM namespaces n WHERE n.id = :namespace_id

-- name: compare_memories
SELECT n.memories, CASE WHEN n.memories <= :most THEN (
    SELECT COUNT(*) FROM memories m WHERE m.namespace_id = n.id AND m.deleted_at IS NULL
) END
FROM namespaces n WHERE n.id = :namespace_id

-- name: compare_entities
SELECT n.entities, CASE WHEN n.entities <= :most THEN (
    SELECT COUNT(*) FROM entities e WHERE e.namespace_id = n.id AND e.deleted_at IS NULL
) END
FROM namespaces n WHERE n.id = :namespace_id

-- name: mend_counts
UPDATE namespaces
SET purged = generation - (SELECT COUNT(*) FROM snapshots s WHERE s.namespace_id = namespaces.id),
    tasks = (SELECT COUNT(*) FROM tasks t WHERE t.namespace_id = namespaces.id),
    schedules = (SELECT COUNT(*) FROM schedules s WHERE s.namespace_id = namespaces.id),
    memories = (
        SELECT COUNT(*) FROM memories m
        WHERE m.namespace_id = namespaces.id AND m.deleted_at IS NULL),
    entities = (
        SELECT COUNT(*) FROM entities e
        WHERE e.namespace_id = namespaces.id AND e.deleted_at IS NULL)
WHERE id = :namespace_id

-- name: count_in_tenant
INSERT INTO counted (tenant_id, namespaces, keys, webhooks)
VALUES (:tenant_id, :namespaces, :keys, :webhooks)
ON CONFLICT (tenant_id) DO UPDATE
SET namespaces = counted.namespaces + excluded.namespaces, keys = counted.keys + excluded.keys,
    webhooks = counted.webhooks + excluded.webhooks

-- name: counted_tenants
SELECT tenant_id FROM counted

-- name: compare_namespaces
SELECT c.namespaces, CASE WHEN c.namespaces <= :most THEN (
    SELECT COUNT(*) FROM namespaces n WHERE n.tenant_id = c.tenant_id
) END
FROM counted c WHERE c.tenant_id = :tenant_id

-- name: compare_keys
SELECT c.keys, CASE WHEN c.keys <= :most THEN (
    SELECT COUNT(*) FROM keys k WHERE k.tenant_id = c.tenant_id
) END
FROM counted c WHERE c.tenant_id = :tenant_id

-- name: compare_webhooks
SELECT c.webhooks, CASE WHEN c.webhooks <= :most THEN (
    SELECT COUNT(*) FROM webhooks w WHERE w.tenant_id = c.tenant_id
) END
FROM counted c WHERE c.tenant_id = :tenant_id

-- name: mend_tenant_counts
UPDATE counted
SET namespaces = (SELECT COUNT(*) FROM namespaces n WHERE n.tenant_id = counted.tenant_id),
    keys = (SELECT COUNT(*) FROM keys k WHERE k.tenant_id = counted.tenant_id),
    webhooks = (SELECT COUNT(*) FROM webhooks w WHERE w.tenant_id = counted.tenant_id)
WHERE tenant_id = :tenant_id

-- What rows take: their texts, and a constant for each. How many there are is counted above. A
-- namespace counts from the first that is written to it: who is refused that leaves none behind.
-- name: row_bytes
SELECT COALESCE((
    SELECT SUM(
        n.row_bytes
        + (CASE WHEN n.generation + n.sequence > 0 THEN 1 ELSE 0 END
           + n.generation - n.purged + n.tasks + n.schedules + n.entities) * :each)
    FROM namespaces n WHERE n.tenant_id = :tenant_id
), 0) + COALESCE((
    SELECT c.keys * :each + c.webhooks * :each_webhook
    FROM counted c WHERE c.tenant_id = :tenant_id
), 0)

-- name: set_row_bytes
UPDATE namespaces SET row_bytes = :bytes WHERE id = :namespace_id
