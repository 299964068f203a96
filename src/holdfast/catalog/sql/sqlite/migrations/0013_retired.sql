-- Packs that nothing here needs any more, and whose bytes are still there: an older catalog that
-- is brought back may name them. They go when their period ends.

CREATE TABLE retired (
    name TEXT PRIMARY KEY,
    -- NULL for what was found under no name: nobody can say whose it was.
    tenant_id INTEGER,
    size_bytes INTEGER NOT NULL,
    retired_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
