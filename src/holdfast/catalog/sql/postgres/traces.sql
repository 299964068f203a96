-- Here the lock has to be asked for. NO KEY: rows that refer to the tenant may come meanwhile.

-- name: lock_tenant_end
SELECT journal_number, journal_hash FROM tenants WHERE id = :tenant_id FOR NO KEY UPDATE

-- name: lock_end
SELECT journal_number, journal_hash FROM namespaces WHERE id = :stream FOR UPDATE
