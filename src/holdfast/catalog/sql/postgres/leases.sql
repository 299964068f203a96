-- Locks between the users of a database, where several of them write at once.

-- Nobody takes over what is locked: something is being written under it.
-- name: renew_free_lease
UPDATE leases SET until = {now} + :term_us
WHERE name = (
    SELECT mine.name FROM leases AS mine
    WHERE mine.name = :name AND mine.token = :token AND mine.until > 0
    FOR UPDATE SKIP LOCKED)

-- No SET LOCAL: what is sent in one piece is a transaction, but no block of one.
-- name: limit_waiting
SELECT set_config('lock_timeout', :most, true)
