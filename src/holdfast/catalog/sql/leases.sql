-- Locks between the users of a database, and who of them writes packs.

-- Whose time is over has lost it. Nobody waits for who has it: a row that meets another is locked
-- before anything is asked of it, so that is asked first. A token is drawn: a counter would go back
-- with its database, to a replica that is behind, and two would have the same.
-- name: take_lease
INSERT INTO leases (name, holder, until, token)
SELECT :name, :holder, {now} + :term_us, :token
WHERE NOT EXISTS (SELECT 1 FROM leases AS others WHERE others.name = :name AND others.until > {now})
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, until = excluded.until, token = excluded.token
WHERE leases.until <= {now}
RETURNING token

-- What was let go of meanwhile stays so.
-- name: renew_lease
UPDATE leases SET until = {now} + :term_us
WHERE name = :name AND token = :token AND until > 0

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
