-- What each task changed: once for each key, as it was before the task's first change of it and as
-- the task's last one has left it; NULL where there was nothing.
CREATE TABLE task_changes (
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    task_id TEXT NOT NULL,
    plane TEXT NOT NULL,
    key BYTES NOT NULL,
    old_entry BYTES,
    old_sum INTEGER NOT NULL,
    new_entry BYTES,
    new_sum INTEGER NOT NULL,
    -- Whether somebody else changed it between two changes of the task's own.
    is_shared INTEGER NOT NULL,
    PRIMARY KEY (namespace_id, task_id, plane, key)
) BY KEY;

-- The tasks that it was begun in, outermost first.
ALTER TABLE tasks ADD COLUMN within TEXT NOT NULL DEFAULT '[]';

-- Whether others changed the namespace while it ran, where its changes do not name it.
ALTER TABLE tasks ADD COLUMN beside_others INTEGER NOT NULL DEFAULT 0;

-- Theirs is over columns that have become more: as for rows that are older than checksums.
UPDATE tasks SET checksum = NULL;
