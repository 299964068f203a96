-- Sessions, their versions and their turns: what both databases say the same way.

-- name: add_session
INSERT INTO sessions ({session}) VALUES ({:session})
ON CONFLICT (namespace_id, id) DO NOTHING

-- name: set_session
UPDATE sessions
SET agent_id = :agent_id, user_id = :user_id, created_at = :created_at, metadata = :metadata,
    updated_at = :updated_at, expires_at = :expires_at, version = :version,
    branch = :branch, turns = :turns, forked_from = :forked_from, forked_version = :forked_version,
    is_present = :is_present, deleted_at = :deleted_at, seal = :seal
WHERE namespace_id = :namespace_id AND id = :id

-- What a new version, or a turn, changes.
-- name: move_session
UPDATE sessions
SET updated_at = :updated_at, version = :version, branch = :branch, turns = :turns, is_present = 1,
    seal = :seal
WHERE namespace_id = :namespace_id AND id = :id

-- name: set_sequence
UPDATE namespaces
SET sequence = :sequence, writer = :writer, entries = entries + :more_entries, bytes = bytes + :more_bytes
WHERE id = :namespace_id

-- The same, and the end of its chain moves to the trace that is added with it.
-- name: set_sequence_and_end
UPDATE namespaces
SET sequence = :sequence, writer = :writer, entries = entries + :more_entries, bytes = bytes + :more_bytes,
    journal_number = :told_number, journal_hash = :told_hash
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
-- name: list_versions_told
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

-- name: add_lagging
INSERT INTO lagging (namespace_id) VALUES (:namespace_id) ON CONFLICT (namespace_id) DO NOTHING

-- name: is_lagging
SELECT 1 FROM lagging WHERE namespace_id = :namespace_id

-- name: drop_lagging
DELETE FROM lagging WHERE namespace_id = :namespace_id

-- name: purge_sessions
DELETE FROM sessions WHERE namespace_id = :namespace_id

-- name: purge_versions
DELETE FROM versions WHERE namespace_id = :namespace_id
