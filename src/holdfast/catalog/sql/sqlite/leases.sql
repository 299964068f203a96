-- Where writers take turns nothing of a lock is in use, and nobody waits for rows.

-- name: renew_free_lease
UPDATE leases SET until = {now} + :term_us
WHERE name = :name AND token = :token AND until > 0

-- name: limit_waiting
SELECT :most
