-- How many packs of a tenant are in the catalog, and what these take, beside what all of them take:
-- a server shows it all the time, and adds no packs up.

ALTER TABLE pack_sums ADD COLUMN inline_packs INTEGER NOT NULL DEFAULT 0;

ALTER TABLE pack_sums ADD COLUMN inline_bytes INTEGER NOT NULL DEFAULT 0;

INSERT INTO pack_sums (tenant_id, part, bytes, inline_packs, inline_bytes)
SELECT tenant_id, 0, 0, COUNT(*), SUM(size_bytes) FROM packs WHERE is_inline <> 0 GROUP BY tenant_id
ON CONFLICT (tenant_id, part) DO UPDATE
SET inline_packs = excluded.inline_packs, inline_bytes = excluded.inline_bytes;
