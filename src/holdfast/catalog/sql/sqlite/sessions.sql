-- Sessions: what SQLite says its own way.

-- name: find_session
SELECT {s.session}, {v.version}
FROM namespaces n
JOIN sessions s ON s.namespace_id = n.id AND s.id = :id
LEFT JOIN versions v ON v.namespace_id = n.id AND v.session_id = s.id AND v.number = s.version
WHERE n.tenant_id = :tenant_id AND n.name = :name AND n.deleted_at IS NULL

-- name: list_sessions
SELECT {s.session}, {v.version}
FROM sessions s
LEFT JOIN versions v ON v.namespace_id = s.namespace_id AND v.session_id = s.id
    AND v.number = s.version
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
LEFT JOIN versions v ON v.namespace_id = n.id AND v.session_id = s.id AND v.number = s.version
WHERE n.tenant_id = :tenant_id AND n.name = :name AND n.deleted_at IS NULL

-- A number below 0 counts from the newest.
-- name: open_session_at
SELECT {n.namespace},
       t.quota_bytes, EXISTS (SELECT 1 FROM listening WHERE what = 'events'),
       {s.session}, {v.version}, {w.version}
FROM namespaces n
JOIN tenants t ON t.id = n.tenant_id
LEFT JOIN sessions s ON s.namespace_id = n.id AND s.id = :id
LEFT JOIN versions v ON v.namespace_id = n.id AND v.session_id = s.id AND v.number = s.version
LEFT JOIN versions w ON w.namespace_id = n.id AND w.session_id = s.id
    AND w.number = :wanted + CASE WHEN :wanted < 0 THEN s.version ELSE 0 END
WHERE n.tenant_id = :tenant_id AND n.name = :name AND n.deleted_at IS NULL
