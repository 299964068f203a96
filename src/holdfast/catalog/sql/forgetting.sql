-- Traces that retention lets go of.

-- name: list_sections
SELECT first_number, last_number, hash, created_us, kept, digest FROM forgotten
WHERE tenant_id = :tenant_id AND stream = :stream ORDER BY first_number

-- name: last_section
SELECT first_number, last_number, hash, created_us, kept, digest FROM forgotten
WHERE tenant_id = :tenant_id AND stream = :stream ORDER BY first_number DESC LIMIT 1

-- name: all_sections
SELECT stream, first_number, last_number, hash, created_us, kept, digest FROM forgotten
WHERE tenant_id = :tenant_id ORDER BY stream, first_number

-- name: set_section
INSERT INTO forgotten
    (tenant_id, stream, first_number, last_number, hash, created_us, kept, digest)
VALUES (:tenant_id, :stream, :first, :last, :hash, :at_us, :kept, :digest)
ON CONFLICT (tenant_id, stream, first_number) DO UPDATE
SET last_number = excluded.last_number, hash = excluded.hash, created_us = excluded.created_us,
    kept = excluded.kept, digest = excluded.digest

-- name: drop_section
DELETE FROM forgotten
WHERE tenant_id = :tenant_id AND stream = :stream AND first_number = :first

-- name: drop_traces
DELETE FROM journal
WHERE tenant_id = :tenant_id AND stream = :stream AND number >= :first AND number <= :last

-- One probe of the index for each chain, however long they are.
-- name: streams_of_gone
WITH RECURSIVE streams (stream) AS (
    SELECT MIN(stream) FROM journal WHERE tenant_id = :tenant_id AND stream > 0
    UNION ALL
    SELECT (
        SELECT MIN(j.stream) FROM journal j
        WHERE j.tenant_id = :tenant_id AND j.stream > streams.stream
    )
    FROM streams WHERE streams.stream IS NOT NULL
)
SELECT stream FROM streams
WHERE stream IS NOT NULL AND NOT EXISTS (SELECT 1 FROM namespaces n WHERE n.id = streams.stream)

-- Which rows of the chain made the versions of a session that are still there.
-- name: rows_of_versions
SELECT journal FROM versions
WHERE namespace_id = :namespace_id AND session_id = :session_id
  AND number >= :first AND number <= :last

-- name: row_of_turn
SELECT stream, journal FROM turns WHERE id = :id

-- The last that we did of some kind in a namespace, or to it: of one that is gone for good, the
-- tenant's own chain says it. As the index of actions says it.
-- name: last_done
SELECT {trace} FROM journal
WHERE namespace_id = :stream AND tenant_id = :tenant_id AND action = :action AND kind = 'done'
  AND action <> 'state.updated' AND action <> 'turn.added'
ORDER BY CASE WHEN stream = 0 THEN 1 ELSE 0 END DESC, number DESC LIMIT 1
