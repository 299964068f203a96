-- Tasks and schedules.

-- name: add_task
INSERT INTO tasks ({task}) VALUES ({:task})

-- name: find_task
SELECT {task}
FROM tasks WHERE namespace_id = :namespace_id AND id = :id

-- name: end_task
UPDATE tasks SET
    status = :status, rolls_back = :rolls_back, reason = :reason, after_id = :after_id,
    restored_id = :restored_id, ended_at = :ended_at, beside_others = :beside_others,
    checksum = :checksum
WHERE namespace_id = :namespace_id AND id = :id AND status = :seen

-- name: list_tasks
SELECT {task}
FROM tasks
WHERE namespace_id = :namespace_id AND (:status = '' OR status = :status)
    AND (started_at < :before_at OR (started_at = :before_at AND id < :before_id))
ORDER BY started_at DESC, id DESC LIMIT :most

-- name: list_tasks_since
SELECT {task}
FROM tasks
WHERE namespace_id = :namespace_id AND (
    started_at >= :then_at OR ended_at IS NULL OR ended_at >= :then_at OR EXISTS (
        SELECT 1 FROM snapshots
        WHERE snapshots.id IN (tasks.before_id, tasks.after_id)
            AND snapshots.namespace_id = tasks.namespace_id AND snapshots.number >= :number
    )
)
ORDER BY started_at DESC, id DESC

-- name: count_task_change
-- Before it is put: of a key that is noted already there is none more.
UPDATE tasks SET noted = noted + 3
WHERE id = :task_id AND namespace_id = :namespace_id AND NOT EXISTS (
    SELECT 1 FROM task_changes c
    WHERE c.namespace_id = :namespace_id AND c.task_id = :task_id
        AND c.plane = :plane AND c.key = :key
)

-- name: noted_keys
SELECT key FROM task_changes
WHERE namespace_id = :namespace_id AND task_id = :task_id AND plane = :plane AND key = :key

-- name: count_task_changes
UPDATE tasks SET noted = noted + 3 * CAST(:more AS INTEGER)
WHERE id = :task_id AND namespace_id = :namespace_id

-- name: put_task_change
-- Of tasks that are there alone: whoever writes may name any.
INSERT INTO task_changes
    (namespace_id, task_id, plane, key, old_entry, old_sum, new_entry, new_sum, is_shared)
SELECT namespace_id, id, :plane, :key, :old_entry, :old_sum, :new_entry, :new_sum, :old_sum
FROM tasks WHERE id = :task_id AND namespace_id = :namespace_id
ON CONFLICT (namespace_id, task_id, plane, key) DO UPDATE SET
    new_entry = excluded.new_entry, new_sum = excluded.new_sum,
    is_shared = CASE
        WHEN task_changes.new_entry = excluded.old_entry
            OR (task_changes.new_entry IS NULL AND excluded.old_entry IS NULL)
        THEN task_changes.is_shared ELSE -1 - task_changes.old_sum END

-- name: list_task_changes
SELECT t.id, t.noted, c.plane, c.key, c.old_entry, c.old_sum, c.new_entry, c.new_sum, c.is_shared
FROM tasks t LEFT JOIN task_changes c ON c.namespace_id = t.namespace_id AND c.task_id = t.id
WHERE t.id = :task_id AND t.namespace_id = :namespace_id
ORDER BY c.plane, c.key

-- name: list_nested_changes
SELECT t.id, t.noted, c.plane, c.key, c.old_entry, c.old_sum, c.new_entry, c.new_sum, c.is_shared
FROM tasks t LEFT JOIN task_changes c ON c.namespace_id = t.namespace_id AND c.task_id = t.id
WHERE t.namespace_id = :namespace_id AND t.within LIKE :within
ORDER BY t.id

-- name: list_changes_beside
-- Most tasks were over before, and have none that could matter.
SELECT t.id, t.noted, c.plane, c.key, c.old_entry, c.old_sum, c.new_entry, c.new_sum, c.is_shared
FROM tasks t LEFT JOIN task_changes c ON c.namespace_id = t.namespace_id AND c.task_id = t.id
WHERE t.namespace_id = :namespace_id AND t.id <> :task_id AND t.noted <> 0
    AND t.started_at <= :ended_at AND (t.ended_at IS NULL OR t.ended_at >= :started_at)
ORDER BY t.id

-- name: has_task_changes
SELECT 1 FROM task_changes WHERE namespace_id = :namespace_id AND task_id = :task_id LIMIT 1

-- name: iter_task_entries
-- What was there before tasks changed it: it can still be asked for.
SELECT task_changes.task_id, task_changes.plane, task_changes.key, task_changes.old_entry,
    task_changes.old_sum
FROM task_changes JOIN namespaces ON namespaces.id = task_changes.namespace_id
WHERE namespaces.tenant_id = :tenant_id AND task_changes.old_entry IS NOT NULL

-- name: sort_task_changes
-- What is of no namespace that there is may be anybody's whose number was damaged.
SELECT c.task_id, c.plane, c.key, c.old_entry, c.old_sum, c.new_entry, c.new_sum, c.is_shared,
    CASE WHEN t.id IS NULL THEN 0 ELSE 1 END
FROM task_changes c LEFT JOIN tasks t ON t.id = c.task_id AND t.namespace_id = c.namespace_id
WHERE c.namespace_id NOT IN (SELECT id FROM namespaces WHERE tenant_id < :tenant_id OR tenant_id > :tenant_id)

-- name: miscounted_changes
SELECT t.id FROM tasks t JOIN namespaces n ON n.id = t.namespace_id
WHERE n.tenant_id = :tenant_id AND t.noted <> 3 * (
    SELECT COUNT(*) FROM task_changes c
    WHERE c.namespace_id = t.namespace_id AND c.task_id = t.id
)

-- name: miscounted_changes_in
SELECT t.id, t.noted, (
    SELECT COUNT(*) FROM task_changes c
    WHERE c.namespace_id = t.namespace_id AND c.task_id = t.id
)
FROM tasks t
WHERE t.namespace_id = :namespace_id AND t.noted <> 3 * (
    SELECT COUNT(*) FROM task_changes c
    WHERE c.namespace_id = t.namespace_id AND c.task_id = t.id
)

-- name: recount_task_changes
UPDATE tasks SET noted = 3 * (
    SELECT COUNT(*) FROM task_changes c
    WHERE c.namespace_id = tasks.namespace_id AND c.task_id = tasks.id
)
WHERE id = :task_id AND namespace_id = :namespace_id

-- name: forget_task_changes
UPDATE tasks SET noted = 0
WHERE namespace_id = :namespace_id AND noted <> 0
    AND (status != 'running' OR started_at <= :before_at)
    AND NOT EXISTS (
        SELECT 1 FROM snapshots
        WHERE snapshots.namespace_id = :namespace_id AND snapshots.id = tasks.before_id
    )

-- name: drop_task_changes
DELETE FROM task_changes
WHERE namespace_id = :namespace_id AND task_id IN (
    SELECT tasks.id FROM tasks
    WHERE tasks.namespace_id = :namespace_id
        AND (tasks.status != 'running' OR tasks.started_at <= :before_at)
        AND NOT EXISTS (
            SELECT 1 FROM snapshots
            WHERE snapshots.namespace_id = :namespace_id AND snapshots.id = tasks.before_id
        )
)

-- name: purge_task_changes
DELETE FROM task_changes WHERE namespace_id = :namespace_id

-- name: purge_tasks
DELETE FROM tasks WHERE namespace_id = :namespace_id

-- name: add_schedule
INSERT INTO schedules ({schedule}) VALUES ({:schedule})

-- name: find_schedule
SELECT {schedule}
FROM schedules WHERE namespace_id = :namespace_id AND id = :id

-- name: list_schedules
SELECT {schedule}
FROM schedules WHERE namespace_id = :namespace_id ORDER BY created_at, id

-- name: set_schedule
UPDATE schedules SET
    label = :label, enabled = :enabled, next_at = :next_at, seen_sequence = :seen_sequence,
    seen_at = :seen_at, last_run_at = :last_run_at, last_snapshot_id = :last_snapshot_id,
    last_error = :last_error, checksum = :checksum
WHERE namespace_id = :namespace_id AND id = :id

-- name: lock_schedule
UPDATE schedules SET enabled = enabled WHERE namespace_id = :namespace_id AND id = :id

-- name: delete_schedule
DELETE FROM schedules WHERE namespace_id = :namespace_id AND id = :id

-- name: due_schedules
-- Those that wait for writes are left alone until there are some: idle ones cost no look.
SELECT {schedules.schedule}, namespaces.tenant_id, namespaces.name
FROM schedules JOIN namespaces ON namespaces.id = schedules.namespace_id
WHERE schedules.enabled = 1 AND schedules.next_at <= :now AND namespaces.deleted_at IS NULL
    AND (
        schedules.cadence = 'every'
        OR (
            schedules.cadence = 'changes'
            AND namespaces.sequence - schedules.seen_sequence >= schedules.amount
        )
        OR (
            schedules.cadence = 'quiet'
            AND (
                namespaces.sequence != schedules.seen_sequence
                OR EXISTS (SELECT 1 FROM pending WHERE pending.namespace_id = namespaces.id)
            )
        )
    )
ORDER BY schedules.next_at, schedules.id LIMIT :most OFFSET :skip

-- name: purge_schedules
DELETE FROM schedules WHERE namespace_id = :namespace_id

-- name: find_chore
SELECT done_at FROM chores WHERE name = :name

-- name: set_chore
INSERT INTO chores (name, done_at) VALUES (:name, :done_at)
ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at

-- name: drop_chore
DELETE FROM chores WHERE name = :name
