-- Sessions: what PostgreSQL says its own way.
--
-- LATERAL with a limit: in a new database, which has no statistics yet, the planner would start from
-- all versions. With a thousand of them an update took 32 ms instead of 4.

-- name: find_session
SELECT {s.session}, {v.version}
FROM namespaces n
JOIN sessions s ON s.namespace_id = n.id AND s.id = :id
LEFT JOIN LATERAL (
    SELECT * FROM versions
    WHERE namespace_id = s.namespace_id AND session_id = s.id AND number = s.version LIMIT 1
) v ON TRUE
WHERE n.tenant_id = :tenant_id AND n.name = :name AND n.deleted_at IS NULL

-- name: list_sessions
SELECT {s.session}, {v.version}
FROM sessions s
LEFT JOIN LATERAL (
    SELECT * FROM versions
    WHERE namespace_id = s.namespace_id AND session_id = s.id AND number = s.version LIMIT 1
) v ON TRUE
WHERE s.namespace_id = :namespace_id AND s.is_present = 1
  AND (s.created_at, s.id) < (:before_us, :before_id)
  AND s.created_at >= :after_us
  AND (CAST(:agent_id AS TEXT) IS NULL OR s.agent_id = :agent_id)
  AND (CAST(:user_id AS TEXT) IS NULL OR s.user_id = :user_id)
ORDER BY s.created_at DESC, s.id DESC LIMIT :most

-- name: open_session
SELECT {n.namespace},
       t.quota_bytes, EXISTS (SELECT 1 FROM listening WHERE what = 'events'),
       {s.session}, {v.version}
FROM namespaces n
JOIN tenants t ON t.id = n.tenant_id
LEFT JOIN sessions s ON s.namespace_id = n.id AND s.id = :id
LEFT JOIN LATERAL (
    SELECT * FROM versions
    WHERE namespace_id = s.namespace_id AND session_id = s.id AND number = s.version LIMIT 1
) v ON TRUE
WHERE n.tenant_id = :tenant_id AND n.name = :name AND n.deleted_at IS NULL

-- A number below 0 counts from the newest.
-- name: open_session_at
SELECT {n.namespace},
       t.quota_bytes, EXISTS (SELECT 1 FROM listening WHERE what = 'events'),
       {s.session}, {v.version}, {w.version}
FROM namespaces n
JOIN tenants t ON t.id = n.tenant_id
LEFT JOIN sessions s ON s.namespace_id = n.id AND s.id = :id
LEFT JOIN LATERAL (
    SELECT * FROM versions
    WHERE namespace_id = s.namespace_id AND session_id = s.id AND number = s.version LIMIT 1
) v ON TRUE
LEFT JOIN LATERAL (
    SELECT * FROM versions
    WHERE namespace_id = s.namespace_id AND session_id = s.id
      AND number = CAST(:wanted AS BIGINT)
        + CASE WHEN CAST(:wanted AS BIGINT) < 0 THEN s.version ELSE 0 END
    LIMIT 1
) w ON TRUE
WHERE n.tenant_id = :tenant_id AND n.name = :name AND n.deleted_at IS NULL
