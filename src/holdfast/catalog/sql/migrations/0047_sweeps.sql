-- What a tenant needed and had when it was last collected: where that is still so, nothing is dead.

CREATE TABLE sweeps (
    tenant_id INTEGER PRIMARY KEY,
    digest BYTES NOT NULL
);
