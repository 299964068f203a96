-- API keys.

-- name: add_key
INSERT INTO keys ({key}, secret_hash) VALUES ({:key}, :secret_hash)

-- name: find_key
SELECT {keys.key}, {tenants.tenant}
FROM keys JOIN tenants ON tenants.id = keys.tenant_id
WHERE keys.secret_hash = :secret_hash

-- name: find_key_by_id
SELECT {key}
FROM keys WHERE tenant_id = :tenant_id AND id = :id

-- Revoked ones, too: whether one is, its checksum says.
-- name: list_keys
SELECT {key}
FROM keys WHERE tenant_id = :tenant_id ORDER BY created_at, id

-- To write a row is what locks it, on both databases.
-- name: lock_key
UPDATE keys SET requests = requests WHERE id = :id RETURNING {key}

-- name: set_key
UPDATE keys
SET revoked_at = :revoked_at, last_used_at = :last_used_at, requests = :requests,
    checksum = :checksum
WHERE id = :id
