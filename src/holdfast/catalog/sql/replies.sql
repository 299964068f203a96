-- Answers that a repeated request gets again.

-- name: add_reply
INSERT INTO replies (key_id, method, path, name, {reply})
VALUES (:key_id, :method, :path, :name, {:reply})
ON CONFLICT DO NOTHING

-- name: find_reply
SELECT {reply} FROM replies
WHERE key_id = :key_id AND name = :name AND method = :method AND path = :path

-- name: set_reply
UPDATE replies SET
    fingerprint = :fingerprint, created_at = :created_at, leased_until = :leased_until,
    status = :status, media_type = :media_type, body = :body
WHERE key_id = :key_id AND name = :name AND method = :method AND path = :path
    AND leased_until = :seen

-- name: delete_reply
DELETE FROM replies
WHERE key_id = :key_id AND name = :name AND method = :method AND path = :path
    AND leased_until = :seen

-- name: purge_replies
DELETE FROM replies WHERE created_at < :before
