-- Packs whose rows are gone and whose bytes are not.

-- name: retire_pack
INSERT INTO retired (name, tenant_id, size_bytes, retired_at)
VALUES (:name, :tenant_id, :size_bytes, :retired_at)
ON CONFLICT (name) DO UPDATE SET retired_at = excluded.retired_at

-- name: iter_retired
SELECT name, tenant_id, size_bytes, retired_at FROM retired ORDER BY retired_at, name

-- name: forget_retired
DELETE FROM retired WHERE name = :name
