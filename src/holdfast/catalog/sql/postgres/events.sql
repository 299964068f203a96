-- Here the lock has to be asked for.

-- name: lock_event_end
SELECT number, created_us, timeline, {timeline} FROM event_ends WHERE tenant_id = :tenant_id FOR UPDATE
