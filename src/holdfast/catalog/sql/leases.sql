-- Locks between the users of a database, and who of them writes packs.

-- Whose time is over has lost it; nobody waits for who has it.
-- name: take_lease
INSERT INTO leases (name, holder, until, token) VALUES (:name, :holder, {now} + :term_us, 1)
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, until = excluded.until, token = leases.token + 1
WHERE leases.until <= {now}
RETURNING token

-- name: renew_lease
UPDATE leases SET until = {now} + :term_us WHERE name = :name AND token = :token

-- The row stays: who comes next has another token.
-- name: end_lease
UPDATE leases SET until = 0 WHERE name = :name AND token = :token

-- name: find_lease
SELECT token FROM leases WHERE name = :name AND token = :token

-- name: note_writer
INSERT INTO writers (name, seen_at) VALUES (:name, {now})
ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at

-- name: find_writer
SELECT name FROM writers WHERE name = :name AND seen_at > {now} - :silent_us

-- name: forget_writer
DELETE FROM writers WHERE name = :name

-- name: purge_writers
DELETE FROM writers WHERE seen_at <= {now} - :silent_us
