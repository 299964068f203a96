-- A file has no replicas that it knows of.

-- name: find_replicas
SELECT 0, NULL
