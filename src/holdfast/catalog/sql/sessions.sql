-- Sessions, their versions and their turns: what both databases say the same way.

-- name: add_session
INSERT INTO sessions ({session}) VALUES ({:session})
ON CONFLICT (namespace_id, id) DO NOTHING

-- How many are present; before the row of one changes.
-- name: count_session
UPDATE namespaces
SET sessions = sessions + CAST(:is_present AS BIGINT) - COALESCE((
    SELECT s.is_present FROM sessions s WHERE s.namespace_id = namespaces.id AND s.id = :id
), 0)
WHERE id = :namespace_id

-- name: count_new_session
UPDATE namespaces SET sessions = sessions + 1 WHERE id = :namespace_id

-- Not where there are very many: then a list would take longer to count than to read.
-- name: count_present
SELECT n.sessions, CASE WHEN n.sessions <= :most THEN (
    SELECT COUNT(*) FROM sessions s WHERE s.namespace_id = n.id AND s.is_present = 1
) END
FROM namespaces n WHERE n.id = :namespace_id

-- name: present_ids
SELECT id FROM sessions WHERE namespace_id = :namespace_id AND is_present = 1

-- name: session_ids
SELECT id FROM sessions WHERE namespace_id = :namespace_id

-- name: mend_session_count
UPDATE namespaces
SET sessions = (
    SELECT COUNT(*) FROM sessions s WHERE s.namespace_id = namespaces.id AND s.is_present = 1
)
WHERE id = :namespace_id AND sessions <> (
    SELECT COUNT(*) FROM sessions s WHERE s.namespace_id = namespaces.id AND s.is_present = 1
)

-- name: page_sessions
SELECT {session} FROM sessions
WHERE namespace_id = :namespace_id AND id > :after ORDER BY id LIMIT :most

-- name: drop_session
DELETE FROM sessions WHERE namespace_id = :namespace_id AND id = :id AND seal = :seal

-- Of no namespace that there is: what is left of one that was found anew.
-- name: drop_stray_session
DELETE FROM sessions WHERE id = :id AND namespace_id NOT IN (SELECT id FROM namespaces)

-- name: newest_version
SELECT {version} FROM versions
WHERE namespace_id = :namespace_id AND session_id = :session_id
ORDER BY number DESC LIMIT 1

-- What was done to a session itself, oldest and newest first.
-- name: first_traces_of
SELECT {trace} FROM journal
WHERE tenant_id = :tenant_id AND session_id = :session_id AND stream = :stream
  AND kind = 'done' AND action IN ('session.created', 'session.forked')
ORDER BY created_at, number LIMIT :most

-- name: last_traces_of
SELECT {trace} FROM journal
WHERE tenant_id = :tenant_id AND session_id = :session_id AND stream = :stream
  AND kind = 'done' AND action IN (
    'session.created', 'session.forked', 'session.updated', 'session.deleted', 'session.expired',
    'state.updated', 'state.rolled_back', 'turn.added'
  )
ORDER BY created_at DESC, number DESC LIMIT :most

-- name: set_session
UPDATE sessions
SET agent_id = :agent_id, user_id = :user_id, created_at = :created_at, metadata = :metadata,
    updated_at = :updated_at, expires_at = :expires_at, version = :version,
    branch = :branch, turns = :turns, forked_from = :forked_from, forked_version = :forked_version,
    is_present = :is_present, deleted_at = :deleted_at, since = :since, seal = :seal
WHERE namespace_id = :namespace_id AND id = :id

-- What a new version, or a turn, changes of a session that is present. To say so once more would
-- write the index of those that are.
-- name: move_session
UPDATE sessions
SET updated_at = :updated_at, version = :version, branch = :branch, turns = :turns, seal = :seal
WHERE namespace_id = :namespace_id AND id = :id

-- Before a row is put: its mark counts if its key is not pending yet.
-- name: set_sequence
UPDATE namespaces
SET sequence = :sequence, writer = :writer, entries = entries + :more_entries, bytes = bytes + :more_bytes,
    unfolded = unfolded + CASE WHEN EXISTS (
        SELECT 1 FROM pending p WHERE p.namespace_id = :namespace_id AND p.plane = :plane AND p.key = :key
    ) THEN 0 ELSE CAST(:mark AS BIGINT) END
WHERE id = :namespace_id

-- The same, and the end of its chain moves to the trace that is added with it; a new session counts.
-- name: set_sequence_and_end
UPDATE namespaces
SET sequence = :sequence, writer = :writer, entries = entries + :more_entries, bytes = bytes + :more_bytes,
    unfolded = unfolded + CASE WHEN EXISTS (
        SELECT 1 FROM pending p WHERE p.namespace_id = :namespace_id AND p.plane = :plane AND p.key = :key
    ) THEN 0 ELSE CAST(:mark AS BIGINT) END,
    journal_number = :told_number, journal_hash = :told_hash, sessions = sessions + :new_sessions
WHERE id = :namespace_id

-- name: forks_of
SELECT id FROM sessions
WHERE namespace_id = :namespace_id AND forked_from = :session_id AND deleted_at IS NULL
ORDER BY created_at, id

-- name: add_version
INSERT INTO versions (namespace_id, session_id, {version})
VALUES (:namespace_id, :session_id, {:made})

-- name: find_version
SELECT {version}
FROM versions
WHERE namespace_id = :namespace_id AND session_id = :session_id AND number = :number

-- name: list_versions
SELECT {version}
FROM versions
WHERE namespace_id = :namespace_id AND session_id = :session_id
  AND number > :after AND number < :before
ORDER BY number LIMIT :most

-- With the rows of the journal that have their hashes.
-- name: list_traced_versions
SELECT {v.version}, {t.trace}
FROM versions v
LEFT JOIN journal t ON t.tenant_id = :tenant_id AND t.stream = v.namespace_id AND t.number = v.journal
WHERE v.namespace_id = :namespace_id AND v.session_id = :session_id
  AND v.number > :after AND v.number < :before
ORDER BY v.number LIMIT :most

-- name: all_version_states
SELECT v.state FROM versions v JOIN namespaces n ON n.id = v.namespace_id
WHERE n.tenant_id = :tenant_id

-- name: add_branch
INSERT INTO branches (tenant_id, {branch}) VALUES (:tenant_id, {:branch})

-- name: find_branch
SELECT {branch} FROM branches
WHERE id = :id AND tenant_id = :tenant_id

-- name: extend_branch
UPDATE branches SET turns = turns + 1, bytes = bytes + :more
WHERE id = :id AND tenant_id = :tenant_id AND turns = :turns
RETURNING id

-- name: add_turn
INSERT INTO turns ({turn}) VALUES ({:said})

-- name: find_turn
SELECT {turn} FROM turns WHERE id = :id

-- name: list_turns_up
SELECT {turn} FROM turns
WHERE branch = :branch AND number > :after AND number < :before
ORDER BY number LIMIT :most

-- name: list_turns_down
SELECT {turn} FROM turns
WHERE branch = :branch AND number > :after AND number < :before
ORDER BY number DESC LIMIT :most

-- name: bytes_of_turns
SELECT COALESCE(SUM(length(data)), 0) FROM turns
WHERE branch = :branch AND number > :after AND number < :before

-- name: add_lagging
INSERT INTO lagging (namespace_id) VALUES (:namespace_id) ON CONFLICT (namespace_id) DO NOTHING

-- name: is_lagging
SELECT 1 FROM lagging WHERE namespace_id = :namespace_id

-- name: drop_lagging
DELETE FROM lagging WHERE namespace_id = :namespace_id

-- name: purge_sessions
DELETE FROM sessions WHERE namespace_id = :namespace_id

-- Sessions whose id another has by now.

-- name: add_former
INSERT INTO former_sessions ({session}) VALUES ({:session})

-- name: former_sessions
SELECT {session} FROM former_sessions
WHERE namespace_id = :namespace_id AND id = :id ORDER BY version

-- name: all_former
SELECT {session} FROM former_sessions WHERE namespace_id = :namespace_id ORDER BY id, version

-- name: find_session_row
SELECT {session} FROM sessions WHERE namespace_id = :namespace_id AND id = :id

-- name: drop_former
DELETE FROM former_sessions
WHERE namespace_id = :namespace_id AND id = :id AND version = :version

-- name: drop_formers
DELETE FROM former_sessions WHERE namespace_id = :namespace_id AND id = :session_id

-- name: drop_entities_of_formers
DELETE FROM former_entities WHERE namespace_id = :namespace_id AND session_id = :session_id

-- name: beginnings_of_entities
SELECT DISTINCT began_at FROM former_entities
WHERE namespace_id = :namespace_id AND session_id = :session_id

-- name: next_number
SELECT MIN(number) FROM versions
WHERE namespace_id = :namespace_id AND session_id = :session_id AND number > :after

-- name: drop_versions
DELETE FROM versions
WHERE namespace_id = :namespace_id AND session_id = :session_id
  AND number >= :first AND number <= :last

-- What it knew of things is known by nobody meanwhile.
-- name: set_entities_aside
INSERT INTO former_entities ({entity}, deleted_at, began_at)
SELECT {entity}, deleted_at, CAST(:began_at AS BIGINT) FROM entities
WHERE namespace_id = :namespace_id AND session_id = :session_id

-- name: drop_entities
DELETE FROM entities WHERE namespace_id = :namespace_id AND session_id = :session_id

-- name: bring_entities_back
INSERT INTO entities ({entity}, deleted_at)
SELECT {entity}, deleted_at FROM former_entities
WHERE namespace_id = :namespace_id AND session_id = :session_id AND began_at = :began_at

-- name: count_former_entities
SELECT COUNT(*) FROM former_entities
WHERE namespace_id = :namespace_id AND session_id = :session_id AND began_at = :began_at

-- name: drop_former_entities
DELETE FROM former_entities
WHERE namespace_id = :namespace_id AND session_id = :session_id AND began_at = :began_at

-- name: purge_former_sessions
DELETE FROM former_sessions WHERE namespace_id = :namespace_id

-- name: purge_former_entities
DELETE FROM former_entities WHERE namespace_id = :namespace_id

-- name: purge_versions
DELETE FROM versions WHERE namespace_id = :namespace_id

-- A head and a session that are still as somebody left them. The checksum is over all else that the
-- head's row says, the seal over all of the session's. Who waited for the lock has the head compared
-- again, and the session with it: whoever changes one moves the end of its chain.
-- name: trust_head
SELECT n.id FROM namespaces n
WHERE n.id = :namespace_id AND n.sequence = :sequence AND n.writer = :writer
  AND n.journal_number = :journal_number AND n.journal_hash = :journal_hash
  AND n.checksum = :checksum
  AND EXISTS (
      SELECT 1 FROM sessions s
      WHERE s.namespace_id = :namespace_id AND s.id = :session_id AND s.seal = :seal)
  AND EXISTS (
      SELECT 1 FROM tenants t
      WHERE t.id = :tenant_id AND COALESCE(t.quota_bytes, -1) = :quota_bytes)
  AND (CAST(:is_unheard AS BIGINT) = 0
      OR NOT EXISTS (SELECT 1 FROM listening WHERE what = 'events'))
