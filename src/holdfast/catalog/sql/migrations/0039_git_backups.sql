-- The copies of namespaces in git repositories of their owners.
CREATE TABLE git_backups (
    id TEXT PRIMARY KEY,
    namespace_id INTEGER NOT NULL UNIQUE REFERENCES namespaces (id),
    remote TEXT NOT NULL,
    branch TEXT NOT NULL,
    public_key TEXT,
    login TEXT,
    -- Encrypted with a key that is not in the vault.
    secret BYTES NOT NULL,
    host_key TEXT,
    host_fingerprint TEXT,
    patterns TEXT NOT NULL,
    file_bytes INTEGER NOT NULL,
    scan_secrets INTEGER NOT NULL,
    on_tasks INTEGER NOT NULL,
    every_s INTEGER,
    paused INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    asked_at INTEGER,
    next_at INTEGER NOT NULL,
    tried_at INTEGER,
    -- Until when one of the workers has it in hand.
    claimed_until INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    last_error TEXT,
    pushed_at INTEGER,
    -- The number of the last snapshot that is there, and its commit.
    pushed_number INTEGER NOT NULL,
    pushed_commit TEXT,
    withheld INTEGER NOT NULL,
    checksum INTEGER
);

CREATE INDEX git_backups_due ON git_backups (next_at) WHERE paused = 0;
