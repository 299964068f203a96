-- Here the lock has to be asked for.

-- name: lock_trace_end
SELECT number, hash FROM trace_ends WHERE tenant_id = :tenant_id FOR UPDATE
