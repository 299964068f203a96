-- Who receives the log of the database, and how much of it the last of them has still to write to its
-- disk. A copy on its way receives it as well, and so does who decodes it: these are no replicas. One
-- that has yet to catch up is. Whoever may not look at other connections sees that somebody is there,
-- and no more.

-- name: find_replicas
SELECT COUNT(*), CAST(MAX(
    CASE WHEN pg_is_in_recovery() THEN NULL
    ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn) END
) AS BIGINT)
FROM pg_stat_replication AS receiver
WHERE receiver.state IS DISTINCT FROM 'backup'
    -- Which asks for the log over another connection meanwhile.
    AND receiver.application_name IS DISTINCT FROM 'pg_basebackup'
    AND NOT EXISTS (
        SELECT 1 FROM pg_replication_slots AS slot
        WHERE slot.active_pid = receiver.pid AND slot.slot_type = 'logical')
