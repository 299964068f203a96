-- Traces: what both databases say the same way.

-- name: find_trace_end
SELECT number, hash FROM trace_ends WHERE tenant_id = :tenant_id

-- name: add_trace_end
INSERT INTO trace_ends (tenant_id, number, hash) VALUES (:tenant_id, :number, :hash)
ON CONFLICT (tenant_id) DO NOTHING

-- name: move_trace_end
UPDATE trace_ends SET number = :number, hash = :hash WHERE tenant_id = :tenant_id

-- name: add_trace
INSERT INTO traces ({trace}) VALUES ({:trace})

-- name: add_told
INSERT INTO traces ({trace}) VALUES ({:told})

-- The end was read and not locked. If another writer has moved it since, this divides by zero, and
-- the transaction fails.
-- name: move_trace_end_on
UPDATE trace_ends
SET number = :told_number
        / CASE WHEN number = :told_number - 1 AND hash = :told_previous THEN 1 ELSE 0 END,
    hash = :told_hash
WHERE tenant_id = :told_tenant_id

-- name: redact_trace
UPDATE traces SET details = :details WHERE tenant_id = :tenant_id AND number = :number

-- name: find_trace
SELECT {trace}
FROM traces WHERE tenant_id = :tenant_id AND created_at = :created_at AND id = :id

-- name: page_traces
SELECT {trace}
FROM traces WHERE tenant_id = :tenant_id AND number > :after ORDER BY number LIMIT :most

-- One query for each index. A filter that is not given is NULL.

-- name: list_traces
SELECT {t.trace}, n.name
FROM traces t LEFT JOIN namespaces n ON n.id = t.namespace_id
WHERE t.tenant_id = :tenant_id
  AND t.created_at >= :since AND (t.created_at, t.number) < (:until, :until_number)
  AND (CAST(:session_id AS TEXT) IS NULL OR t.session_id = :session_id)
  AND (CAST(:action AS TEXT) IS NULL OR t.action = :action)
  AND (CAST(:user_id AS TEXT) IS NULL OR t.user_id = :user_id)
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)
  AND (CAST(:actor AS TEXT) IS NULL OR t.actor = :actor)
  AND (CAST(:resource_type AS TEXT) IS NULL OR t.resource_type = :resource_type)
  AND (CAST(:resource_id AS TEXT) IS NULL OR t.resource_id = :resource_id)
ORDER BY t.created_at DESC, t.number DESC LIMIT :most

-- name: list_traces_of_namespace
SELECT {t.trace}, n.name
FROM traces t LEFT JOIN namespaces n ON n.id = t.namespace_id
WHERE t.namespace_id = :namespace_id
  AND t.created_at >= :since AND (t.created_at, t.number) < (:until, :until_number)
  AND (CAST(:session_id AS TEXT) IS NULL OR t.session_id = :session_id)
  AND (CAST(:action AS TEXT) IS NULL OR t.action = :action)
  AND (CAST(:user_id AS TEXT) IS NULL OR t.user_id = :user_id)
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)
  AND (CAST(:actor AS TEXT) IS NULL OR t.actor = :actor)
  AND (CAST(:resource_type AS TEXT) IS NULL OR t.resource_type = :resource_type)
  AND (CAST(:resource_id AS TEXT) IS NULL OR t.resource_id = :resource_id)
ORDER BY t.created_at DESC, t.number DESC LIMIT :most

-- name: list_traces_of_action
SELECT {t.trace}, n.name
FROM traces t LEFT JOIN namespaces n ON n.id = t.namespace_id
WHERE t.namespace_id = :namespace_id AND t.action = :action
  AND t.created_at >= :since AND (t.created_at, t.number) < (:until, :until_number)
  AND (CAST(:session_id AS TEXT) IS NULL OR t.session_id = :session_id)
  AND (CAST(:user_id AS TEXT) IS NULL OR t.user_id = :user_id)
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)
  AND (CAST(:actor AS TEXT) IS NULL OR t.actor = :actor)
  AND (CAST(:resource_type AS TEXT) IS NULL OR t.resource_type = :resource_type)
  AND (CAST(:resource_id AS TEXT) IS NULL OR t.resource_id = :resource_id)
ORDER BY t.created_at DESC, t.number DESC LIMIT :most

-- name: list_traces_of_session
SELECT {t.trace}, n.name
FROM traces t LEFT JOIN namespaces n ON n.id = t.namespace_id
WHERE t.tenant_id = :tenant_id AND t.session_id = :session_id
  AND t.created_at >= :since AND (t.created_at, t.number) < (:until, :until_number)
  AND (CAST(:namespace_id AS BIGINT) IS NULL OR t.namespace_id = :namespace_id)
  AND (CAST(:action AS TEXT) IS NULL OR t.action = :action)
  AND (CAST(:user_id AS TEXT) IS NULL OR t.user_id = :user_id)
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)
  AND (CAST(:actor AS TEXT) IS NULL OR t.actor = :actor)
  AND (CAST(:resource_type AS TEXT) IS NULL OR t.resource_type = :resource_type)
  AND (CAST(:resource_id AS TEXT) IS NULL OR t.resource_id = :resource_id)
ORDER BY t.created_at DESC, t.number DESC LIMIT :most

-- name: count_active_sessions_of_namespace
SELECT COUNT(DISTINCT t.session_id) FROM traces t
WHERE t.namespace_id = :namespace_id AND t.created_at >= :since AND t.session_id IS NOT NULL
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)

-- A fork of a namespace has sessions of the same ids.
-- name: count_active_sessions
SELECT COUNT(DISTINCT CAST(t.namespace_id AS TEXT) || ':' || t.session_id)
FROM namespaces n JOIN traces t ON t.namespace_id = n.id
WHERE n.tenant_id = :tenant_id AND t.created_at >= :since AND t.session_id IS NOT NULL
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)

-- name: list_rollbacks_of_namespace
SELECT t.namespace_id, n.name, t.session_id, t.details
FROM namespaces n JOIN traces t ON t.namespace_id = n.id
WHERE n.id = :namespace_id AND t.action = 'state.rolled_back' AND t.created_at >= :since
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)

-- name: list_rollbacks
SELECT t.namespace_id, n.name, t.session_id, t.details
FROM namespaces n JOIN traces t ON t.namespace_id = n.id
WHERE n.tenant_id = :tenant_id AND t.action = 'state.rolled_back' AND t.created_at >= :since
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)
