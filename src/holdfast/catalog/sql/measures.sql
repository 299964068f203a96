-- What operators look at now and then. Nothing here takes longer as a vault grows.

-- name: measure_deliveries
SELECT COUNT(*), MIN(due.next_at) FROM (
    SELECT next_at FROM deliveries WHERE state = 'pending' AND next_at <= :now LIMIT :most
) AS due

-- Of what is in the catalog now: all that was moved out is not looked at.
-- name: measure_inline
SELECT COUNT(*), CAST(COALESCE(SUM(p.size_bytes), 0) AS BIGINT)
FROM pack_data d JOIN packs p ON p.id = d.pack_id
