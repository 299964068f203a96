-- The copies of namespaces in git repositories.

-- name: add_git_backup
INSERT INTO git_backups ({gitbackup}) VALUES ({:gitbackup})

-- name: find_git_backup
SELECT {gitbackup} FROM git_backups WHERE namespace_id = :namespace_id

-- name: lock_git_backup
UPDATE git_backups SET paused = paused WHERE namespace_id = :namespace_id

-- name: set_git_backup
UPDATE git_backups SET ({gitbackup}) = ({:gitbackup}) WHERE id = :id

-- name: delete_git_backup
DELETE FROM git_backups WHERE namespace_id = :namespace_id

-- What is asked for, or has news that it is to tell: of a task that has ended, or after a while.
-- name: due_git_backups
SELECT {b.gitbackup}, n.tenant_id, n.name
FROM git_backups b JOIN namespaces n ON n.id = b.namespace_id
WHERE b.paused = 0 AND b.next_at <= :now AND b.claimed_until <= :now AND n.deleted_at IS NULL
    AND (
        b.asked_at IS NOT NULL
        OR (
            n.generation > b.pushed_number
            AND (
                COALESCE(b.tried_at, b.created_at) + b.every_s * 1000000 <= :now
                OR (
                    b.on_tasks = 1 AND EXISTS (
                        SELECT 1 FROM snapshots s
                        WHERE s.namespace_id = b.namespace_id AND s.number > b.pushed_number
                            AND s.task_id IS NOT NULL AND s.deleted_at IS NULL
                            AND NOT EXISTS (
                                SELECT 1 FROM tasks t
                                WHERE t.id = s.task_id AND t.namespace_id = s.namespace_id
                                    AND t.ended_at IS NULL
                            )
                    )
                )
            )
        )
    )
ORDER BY b.next_at, b.id LIMIT :most

-- name: claim_git_backup
UPDATE git_backups SET claimed_until = :until WHERE id = :id AND claimed_until = :seen

-- name: purge_git_backups
DELETE FROM git_backups WHERE namespace_id = :namespace_id
