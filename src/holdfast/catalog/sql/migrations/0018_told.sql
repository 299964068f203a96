-- What was told and has no number yet: writers put it here and wait for nobody, and whoever asks
-- for events numbers it first.
CREATE TABLE told (
    -- In a namespace, the order in which it was told.
    position IDENTITY,
    tenant_id INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    type TEXT NOT NULL,
    namespace_id INTEGER,
    namespace TEXT,
    data TEXT NOT NULL
);

CREATE INDEX told_of_tenant ON told (tenant_id, position);
