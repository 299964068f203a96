-- What happened, for whoever listens.

-- name: listen
INSERT INTO listening (what, since) VALUES ('events', :since) ON CONFLICT (what) DO NOTHING

-- name: is_heard
SELECT since FROM listening WHERE what = 'events'

-- Types are said for PostgreSQL, which takes those of the columns for values alone.

-- name: add_unnumbered
INSERT INTO told ({telling})
SELECT
    CAST(:heard_tenant_id AS BIGINT), CAST(:heard_created_us AS BIGINT), CAST(:heard_type AS TEXT),
    CAST(:heard_namespace_id AS BIGINT), CAST(:heard_namespace AS TEXT), CAST(:heard_data AS TEXT),
    CAST(:heard_checksum AS BIGINT)
WHERE EXISTS (SELECT 1 FROM listening WHERE what = 'events')

-- name: has_unnumbered
SELECT 1 FROM told WHERE tenant_id = :tenant_id LIMIT 1

-- name: tenants_to_number
SELECT DISTINCT w.tenant_id FROM webhooks w
WHERE w.enabled = 1 AND EXISTS (SELECT 1 FROM told t WHERE t.tenant_id = w.tenant_id)

-- name: list_unnumbered
SELECT position, {telling}
FROM told WHERE tenant_id = :tenant_id AND position > :after ORDER BY position LIMIT :most

-- name: drop_unnumbered
DELETE FROM told WHERE position = :position

-- name: begin_events
INSERT INTO event_ends (tenant_id, number, created_us) VALUES (:tenant_id, 0, 0)
ON CONFLICT (tenant_id) DO NOTHING

-- name: move_event_end
UPDATE event_ends
SET number = :number, created_us = :created_us,
    timeline = COALESCE(CAST(:timeline AS BIGINT), timeline)
WHERE tenant_id = :tenant_id

-- name: restore_event_end
INSERT INTO event_ends (tenant_id, number, created_us)
SELECT e.tenant_id, MAX(e.number), MAX(e.created_us) FROM events e
WHERE e.tenant_id = :tenant_id GROUP BY e.tenant_id
ON CONFLICT (tenant_id) DO NOTHING

-- name: mend_event_end
UPDATE event_ends
SET number = (SELECT MAX(e.number) FROM events e WHERE e.tenant_id = event_ends.tenant_id),
    created_us = (SELECT MAX(e.created_us) FROM events e WHERE e.tenant_id = event_ends.tenant_id),
    purged = (SELECT MIN(e.number) FROM events e WHERE e.tenant_id = event_ends.tenant_id) - 1
WHERE tenant_id = :tenant_id AND (
    number <> (SELECT MAX(e.number) FROM events e WHERE e.tenant_id = event_ends.tenant_id)
    OR purged <> (SELECT MIN(e.number) FROM events e WHERE e.tenant_id = event_ends.tenant_id) - 1)

-- Where the catalog was set back, numbers go on further behind.
-- name: has_wrong_event_end
SELECT COUNT(*) FROM event_ends, (
    SELECT MIN(e.number) AS first, MAX(e.number) AS last FROM events e
    WHERE e.tenant_id = :tenant_id
) AS needed
WHERE event_ends.tenant_id = :tenant_id AND (
    event_ends.number <> needed.last OR event_ends.purged >= needed.first
    OR (event_ends.purged < needed.first - 1 AND NOT EXISTS (
        SELECT 1 FROM events f
        WHERE f.tenant_id = :tenant_id AND f.number = needed.first AND f.type = :era)))

-- name: newest_event
SELECT MAX(number) FROM events WHERE tenant_id = :tenant_id

-- name: add_event
INSERT INTO events ({event}) VALUES ({:event})

-- name: last_event
SELECT number, purged FROM event_ends WHERE tenant_id = :tenant_id

-- name: note_purged_events
UPDATE event_ends
SET purged = COALESCE(
    (SELECT MIN(e.number) FROM events e WHERE e.tenant_id = event_ends.tenant_id) - 1, number)
WHERE tenant_id = :tenant_id

-- name: find_event
SELECT {event}
FROM events WHERE tenant_id = :tenant_id AND created_us = :created_us

-- name: page_events
SELECT {event}
FROM events WHERE tenant_id = :tenant_id AND number > :after ORDER BY number LIMIT :most

-- By instant, of which there are no two alike: whoever follows starts in the index where it left
-- off. `replace` finds a type in a list, and knows no wildcards.

-- name: list_events
SELECT {event}
FROM events
WHERE tenant_id = :tenant_id
    AND created_us > :since_us AND created_us < :below_us
    AND (:types = '' OR replace(:types, ',' || type || ',', '') != :types)
ORDER BY created_us DESC LIMIT :most

-- name: list_events_oldest_first
SELECT {event}
FROM events
WHERE tenant_id = :tenant_id
    AND created_us > :since_us AND created_us < :below_us
    AND (:types = '' OR replace(:types, ',' || type || ',', '') != :types)
ORDER BY created_us LIMIT :most

-- name: list_events_of
SELECT {event}
FROM events
WHERE tenant_id = :tenant_id AND namespace = :namespace
    AND created_us > :since_us AND created_us < :below_us
    AND (:types = '' OR replace(:types, ',' || type || ',', '') != :types)
ORDER BY created_us DESC LIMIT :most

-- name: list_events_of_oldest_first
SELECT {event}
FROM events
WHERE tenant_id = :tenant_id AND namespace = :namespace
    AND created_us > :since_us AND created_us < :below_us
    AND (:types = '' OR replace(:types, ',' || type || ',', '') != :types)
ORDER BY created_us LIMIT :most

-- name: purge_events
DELETE FROM events
WHERE tenant_id = :tenant_id AND created_us < :before_us AND number < :most + (
        SELECT min(number) FROM events WHERE tenant_id = :tenant_id
    )
