-- What collection and verification ask about sessions and conversations.

-- name: ended_sessions
SELECT s.namespace_id, s.id, s.created_at
FROM namespaces n JOIN sessions s ON s.namespace_id = n.id
WHERE n.tenant_id = :tenant_id AND n.deleted_at IS NULL
  AND (s.deleted_at <= :before OR s.expires_at <= :before
    OR (s.is_present = 0 AND s.deleted_at IS NULL))
UNION
SELECT f.namespace_id, f.id, f.created_at
FROM namespaces n JOIN former_sessions f ON f.namespace_id = n.id
WHERE n.tenant_id = :tenant_id AND n.deleted_at IS NULL
  AND (f.deleted_at <= :before OR f.expires_at <= :before OR f.deleted_at IS NULL)
ORDER BY 1, 2, 3

-- name: lapsed_sessions
SELECT id FROM sessions
WHERE namespace_id = :namespace_id AND is_present = 1 AND expires_at <= :now
ORDER BY id

-- name: sessions_to_end
SELECT n.tenant_id, n.name, s.id FROM sessions s JOIN namespaces n ON n.id = s.namespace_id
WHERE s.expires_at <= :now AND s.expires_at IS NOT NULL AND s.is_present = 1
  AND s.deleted_at IS NULL AND n.deleted_at IS NULL
  AND (CAST(:tenant_id AS BIGINT) IS NULL OR n.tenant_id = :tenant_id)
ORDER BY s.expires_at, s.namespace_id, s.id LIMIT :most OFFSET :skip

-- name: purge_versions_of
DELETE FROM versions WHERE namespace_id = :namespace_id AND session_id = :session_id

-- name: purge_session
DELETE FROM sessions WHERE namespace_id = :namespace_id AND id = :session_id

-- Rows keep the branches that they name, and those that these go on from.
-- name: spare_branches
WITH RECURSIVE needed (id) AS (
    SELECT named.branch FROM (
        SELECT s.branch FROM namespaces n JOIN sessions s ON s.namespace_id = n.id
        WHERE n.tenant_id = :tenant_id
        UNION
        SELECT v.branch FROM namespaces n JOIN versions v ON v.namespace_id = n.id
        WHERE n.tenant_id = :tenant_id
    ) AS named
    UNION
    SELECT b.parent FROM needed JOIN branches b ON b.id = needed.id WHERE b.parent IS NOT NULL
)
SELECT {branch} FROM branches
WHERE tenant_id = :tenant_id AND id NOT IN (SELECT id FROM needed)

-- name: delete_turns
DELETE FROM turns WHERE branch = :id

-- name: delete_branch
DELETE FROM branches WHERE id = :id AND tenant_id = :tenant_id

-- name: turn_bytes
SELECT COALESCE(SUM(bytes), 0) FROM branches WHERE tenant_id = :tenant_id

-- name: iter_branches
SELECT {branch} FROM branches WHERE tenant_id = :tenant_id

-- name: named_branches
SELECT named.branch, MAX(named.turns) FROM (
    SELECT s.branch, s.turns FROM namespaces n JOIN sessions s ON s.namespace_id = n.id
    WHERE n.tenant_id = :tenant_id
    UNION ALL
    SELECT v.branch, v.turns FROM namespaces n JOIN versions v ON v.namespace_id = n.id
    WHERE n.tenant_id = :tenant_id
) AS named
GROUP BY named.branch

-- name: present_sessions
SELECT {s.session}, {v.version}
FROM sessions s
LEFT JOIN versions v ON v.namespace_id = s.namespace_id AND v.session_id = s.id
    AND v.number = s.version
WHERE s.namespace_id = :namespace_id AND s.is_present = 1 AND s.id > :after
ORDER BY s.id LIMIT :most

-- name: broken_histories
SELECT s.id FROM sessions s
WHERE s.namespace_id = :namespace_id AND s.version + 1 - COALESCE(s.since, 0) <> (
    SELECT COUNT(*) FROM versions v
    WHERE v.namespace_id = s.namespace_id AND v.session_id = s.id
      AND v.number >= COALESCE(s.since, 0)
)
UNION
SELECT f.id FROM former_sessions f
WHERE f.namespace_id = :namespace_id AND f.version + 1 - COALESCE(f.since, 0) <> (
    SELECT COUNT(*) FROM versions v
    WHERE v.namespace_id = f.namespace_id AND v.session_id = f.id
      AND v.number >= COALESCE(f.since, 0) AND v.number <= f.version
)
UNION
-- Versions that are nobody's.
SELECT s.id FROM sessions s
WHERE s.namespace_id = :namespace_id AND s.since IS NOT NULL AND EXISTS (
    SELECT 1 FROM versions v
    WHERE v.namespace_id = s.namespace_id AND v.session_id = s.id AND v.number < s.since
      AND NOT EXISTS (
        SELECT 1 FROM former_sessions f
        WHERE f.namespace_id = v.namespace_id AND f.id = v.session_id
          AND v.number >= COALESCE(f.since, 0) AND v.number <= f.version
      )
)
ORDER BY 1

-- What was made of a session, with the hash that the journal has for it.
-- name: page_versions
SELECT v.session_id, {v.version}, t.version_hash
FROM versions v
LEFT JOIN journal t ON t.tenant_id = :tenant_id AND t.stream = v.namespace_id AND t.number = v.journal
WHERE v.namespace_id = :namespace_id AND (v.session_id, v.number) > (:after_id, :after)
ORDER BY v.session_id, v.number LIMIT :most

-- name: page_turns
SELECT {s.turn}, t.turn_hash
FROM turns s
LEFT JOIN journal t ON t.tenant_id = :tenant_id AND t.stream = s.stream AND t.number = s.journal
WHERE s.branch = :branch AND s.number > :after AND s.number < :before
ORDER BY s.number LIMIT :most

-- The newest that was there at an instant; else the first that is equal: a fork's came later.
-- name: find_version_at
SELECT {version}
FROM versions
WHERE namespace_id = :namespace_id AND session_id = :session_id AND number = (
    SELECT COALESCE(MAX(CASE WHEN created_at <= :at THEN number END), MIN(number)) FROM versions
    WHERE namespace_id = :namespace_id AND session_id = :session_id AND state = :state
      AND number >= :first AND number <= :last
)

-- What waits to be done by itself.
-- name: count_lags
SELECT
    (SELECT COUNT(*) FROM deliveries WHERE state = 'pending' AND next_at <= :now),
    (SELECT MIN(next_at) FROM deliveries WHERE state = 'pending' AND next_at <= :now),
    (
        SELECT COUNT(*) FROM webhooks w JOIN event_ends e ON e.tenant_id = w.tenant_id
        WHERE w.enabled = 1 AND w.cursor < e.number
    ),
    (SELECT COUNT(*) FROM told),
    (SELECT MIN(created_us) FROM told),
    (SELECT COUNT(*) FROM pending),
    (SELECT COUNT(DISTINCT namespace_id) FROM pending),
    (
        SELECT COUNT(*) FROM namespaces n
        LEFT JOIN anchored a ON a.tenant_id = n.tenant_id AND a.namespace_id = n.id
        WHERE n.journal_number > COALESCE(a.number, 0)
    ),
    (
        SELECT COUNT(*) FROM schedules s JOIN namespaces n ON n.id = s.namespace_id
        WHERE s.enabled = 1 AND s.next_at <= :now AND s.cadence = 'every' AND n.deleted_at IS NULL
    ),
    (
        SELECT COUNT(*) FROM git_backups b JOIN namespaces n ON n.id = b.namespace_id
        WHERE b.failures > 0 AND b.paused = 0 AND n.deleted_at IS NULL
    ),
    (SELECT CAST(COALESCE(SUM(last_number - first_number + 1 - kept), 0) AS BIGINT) FROM forgotten)

-- name: find_sweep
SELECT digest FROM sweeps WHERE tenant_id = :tenant_id

-- name: set_sweep
INSERT INTO sweeps (tenant_id, digest) VALUES (:tenant_id, :digest)
ON CONFLICT (tenant_id) DO UPDATE SET digest = excluded.digest
