-- Who receives the log of the database, and how much of it the last of them has still to write to its
-- disk. Whoever may not look at other connections sees that they are there, and no more.

-- name: find_replicas
SELECT COUNT(*), CAST(MAX(
    CASE WHEN pg_is_in_recovery() THEN NULL
    ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn) END
) AS BIGINT)
FROM pg_stat_replication
