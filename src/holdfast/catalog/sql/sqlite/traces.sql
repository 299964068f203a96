-- Write transactions are serial here: nothing is left to lock.

-- name: lock_tenant_end
SELECT journal_number, journal_hash FROM tenants WHERE id = :tenant_id

-- name: lock_end
SELECT journal_number, journal_hash FROM namespaces WHERE id = :stream
