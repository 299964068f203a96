-- What operators look at now and then. Nothing here takes longer as a vault grows.

-- name: measure_deliveries
SELECT COUNT(*), MIN(due.next_at) FROM (
    SELECT next_at FROM deliveries WHERE state = 'pending' AND next_at <= :now LIMIT :most
) AS due

-- As it is counted by whoever adds or removes a pack.
-- name: measure_inline
SELECT CAST(COALESCE(SUM(inline_packs), 0) AS BIGINT), CAST(COALESCE(SUM(inline_bytes), 0) AS BIGINT)
FROM pack_sums
