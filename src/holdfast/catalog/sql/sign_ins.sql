-- Who is signed in to the console, and links to it.

-- name: add_sign_in
INSERT INTO sign_ins ({sign_in}) VALUES ({:sign_in})

-- A row for each key that it holds.
-- name: find_sign_in
SELECT {s.sign_in}, {t.tenant}, {k.key}
FROM sign_ins s JOIN tenants t ON t.id = s.tenant_id
JOIN keys k ON k.id IN (s.runtime_key, s.admin_key)
WHERE s.token_hash = :token_hash AND s.is_link = 0

-- name: take_sign_in
DELETE FROM sign_ins WHERE token_hash = :token_hash AND is_link = :is_link
RETURNING {sign_in}

-- name: end_sign_ins
DELETE FROM sign_ins
WHERE tenant_id = :tenant_id
    AND (runtime_key IN (:runtime_key, :admin_key) OR admin_key IN (:runtime_key, :admin_key))

-- name: note_sign_in
UPDATE sign_ins SET seen_at = :seen_at WHERE token_hash = :token_hash AND seen_at < :seen_at

-- name: purge_sign_ins
DELETE FROM sign_ins
WHERE created_at <= :created_before OR seen_at <= :seen_before
    OR (is_link = 1 AND created_at <= :linked_before)
