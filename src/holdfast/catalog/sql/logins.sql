-- Programs that wait for a person to sign them in.

-- name: add_login
INSERT INTO logins ({login}) VALUES ({:login}) ON CONFLICT DO NOTHING

-- name: count_logins
SELECT count(*), count(CASE WHEN address = :address THEN 1 END) FROM logins

-- name: find_login
SELECT {login} FROM logins WHERE device_hash = :device_hash

-- name: find_login_by_code
SELECT {login} FROM logins WHERE user_hash = :user_hash

-- name: decide_login
UPDATE logins
SET tenant_id = :tenant_id, decided_by = :decided_by, is_denied = :is_denied, name = :name,
    scope = :scope, namespace = :namespace, expires_in = :expires_in
WHERE device_hash = :device_hash AND decided_by IS NULL

-- name: take_login
DELETE FROM logins WHERE device_hash = :device_hash AND decided_by IS NOT NULL
RETURNING {login}

-- name: purge_logins
DELETE FROM logins WHERE created_at <= :before
