-- What asks for snapshots by itself.

CREATE TABLE tasks (
    id TEXT PRIMARY KEY,
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    rolls_back INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    actor TEXT,
    reason TEXT,
    -- Snapshots by id: they may be gone.
    before_id TEXT NOT NULL,
    after_id TEXT,
    restored_id TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;

CREATE INDEX tasks_of_namespace ON tasks (namespace_id, started_at, id);

CREATE TABLE schedules (
    id TEXT PRIMARY KEY,
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    cadence TEXT NOT NULL,
    amount INTEGER NOT NULL,
    label TEXT,
    enabled INTEGER NOT NULL,
    only_if_changed INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    seen_sequence INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    last_run_at INTEGER,
    last_snapshot_id TEXT,
    -- Why the last attempt came to nothing.
    last_error TEXT
) STRICT;

CREATE INDEX schedules_of_namespace ON schedules (namespace_id);

CREATE INDEX schedules_due ON schedules (next_at) WHERE enabled = 1;

-- When what is done now and then was last done, whoever did it.
CREATE TABLE chores (
    name TEXT PRIMARY KEY,
    done_at INTEGER NOT NULL
) STRICT;
