-- Write transactions are serial here: nothing is left to lock.

-- name: lock_trace_end
SELECT number, hash FROM trace_ends WHERE tenant_id = :tenant_id
