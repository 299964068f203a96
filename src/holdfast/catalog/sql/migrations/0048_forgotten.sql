-- What of a chain retention has let go of: in spans that follow on each other from its first row on.
-- The last row of the chain that says so has a hash of them all.

CREATE TABLE forgotten (
    tenant_id INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    -- The numbers of the rows that were there.
    first_number INTEGER NOT NULL,
    last_number INTEGER NOT NULL,
    -- Of the last of them its hash, which the row after it follows on; and the latest instant.
    hash BYTES NOT NULL,
    created_us INTEGER NOT NULL,
    -- How many of them stay, as something needs them, and a hash of these.
    kept INTEGER NOT NULL,
    digest BYTES NOT NULL,
    PRIMARY KEY (tenant_id, stream, first_number)
) BY KEY;
