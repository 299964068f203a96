-- Answers that a repeated request gets again.

-- name: add_reply
INSERT INTO replies (key_id, method, path, name, {reply})
VALUES (:key_id, :method, :path, :name, {:reply})
ON CONFLICT DO NOTHING
RETURNING name

-- name: find_reply
SELECT {reply} FROM replies
WHERE key_id = :key_id AND name = :name AND method = :method AND path = :path

-- name: has_reply
SELECT 1 FROM replies
WHERE key_id = :key_id AND name = :name AND method = :method AND path = :path

-- Whose a request is, the instant says at which it was claimed: it is another one for whoever
-- takes it over, and a lease that is prolonged leaves it as it is.

-- name: take_reply
UPDATE replies SET
    fingerprint = :fingerprint, created_at = :created_at, leased_until = :leased_until,
    status = :status, media_type = :media_type, body = :body
WHERE key_id = :key_id AND name = :name AND method = :method AND path = :path
    AND created_at = :seen_at AND leased_until = :seen_until AND coalesce(status, 0) = :seen_status
RETURNING name

-- name: renew_reply
UPDATE replies SET leased_until = :leased_until
WHERE key_id = :key_id AND name = :name AND method = :method AND path = :path
    AND created_at = :claimed_at AND status IS NULL

-- name: settle_reply
UPDATE replies SET status = :status, media_type = :media_type, body = :body
WHERE key_id = :key_id AND name = :name AND method = :method AND path = :path
    AND created_at = :claimed_at AND status IS NULL
RETURNING name

-- name: delete_reply
DELETE FROM replies
WHERE key_id = :key_id AND name = :name AND method = :method AND path = :path
    AND created_at = :claimed_at AND status IS NULL

-- name: purge_replies
DELETE FROM replies WHERE created_at < :before

-- Of large ones alone, which have an index: most answers are small, and there are many.

-- name: large_reply_bytes
SELECT COALESCE(SUM(length(r.body)), 0)
FROM keys k JOIN replies r ON r.key_id = k.id AND length(r.body) > 4096
WHERE k.tenant_id = :tenant_id
