-- What asks for snapshots by itself.

CREATE TABLE tasks (
    id TEXT COLLATE "C" PRIMARY KEY,
    namespace_id BIGINT NOT NULL REFERENCES namespaces (id),
    name TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    rolls_back BIGINT NOT NULL,
    metadata TEXT COLLATE "C" NOT NULL,
    actor TEXT COLLATE "C",
    reason TEXT COLLATE "C",
    -- Snapshots by id: they may be gone.
    before_id TEXT COLLATE "C" NOT NULL,
    after_id TEXT COLLATE "C",
    restored_id TEXT COLLATE "C",
    started_at BIGINT NOT NULL,
    ended_at BIGINT
);

CREATE INDEX tasks_of_namespace ON tasks (namespace_id, started_at, id);

CREATE TABLE schedules (
    id TEXT COLLATE "C" PRIMARY KEY,
    namespace_id BIGINT NOT NULL REFERENCES namespaces (id),
    cadence TEXT COLLATE "C" NOT NULL,
    amount BIGINT NOT NULL,
    label TEXT COLLATE "C",
    enabled BIGINT NOT NULL,
    only_if_changed BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    seen_sequence BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    last_run_at BIGINT,
    last_snapshot_id TEXT COLLATE "C",
    -- Why the last attempt came to nothing.
    last_error TEXT COLLATE "C"
);

CREATE INDEX schedules_of_namespace ON schedules (namespace_id);

CREATE INDEX schedules_due ON schedules (next_at) WHERE enabled = 1;

-- When what is done now and then was last done, whoever did it.
CREATE TABLE chores (
    name TEXT COLLATE "C" PRIMARY KEY,
    done_at BIGINT NOT NULL
);
