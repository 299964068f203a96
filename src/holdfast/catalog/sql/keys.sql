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

-- name: list_keys
SELECT {key}
FROM keys WHERE tenant_id = :tenant_id AND revoked_at IS NULL ORDER BY created_at, id

-- name: revoke_key
UPDATE keys SET revoked_at = :now
WHERE tenant_id = :tenant_id AND id = :id AND revoked_at IS NULL
RETURNING {key}

-- name: touch_key
-- Workers report in any order: what is known to be later stays.
UPDATE keys SET
    last_used_at = CASE
        WHEN last_used_at > :last_used_at THEN last_used_at ELSE :last_used_at
    END,
    requests = requests + :requests
WHERE id = :id
