-- API keys. The order of columns is that of `_to_key`; after it comes the tenant's.

-- name: add_key
INSERT INTO keys (
    id, tenant_id, name, prefix, scope, namespace, rate_limit, created_at, expires_at, secret_hash
) VALUES (
    :id, :tenant_id, :name, :prefix, :scope, :namespace, :rate_limit, :created_at, :expires_at,
    :secret_hash
)

-- name: find_key
SELECT
    keys.id, keys.tenant_id, keys.name, keys.prefix, keys.scope, keys.namespace, keys.rate_limit,
    keys.created_at, keys.expires_at, keys.revoked_at, keys.last_used_at, keys.requests,
    tenants.id, tenants.name, tenants.public_id, tenants.quota_bytes
FROM keys JOIN tenants ON tenants.id = keys.tenant_id
WHERE keys.secret_hash = :secret_hash

-- name: find_key_by_id
SELECT
    id, tenant_id, name, prefix, scope, namespace, rate_limit, created_at, expires_at, revoked_at,
    last_used_at, requests
FROM keys WHERE tenant_id = :tenant_id AND id = :id

-- name: list_keys
SELECT
    id, tenant_id, name, prefix, scope, namespace, rate_limit, created_at, expires_at, revoked_at,
    last_used_at, requests
FROM keys WHERE tenant_id = :tenant_id AND revoked_at IS NULL ORDER BY created_at, id

-- name: revoke_key
UPDATE keys SET revoked_at = :now
WHERE tenant_id = :tenant_id AND id = :id AND revoked_at IS NULL
RETURNING
    id, tenant_id, name, prefix, scope, namespace, rate_limit, created_at, expires_at, revoked_at,
    last_used_at, requests

-- name: touch_key
-- Workers report in any order: what is known to be later stays.
UPDATE keys SET
    last_used_at = CASE
        WHEN last_used_at > :last_used_at THEN last_used_at ELSE :last_used_at
    END,
    requests = requests + :requests
WHERE id = :id
