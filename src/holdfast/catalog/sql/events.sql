-- What happened, for whoever listens.

-- name: advance_events
INSERT INTO event_ends (tenant_id, number, created_us) VALUES (:tenant_id, :count, :now_us)
ON CONFLICT (tenant_id) DO UPDATE SET
    number = event_ends.number + :count,
    created_us = CASE
        WHEN event_ends.created_us + :count > excluded.created_us
        THEN event_ends.created_us + :count ELSE excluded.created_us END
RETURNING number, created_us

-- name: add_event
INSERT INTO events ({event}) VALUES ({:event})

-- name: last_event
SELECT number FROM event_ends WHERE tenant_id = :tenant_id

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
DELETE FROM events WHERE tenant_id = :tenant_id AND created_us < :before_us
