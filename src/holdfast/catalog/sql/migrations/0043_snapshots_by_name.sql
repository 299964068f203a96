-- By what somebody calls them. Ids of tasks and traces may be longer than an index holds: they are
-- found by how they begin.

CREATE INDEX snapshots_of_label ON snapshots (namespace_id, label, number)
WHERE label IS NOT NULL;

CREATE INDEX snapshots_of_task ON snapshots (namespace_id, substr(task_id, 1, 64), number)
WHERE task_id IS NOT NULL;

CREATE INDEX snapshots_of_trace ON snapshots (namespace_id, substr(trace_id, 1, 64), number)
WHERE trace_id IS NOT NULL;
