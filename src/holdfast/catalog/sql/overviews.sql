-- All namespaces of a tenant at a glance. A page of them is a range of names.

-- name: page_heads
SELECT {namespace}
FROM namespaces
WHERE tenant_id = :tenant_id AND name >= :prefix AND name > :after AND deleted_at IS NULL
    AND substr(name, 1, length(CAST(:prefix AS TEXT))) = :prefix
ORDER BY name LIMIT :most

-- name: overviews
SELECT
    n.id,
    n.generation - n.purged - (
        SELECT COUNT(*) FROM snapshots s WHERE s.namespace_id = n.id AND s.deleted_at IS NOT NULL
    ),
    CASE WHEN EXISTS (SELECT 1 FROM pending p WHERE p.namespace_id = n.id) THEN 1 ELSE 0 END,
    (SELECT COUNT(*) FROM tasks t WHERE t.namespace_id = n.id AND t.status = 'running'),
    (SELECT o.name FROM namespaces o WHERE o.id = n.fork_of)
FROM namespaces n
WHERE n.tenant_id = :tenant_id AND n.name >= :first AND n.name <= :last AND n.deleted_at IS NULL

-- name: newest_snapshots
SELECT {s.snapshot}
FROM namespaces n JOIN snapshots s ON s.id = (
    SELECT x.id FROM snapshots x
    WHERE x.namespace_id = n.id AND x.deleted_at IS NULL ORDER BY x.number DESC LIMIT 1
)
WHERE n.tenant_id = :tenant_id AND n.name >= :first AND n.name <= :last AND n.deleted_at IS NULL

-- name: newest_tasks
SELECT {t.task}
FROM namespaces n JOIN tasks t ON t.id = (
    SELECT x.id FROM tasks x
    WHERE x.namespace_id = n.id AND x.status = 'running' ORDER BY x.started_at DESC, x.id DESC LIMIT 1
)
WHERE n.tenant_id = :tenant_id AND n.name >= :first AND n.name <= :last AND n.deleted_at IS NULL

-- name: running_tasks
SELECT {t.task}, n.name
FROM namespaces n JOIN tasks t ON t.namespace_id = n.id
WHERE n.tenant_id = :tenant_id AND n.deleted_at IS NULL AND t.status = 'running'
    AND (t.started_at < :before_at OR (t.started_at = :before_at AND t.id < :before_id))
ORDER BY t.started_at DESC, t.id DESC LIMIT :most

-- name: find_task_start
SELECT t.started_at FROM tasks t JOIN namespaces n ON n.id = t.namespace_id
WHERE t.id = :id AND n.tenant_id = :tenant_id

-- name: active_tenants
SELECT t.id FROM tenants t
WHERE EXISTS (SELECT 1 FROM journal j WHERE j.tenant_id = t.id AND j.created_at >= :since)
    OR EXISTS (SELECT 1 FROM rollback_levels r WHERE r.tenant_id = t.id)

-- Sessions are counted where there were rollbacks alone: elsewhere the rate is 0.

-- name: rollback_counts
SELECT needed.namespace_id, needed.rollbacks, (
    SELECT COUNT(DISTINCT a.session_id) FROM journal a
    WHERE a.namespace_id = needed.namespace_id AND a.created_at >= :since
)
FROM (
    SELECT t.namespace_id, COUNT(*) AS rollbacks
    FROM namespaces n JOIN journal t ON t.namespace_id = n.id
    WHERE n.tenant_id = :tenant_id AND n.name >= :first AND n.name <= :last
        AND n.deleted_at IS NULL AND t.action = 'state.rolled_back' AND t.created_at >= :since
        AND t.kind <> 'added'
        AND t.action <> 'state.updated' AND t.action <> 'turn.added'
    GROUP BY t.namespace_id
) needed

-- A fork of a namespace has sessions of the same ids: they are counted in each.

-- name: rollback_total
SELECT COALESCE(SUM(needed.rollbacks), 0), COALESCE(SUM(needed.sessions), 0)
FROM (
    SELECT
        (
            SELECT COUNT(*) FROM journal t
            WHERE t.namespace_id = n.id AND t.action = 'state.rolled_back' AND t.kind <> 'added'
                AND t.created_at >= :since
                AND t.action <> 'state.updated' AND t.action <> 'turn.added'
        ) AS rollbacks,
        (
            SELECT COUNT(DISTINCT a.session_id) FROM journal a
            WHERE a.namespace_id = n.id AND a.created_at >= :since
        ) AS sessions
    FROM namespaces n WHERE n.tenant_id = :tenant_id
) needed

-- name: rollback_series
SELECT needed.bucket, SUM(needed.rollbacks), SUM(needed.sessions)
FROM (
    SELECT
        t.created_at / :width AS bucket,
        SUM(CASE WHEN t.action = 'state.rolled_back' AND t.kind <> 'added' THEN 1 ELSE 0 END) AS rollbacks,
        COUNT(DISTINCT t.session_id) AS sessions
    FROM namespaces n JOIN journal t ON t.namespace_id = n.id
    WHERE n.tenant_id = :tenant_id
        AND (CAST(:namespace_id AS BIGINT) IS NULL OR n.id = :namespace_id)
        AND t.created_at >= :since AND t.created_at < :until
        AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)
    GROUP BY 1, t.namespace_id
) needed
GROUP BY needed.bucket ORDER BY needed.bucket

-- name: list_rollback_levels
SELECT namespace_id, level FROM rollback_levels WHERE tenant_id = :tenant_id

-- name: enter_rollback_level
INSERT INTO rollback_levels (tenant_id, namespace_id, level, since)
VALUES (:tenant_id, :namespace_id, :level, :since)
ON CONFLICT (tenant_id, namespace_id) DO NOTHING

-- name: move_rollback_level
UPDATE rollback_levels SET level = :level, since = :since
WHERE tenant_id = :tenant_id AND namespace_id = :namespace_id AND level = :seen

-- name: leave_rollback_level
DELETE FROM rollback_levels
WHERE tenant_id = :tenant_id AND namespace_id = :namespace_id AND level = :seen

-- name: purge_rollback_level
DELETE FROM rollback_levels
WHERE tenant_id = (SELECT n.tenant_id FROM namespaces n WHERE n.id = :namespace_id)
    AND namespace_id = :namespace_id

-- name: has_storage_day
SELECT 1 FROM storage_days WHERE tenant_id = :tenant_id AND namespace_id = 0 AND day = :day

-- name: add_storage_day
INSERT INTO storage_days (tenant_id, namespace_id, day, entries, bytes, stored_bytes)
VALUES (:tenant_id, :namespace_id, :day, :entries, :bytes, :stored_bytes)
ON CONFLICT (tenant_id, namespace_id, day) DO NOTHING

-- name: total_storage
SELECT COALESCE(SUM(entries), 0), COALESCE(SUM(bytes), 0)
FROM namespaces WHERE tenant_id = :tenant_id AND deleted_at IS NULL

-- name: list_storage_days
SELECT day, entries, bytes, stored_bytes
FROM storage_days
WHERE tenant_id = :tenant_id AND namespace_id = :namespace_id AND day >= :since
ORDER BY day

-- name: age_storage_days
DELETE FROM storage_days
WHERE tenant_id = :tenant_id AND day < :before AND namespace_id IN (
    SELECT n.id FROM namespaces n
    WHERE n.tenant_id = :tenant_id AND n.name >= :first AND n.name <= :last
)

-- name: age_own_storage_days
DELETE FROM storage_days WHERE tenant_id = :tenant_id AND namespace_id = 0 AND day < :before

-- name: purge_storage_days
DELETE FROM storage_days
WHERE tenant_id = (SELECT n.tenant_id FROM namespaces n WHERE n.id = :namespace_id)
    AND namespace_id = :namespace_id
