-- Here the lock has to be asked for.

-- name: lock_event_end
SELECT number, created_us, (SELECT MAX(number) FROM events WHERE tenant_id = :tenant_id)
FROM event_ends WHERE tenant_id = :tenant_id FOR UPDATE
