-- What the packs of a tenant take together: whoever writes asks for it, and adds nothing up. The sum
-- of its parts; each connection counts in one of its own, so that nobody waits for another.

CREATE TABLE pack_sums (
    tenant_id INTEGER NOT NULL,
    part INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, part)
) BY KEY;

INSERT INTO pack_sums (tenant_id, part, bytes)
SELECT tenant_id, 0, SUM(size_bytes) FROM packs GROUP BY tenant_id;

-- What the objects in a pack take before they are compressed; NULL where nobody has counted yet. Who
-- knows what of it lives need not read the pack to say how much is dead.

ALTER TABLE packs ADD COLUMN plain_bytes INTEGER;

CREATE INDEX packs_outside ON packs (tenant_id, id) WHERE is_inline = 0;

CREATE INDEX packs_unfinished ON packs (tenant_id, id) WHERE state <> 'stored';
