-- What is erased for good: the exception to "deleting is not destroying".

-- name: add_erasure
INSERT INTO erasures ({erasure}) VALUES ({:erasure})

-- name: set_erasure
UPDATE erasures
SET subject = :subject, told = :told, finished_at = :finished_at, checksum = :checksum
WHERE id = :id

-- name: list_erasures
SELECT {erasure} FROM erasures WHERE tenant_id = :tenant_id ORDER BY begun_at DESC, id DESC

-- name: erase_deliveries_of
DELETE FROM deliveries
WHERE webhook_id IN (SELECT id FROM webhooks WHERE tenant_id = :tenant_id)
    AND event_number = :number

-- name: erase_event
UPDATE events
SET type = :type, namespace_id = :namespace_id, namespace = :namespace, data = :data,
    checksum = :checksum
WHERE tenant_id = :tenant_id AND number = :number

-- Of all that the tenant's keys asked for: an answer does not say what it is about.
-- name: erase_replies
DELETE FROM replies WHERE status IS NOT NULL
    AND key_id IN (SELECT id FROM keys WHERE tenant_id = :tenant_id)

-- Who holds them, and all else that they say, stays.
-- name: rewrite_head
UPDATE namespaces
SET generation = :generation, root = :root, fork_root = :fork_root, checksum = :checksum,
    entries = entries + :more_entries, bytes = bytes + :more_bytes, purged = purged + 1
WHERE id = :id

-- name: rewrite_snapshot
UPDATE snapshots
SET root = :root, entries = :entries, bytes = :bytes, detail = :detail, counts = :counts,
    checksum = :checksum
WHERE id = :id AND namespace_id = :namespace_id

-- name: sessions_of_user
SELECT id, created_at FROM sessions WHERE namespace_id = :namespace_id AND user_id = :user_id
UNION ALL
SELECT id, created_at FROM former_sessions
WHERE namespace_id = :namespace_id AND user_id = :user_id

-- name: beginnings_of
SELECT created_at FROM sessions WHERE namespace_id = :namespace_id AND id = :id
UNION ALL
SELECT created_at FROM former_sessions WHERE namespace_id = :namespace_id AND id = :id

-- What we did to sessions ourselves: whoever adds a trace may name any, and those of format 0 do not
-- say who it was.
-- name: sessions_in_events
SELECT DISTINCT namespace_id, session_id FROM journal
WHERE tenant_id = :tenant_id AND user_id = :user_id AND session_id IS NOT NULL
    AND namespace_id IS NOT NULL AND kind = 'done' AND format > 0 AND resource_type = 'session'

-- The same of one session, and of some rows of its chain.
-- name: names_user
SELECT 1 FROM journal
WHERE namespace_id = :namespace_id AND stream = :namespace_id AND session_id = :session_id
    AND user_id = :user_id AND kind = 'done' AND format > 0 AND resource_type = 'session'
    AND number >= :first AND number <= :last
LIMIT 1

-- name: count_history
SELECT (SELECT COUNT(*) FROM versions WHERE namespace_id = :namespace_id AND session_id = :session_id),
       (SELECT COUNT(*) FROM entities WHERE namespace_id = :namespace_id AND session_id = :session_id)

-- Deleted ones, too.
-- name: memories_about
SELECT id FROM memories
WHERE namespace_id = :namespace_id
    AND (session_id = CAST(:session_id AS TEXT) OR user_id = CAST(:user_id AS TEXT))

-- name: erase_memory
DELETE FROM memories WHERE namespace_id = :namespace_id AND id = :id

-- name: all_task_changes
SELECT task_id, plane, key, old_entry, old_sum, new_entry, new_sum, is_shared
FROM task_changes WHERE namespace_id = :namespace_id

-- name: uncount_task_change
UPDATE tasks SET noted = noted - 3
WHERE namespace_id = :namespace_id AND id IN (
    SELECT task_id FROM task_changes
    WHERE namespace_id = :namespace_id AND plane = :plane AND key = :key
)

-- name: erase_task_change
DELETE FROM task_changes WHERE namespace_id = :namespace_id AND plane = :plane AND key = :key

-- name: uncount_noted
UPDATE tasks SET noted = noted - 3
WHERE namespace_id = :namespace_id AND id IN (
    SELECT task_id FROM task_changes
    WHERE namespace_id = :namespace_id AND plane = :plane AND key = :key
        AND (old_entry = :entry OR new_entry = :entry)
)

-- name: erase_noted
DELETE FROM task_changes WHERE namespace_id = :namespace_id AND plane = :plane AND key = :key
    AND (old_entry = :entry OR new_entry = :entry)

-- Of which something can still be taken: those of format 0 keep their ids.

-- name: traces_about
SELECT {trace} FROM journal
WHERE namespace_id = :namespace_id AND (format > 0 OR substr(details, 1, 9) <> 'redacted:')
    AND (session_id = :session_id OR (resource_type = 'session' AND resource_id = :session_id))
    AND (CAST(:user_id AS TEXT) IS NULL OR user_id IS NULL OR user_id = CAST(:user_id AS TEXT))
    AND (stream <> :namespace_id OR (number >= :first AND number <= :last))
LIMIT :most

-- name: traces_about_user
SELECT {trace} FROM journal
WHERE tenant_id = :tenant_id AND user_id = :user_id
    AND (format > 0 OR substr(details, 1, 9) <> 'redacted:')
LIMIT :most

-- name: trim_turns
DELETE FROM turns WHERE branch = :id AND number > :turns

-- name: trim_branch
UPDATE branches
SET turns = :turns, bytes = (SELECT COALESCE(SUM(length(data)), 0) FROM turns WHERE branch = :id)
WHERE id = :id AND tenant_id = :tenant_id
