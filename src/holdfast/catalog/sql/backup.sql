-- What a backup asks about the tables themselves.

-- name: count_migrations
SELECT COALESCE(MAX(number), 0) FROM migrations
