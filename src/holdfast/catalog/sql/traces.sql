-- Traces: what both databases say the same way.

-- name: move_tenant_end
UPDATE tenants SET journal_number = :number, journal_hash = :hash WHERE id = :tenant_id

-- name: move_end
UPDATE namespaces SET journal_number = :number, journal_hash = :hash WHERE id = :stream

-- name: count_added
-- What was added before it was counted may be taken out: that is no debt.
UPDATE namespaces
SET added_bytes = CASE WHEN added_bytes + :bytes < 0 THEN 0 ELSE added_bytes + :bytes END
WHERE id = :stream

-- name: count_added_of_tenant
UPDATE tenants
SET added_bytes = CASE WHEN added_bytes + :bytes < 0 THEN 0 ELSE added_bytes + :bytes END
WHERE id = :tenant_id

-- name: keep_added
UPDATE tenants SET added_bytes = added_bytes
    + (SELECT n.added_bytes FROM namespaces n WHERE n.id = :namespace_id)
WHERE id = :tenant_id

-- name: added_bytes
SELECT t.added_bytes + COALESCE(
    (SELECT SUM(n.added_bytes) FROM namespaces n WHERE n.tenant_id = t.id), 0)
FROM tenants t WHERE t.id = :tenant_id

-- name: find_tenant_end
SELECT journal_number, journal_hash FROM tenants WHERE id = :tenant_id

-- name: list_ends
SELECT id, name, journal_number, journal_hash FROM namespaces
WHERE tenant_id = :tenant_id ORDER BY id

-- name: list_streams
SELECT stream, MAX(number) FROM journal WHERE tenant_id = :tenant_id
GROUP BY stream ORDER BY stream

-- name: moved_ends
SELECT n.id, n.journal_number, n.journal_hash
FROM namespaces n
LEFT JOIN anchored a ON a.tenant_id = n.tenant_id AND a.namespace_id = n.id
WHERE n.tenant_id = :tenant_id AND n.journal_number > COALESCE(a.number, 0)
ORDER BY n.id LIMIT :most

-- name: set_anchored
INSERT INTO anchored (tenant_id, namespace_id, number) VALUES (:tenant_id, :namespace_id, :number)
ON CONFLICT (tenant_id, namespace_id) DO UPDATE SET number = excluded.number

-- name: drop_anchored
DELETE FROM anchored WHERE tenant_id = :tenant_id AND namespace_id = :namespace_id

-- name: add_trace
INSERT INTO journal ({trace}) VALUES ({:trace})

-- name: add_told_trace
INSERT INTO journal ({trace}) VALUES ({:told})

-- name: redact_trace
UPDATE journal
SET details = :details, salt = :salt, session_id = :session_id, user_id = :user_id,
    agent_id = :agent_id, resource_id = :resource_id, task_id = :task_id, actor = :actor,
    roots = :roots
WHERE tenant_id = :tenant_id AND stream = :stream AND number = :number

-- name: find_trace
SELECT {trace}
FROM journal WHERE tenant_id = :tenant_id AND created_at = :created_at AND id = :id

-- name: page_traces
SELECT {trace}
FROM journal WHERE tenant_id = :tenant_id AND stream = :stream AND number > :after
ORDER BY number LIMIT :most

-- name: stray_traces
SELECT {trace} FROM journal WHERE tenant_id NOT IN (SELECT id FROM tenants) LIMIT :most

-- name: mend_trace
UPDATE journal SET ({trace}) = ({:trace})
WHERE tenant_id = :was_of AND stream = :was_in AND number = :was

-- name: count_between
SELECT COUNT(*) FROM journal
WHERE tenant_id = :tenant_id AND stream = :stream AND number > :after AND number < :before

-- name: listed_between
SELECT number, created_at FROM journal
WHERE tenant_id = :tenant_id AND stream = :stream AND number > :after AND number < :before
  AND kind <> 'kept' AND kind <> 'anchor'
ORDER BY number LIMIT 1000

-- One query for each index. A filter that is not given is NULL.

-- name: list_traces
SELECT {t.trace} FROM journal t
WHERE t.tenant_id = :tenant_id AND t.kind NOT IN ('anchor', 'kept')
  AND t.created_at >= :since AND (t.created_at, t.stream, t.number) < (:until, :until_stream, :until_number)
  AND (CAST(:session_id AS TEXT) IS NULL OR t.session_id = :session_id)
  AND (CAST(:action AS TEXT) IS NULL OR t.action = :action)
  AND (CAST(:user_id AS TEXT) IS NULL OR t.user_id = :user_id)
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)
  AND (CAST(:actor AS TEXT) IS NULL OR t.actor = :actor)
  AND (CAST(:task_id AS TEXT) IS NULL OR t.task_id = :task_id)
  AND (CAST(:resource_type AS TEXT) IS NULL OR t.resource_type = :resource_type)
  AND (CAST(:resource_id AS TEXT) IS NULL OR t.resource_id = :resource_id)
ORDER BY t.created_at DESC, t.stream DESC, t.number DESC LIMIT :most

-- name: list_traces_of_namespace
SELECT {t.trace} FROM journal t
WHERE t.namespace_id = :namespace_id AND t.kind <> 'kept'
  AND t.created_at >= :since AND (t.created_at, t.stream, t.number) < (:until, :until_stream, :until_number)
  AND (CAST(:session_id AS TEXT) IS NULL OR t.session_id = :session_id)
  AND (CAST(:action AS TEXT) IS NULL OR t.action = :action)
  AND (CAST(:user_id AS TEXT) IS NULL OR t.user_id = :user_id)
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)
  AND (CAST(:actor AS TEXT) IS NULL OR t.actor = :actor)
  AND (CAST(:task_id AS TEXT) IS NULL OR t.task_id = :task_id)
  AND (CAST(:resource_type AS TEXT) IS NULL OR t.resource_type = :resource_type)
  AND (CAST(:resource_id AS TEXT) IS NULL OR t.resource_id = :resource_id)
ORDER BY t.created_at DESC, t.stream DESC, t.number DESC LIMIT :most

-- As the index says it: else it would not be used.
-- name: list_traces_of_action
SELECT {t.trace} FROM journal t
WHERE t.namespace_id = :namespace_id AND t.action = :action
  AND t.action <> 'state.updated' AND t.action <> 'turn.added'
  AND t.created_at >= :since AND (t.created_at, t.stream, t.number) < (:until, :until_stream, :until_number)
  AND (CAST(:session_id AS TEXT) IS NULL OR t.session_id = :session_id)
  AND (CAST(:user_id AS TEXT) IS NULL OR t.user_id = :user_id)
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)
  AND (CAST(:actor AS TEXT) IS NULL OR t.actor = :actor)
  AND (CAST(:task_id AS TEXT) IS NULL OR t.task_id = :task_id)
  AND (CAST(:resource_type AS TEXT) IS NULL OR t.resource_type = :resource_type)
  AND (CAST(:resource_id AS TEXT) IS NULL OR t.resource_id = :resource_id)
ORDER BY t.created_at DESC, t.stream DESC, t.number DESC LIMIT :most

-- name: list_traces_of_session
SELECT {t.trace} FROM journal t
WHERE t.tenant_id = :tenant_id AND t.session_id = :session_id
  AND t.created_at >= :since AND (t.created_at, t.stream, t.number) < (:until, :until_stream, :until_number)
  AND (CAST(:namespace_id AS BIGINT) IS NULL OR t.namespace_id = :namespace_id)
  AND (CAST(:action AS TEXT) IS NULL OR t.action = :action)
  AND (CAST(:user_id AS TEXT) IS NULL OR t.user_id = :user_id)
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)
  AND (CAST(:actor AS TEXT) IS NULL OR t.actor = :actor)
  AND (CAST(:task_id AS TEXT) IS NULL OR t.task_id = :task_id)
  AND (CAST(:resource_type AS TEXT) IS NULL OR t.resource_type = :resource_type)
  AND (CAST(:resource_id AS TEXT) IS NULL OR t.resource_id = :resource_id)
ORDER BY t.created_at DESC, t.stream DESC, t.number DESC LIMIT :most

-- name: count_active_sessions_of_namespace
SELECT COUNT(DISTINCT t.session_id) FROM journal t
WHERE t.namespace_id = :namespace_id AND t.created_at >= :since AND t.session_id IS NOT NULL
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)

-- A fork of a namespace has sessions of the same ids.
-- name: count_active_sessions
SELECT COUNT(DISTINCT CAST(t.namespace_id AS TEXT) || ':' || t.session_id)
FROM namespaces n JOIN journal t ON t.namespace_id = n.id
WHERE n.tenant_id = :tenant_id AND t.created_at >= :since AND t.session_id IS NOT NULL
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)

-- name: list_rollbacks_of_namespace
SELECT t.namespace_id, n.name, t.session_id, t.details
FROM namespaces n JOIN journal t ON t.namespace_id = n.id
WHERE n.id = :namespace_id AND t.action = 'state.rolled_back' AND t.created_at >= :since
  AND t.kind <> 'added'
  AND t.action <> 'state.updated' AND t.action <> 'turn.added'
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)

-- name: list_rollbacks
SELECT t.namespace_id, n.name, t.session_id, t.details
FROM namespaces n JOIN journal t ON t.namespace_id = n.id
WHERE n.tenant_id = :tenant_id AND t.action = 'state.rolled_back' AND t.created_at >= :since
  AND t.kind <> 'added'
  AND t.action <> 'state.updated' AND t.action <> 'turn.added'
  AND (CAST(:agent_id AS TEXT) IS NULL OR t.agent_id = :agent_id)
