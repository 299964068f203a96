-- Tasks and schedules.

-- name: add_task
INSERT INTO tasks ({task}) VALUES ({:task})

-- name: find_task
SELECT {task}
FROM tasks WHERE namespace_id = :namespace_id AND id = :id

-- name: end_task
UPDATE tasks SET
    status = :status, rolls_back = :rolls_back, reason = :reason, after_id = :after_id,
    restored_id = :restored_id, ended_at = :ended_at, checksum = :checksum
WHERE namespace_id = :namespace_id AND id = :id AND status = :seen

-- name: list_tasks
SELECT {task}
FROM tasks
WHERE namespace_id = :namespace_id AND (:status = '' OR status = :status)
    AND (started_at < :before_at OR (started_at = :before_at AND id < :before_id))
ORDER BY started_at DESC, id DESC LIMIT :most

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
ORDER BY schedules.next_at, schedules.id LIMIT :most

-- name: purge_schedules
DELETE FROM schedules WHERE namespace_id = :namespace_id

-- name: find_chore
SELECT done_at FROM chores WHERE name = :name

-- name: set_chore
INSERT INTO chores (name, done_at) VALUES (:name, :done_at)
ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at
