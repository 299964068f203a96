-- Few of all tasks run, and few of all snapshots are deleted and still there: these are counted.

CREATE INDEX tasks_running ON tasks (namespace_id, started_at, id) WHERE status = 'running';

CREATE INDEX snapshots_deleted ON snapshots (namespace_id) WHERE deleted_at IS NOT NULL;

-- How bad the rollback rate was when that was last told, of a namespace, or with 0 of all of a
-- tenant's together; no row while it is too low to be told of.
CREATE TABLE rollback_levels (
    tenant_id INTEGER NOT NULL,
    namespace_id INTEGER NOT NULL,
    level TEXT NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, namespace_id)
) BY KEY;

-- How much there was on a day: in a namespace, or with 0 in all of a tenant's together.
CREATE TABLE storage_days (
    tenant_id INTEGER NOT NULL,
    namespace_id INTEGER NOT NULL,
    -- Counted from 1970 on, in UTC.
    day INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    -- What counts against the tenant's quota; NULL for a namespace.
    stored_bytes INTEGER,
    PRIMARY KEY (tenant_id, namespace_id, day)
) BY KEY;
