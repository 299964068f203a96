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

-- name: keep_secret
INSERT INTO first_keys (key_id, tenant_id, secret) VALUES (:key_id, :tenant_id, :secret)

-- name: kept_secrets
SELECT key_id, secret FROM first_keys WHERE tenant_id = :tenant_id

-- Who has one of them was told both.
-- name: forget_secrets
DELETE FROM first_keys
WHERE tenant_id IN (SELECT tenant_id FROM first_keys WHERE key_id = :key_id)

-- name: lock_rate
INSERT INTO rates (key_id) VALUES (:key_id)
ON CONFLICT (key_id) DO UPDATE SET key_id = excluded.key_id
RETURNING {now}, spare, as_of

-- name: set_rate
UPDATE rates SET spare = :left, as_of = {now} WHERE key_id = :key_id

-- Beside the row of a key, one for each second of the last minute, by the key's id and a number.
-- name: find_requests
SELECT as_of, spare FROM rates
WHERE key_id BETWEEN :lowest AND :highest AND as_of BETWEEN :first AND :last

-- name: add_requests
INSERT INTO rates (key_id, spare, as_of) VALUES (:place, :count, :at)
ON CONFLICT (key_id) DO UPDATE
SET spare = CASE WHEN rates.as_of = excluded.as_of THEN rates.spare ELSE 0 END + excluded.spare,
    as_of = excluded.as_of

-- name: purge_rates
DELETE FROM rates WHERE as_of < {now} - :idle_us
