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

-- The chains with a row from before an instant beyond what was let go of them, and those that say
-- themselves for how long: a namespace does in its retention, one that is gone in what was noted of
-- its purge. Of one that is gone with nothing beyond, it is when it was last looked at. A trace of
-- letting go that is the only one left stays. A few probes of indexes for each chain, however long
-- they are: of what was done by namespace and action, as `last_done` has it.
-- name: chains_to_forget
WITH RECURSIVE streams (stream) AS (
    SELECT MIN(stream) FROM journal WHERE tenant_id = :tenant_id AND stream > 0
    UNION ALL
    SELECT (
        SELECT MIN(j.stream) FROM journal j
        WHERE j.tenant_id = :tenant_id AND j.stream > streams.stream
    )
    FROM streams WHERE streams.stream IS NOT NULL
),
beginnings (stream, number) AS (
    SELECT s.stream, (
        SELECT MIN(j.number) FROM journal j
        WHERE j.tenant_id = :tenant_id AND j.stream = s.stream AND j.number > COALESCE((
            SELECT f.last_number FROM forgotten f
            WHERE f.tenant_id = :tenant_id AND f.stream = s.stream
            ORDER BY f.first_number DESC LIMIT 1
        ), 0)
    )
    FROM streams s WHERE s.stream IS NOT NULL
),
chains (stream, is_gone, since, said) AS (
    SELECT b.stream, n.id IS NULL,
        CASE WHEN j.number IS NOT NULL OR n.id IS NOT NULL THEN j.created_at ELSE (
            SELECT d.created_at FROM journal d
            WHERE d.namespace_id = b.stream AND +d.tenant_id = :tenant_id
              AND d.action = :forgotten AND d.kind = 'done'
              AND d.action <> 'state.updated' AND d.action <> 'turn.added'
            ORDER BY CASE WHEN d.stream = 0 THEN 1 ELSE 0 END DESC, d.number DESC LIMIT 1
        ) END,
        CASE WHEN n.id IS NOT NULL THEN n.retention ELSE (
            SELECT p.details FROM journal p
            WHERE p.namespace_id = b.stream AND +p.tenant_id = :tenant_id
              AND p.action = :purged AND p.kind = 'done'
              AND p.action <> 'state.updated' AND p.action <> 'turn.added'
            ORDER BY CASE WHEN p.stream = 0 THEN 1 ELSE 0 END DESC, p.number DESC LIMIT 1
        ) END
    FROM beginnings b
    LEFT JOIN namespaces n ON n.id = b.stream
    LEFT JOIN journal j
        ON j.tenant_id = :tenant_id AND j.stream = b.stream AND j.number = b.number
    WHERE j.number IS NULL OR j.action <> :forgotten OR j.kind <> 'done' OR EXISTS (
        SELECT 1 FROM journal k
        WHERE k.tenant_id = :tenant_id AND k.stream = b.stream AND k.number > b.number
    )
)
SELECT stream, is_gone, since, said FROM chains
WHERE since IS NOT NULL AND (since < :before_us OR said LIKE :of_their_own)

-- Which rows of the chain made the versions of a session that are still there.
-- name: rows_of_versions
SELECT journal FROM versions
WHERE namespace_id = :namespace_id AND session_id = :session_id
  AND number >= :first AND number <= :last

-- name: row_of_turn
SELECT stream, journal FROM turns WHERE id = :id

-- The last that we did of some kind in a namespace, or to it: of one that is gone for good, the
-- tenant's own chain says it. As the index of actions says it, and with the tenant in a form that
-- no index has: SQLite would read all of the tenant's rows by their key.
-- name: last_done
SELECT {trace} FROM journal
WHERE namespace_id = :stream AND +tenant_id = :tenant_id AND action = :action AND kind = 'done'
  AND action <> 'state.updated' AND action <> 'turn.added'
ORDER BY CASE WHEN stream = 0 THEN 1 ELSE 0 END DESC, number DESC LIMIT 1
