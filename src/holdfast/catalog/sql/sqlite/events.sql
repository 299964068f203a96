-- Write transactions are serial here: nothing is left to lock.

-- name: lock_event_end
SELECT number, created_us, timeline, {timeline} FROM event_ends WHERE tenant_id = :tenant_id
