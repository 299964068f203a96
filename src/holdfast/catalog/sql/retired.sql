-- Packs whose rows are gone and whose bytes are not.

-- name: retire_pack
INSERT INTO retired (name, tenant_id, size_bytes, retired_at)
VALUES (:name, :tenant_id, :size_bytes, :retired_at)
ON CONFLICT (name) DO UPDATE SET retired_at = excluded.retired_at

-- name: iter_retired
SELECT name, tenant_id, size_bytes, retired_at FROM retired ORDER BY retired_at, name

-- name: due_retired
SELECT name, tenant_id, size_bytes, retired_at FROM retired
WHERE retired_at <= :before ORDER BY retired_at, name LIMIT :most

-- name: retired_after
SELECT name, tenant_id, size_bytes, retired_at FROM retired
WHERE retired_at > :now ORDER BY retired_at, name

-- A tenant's, and nobody's where there is no other tenant.
-- name: own_retired
SELECT name, tenant_id, size_bytes, retired_at FROM retired WHERE tenant_id = :tenant_id
UNION ALL
SELECT name, tenant_id, size_bytes, retired_at FROM retired
WHERE tenant_id IS NULL AND NOT EXISTS (
    SELECT 1 FROM tenants WHERE id < :tenant_id OR id > :tenant_id)

-- name: retired_bytes
SELECT (SELECT COALESCE(SUM(size_bytes), 0) FROM retired WHERE tenant_id = :tenant_id)
     + (SELECT COALESCE(SUM(size_bytes), 0) FROM retired
        WHERE tenant_id IS NULL AND NOT EXISTS (
            SELECT 1 FROM tenants WHERE id < :tenant_id OR id > :tenant_id))

-- name: forget_retired
DELETE FROM retired WHERE name = :name
