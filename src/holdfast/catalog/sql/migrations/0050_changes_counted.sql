-- What a task noted is counted in its row, in threes: a flipped bit makes no other multiple of three.
-- And whether a change is shared is said by its checksum, and by all bits of that turned.

ALTER TABLE tasks ADD COLUMN noted INTEGER NOT NULL DEFAULT 0;

UPDATE tasks SET noted = 3 * (
    SELECT COUNT(*) FROM task_changes
    WHERE task_changes.namespace_id = tasks.namespace_id AND task_changes.task_id = tasks.id
);

UPDATE task_changes SET is_shared = CASE WHEN is_shared = 0 THEN old_sum ELSE -1 - old_sum END;
