"""All namespaces of a tenant at a glance, a page at a time.

A page is a handful of statements, however many namespaces are on it, and nothing of what agents
write: names, numbers and instants alone.
"""

from typing import Final

from holdfast.catalog.rows import NO_LIMIT
from holdfast.catalog.transaction import Transaction
from holdfast.engine.audit.health import DAY, rate_of
from holdfast.engine.core.context import Context
from holdfast.errors import TaskNotFound
from holdfast.ids import TenantId
from holdfast.instants import to_us
from holdfast.model.basics import Head, SnapshotInfo
from holdfast.model.overviews import (
    Glance,
    LatestSnapshot,
    NamespaceOverview,
    Range,
    RollbackCount,
    RunningTask,
)
from holdfast.model.tasks import TaskRun
from holdfast.model.traces import Thresholds
from holdfast.operations.namespaces import ListRunningTasks, Overview

MOST: Final = 2000
"""Namespaces that are looked at together; more are looked at one page after the other."""


def look(
    context: Context, transaction: Transaction, tenant_id: TenantId, wanted: Overview
) -> list[NamespaceOverview]:
    """Returns namespaces by name: some, or all that there are."""
    found, after, left = list[NamespaceOverview](), wanted.starting_after or "", wanted.limit
    while left is None or left > 0:
        most = MOST if left is None else min(left, MOST)
        heads = transaction.page_heads(tenant_id, prefix=wanted.prefix, after=after, most=most)
        if heads:
            found += _page(context, transaction, tenant_id, heads)
            after = heads[-1].name
        if len(heads) < most:
            break
        left = None if left is None else left - most
    return found


def list_running(
    transaction: Transaction, tenant_id: TenantId, wanted: ListRunningTasks
) -> list[RunningTask]:
    """Returns the tasks of all namespaces that run, newest first."""
    seen, before = wanted.starting_after, None
    if seen is not None:
        start = transaction.find_task_start(tenant_id, seen)
        if start is None:
            raise TaskNotFound(seen)
        before = (start, seen)
    most = NO_LIMIT if wanted.limit is None else wanted.limit
    found = transaction.running_tasks(tenant_id, before=before, most=most)
    return [_running(namespace, task) for namespace, task in found]


def _page(
    context: Context, transaction: Transaction, tenant_id: TenantId, heads: list[Head]
) -> list[NamespaceOverview]:
    names = Range(heads[0].name, heads[-1].name)
    since_us = to_us(context.clock() - DAY)
    glances = transaction.glances(tenant_id, names)
    newest = transaction.newest_snapshots(tenant_id, names)
    tasks = transaction.newest_tasks(tenant_id, names)
    counts = transaction.rollback_counts(tenant_id, names, since_us=since_us)
    rolled_back = {each.namespace_id: each for each in counts}
    return [
        _overview(
            head,
            glances[head.namespace_id],
            newest.get(head.namespace_id),
            tasks.get(head.namespace_id),
            rolled_back.get(head.namespace_id),
        )
        for head in heads
    ]


def _overview(
    head: Head,
    glance: Glance,
    newest: SnapshotInfo | None,
    task: TaskRun | None,
    counted: RollbackCount | None,
) -> NamespaceOverview:
    rate = 0.0 if counted is None else rate_of(counted.rollbacks, counted.sessions)
    return NamespaceOverview(
        namespace=head.name,
        created_at=head.created_at,
        forked_from=glance.fork_of,
        size=head.size,
        quota_bytes=head.quota_bytes,
        snapshots=glance.snapshots,
        latest=None if newest is None else _latest(newest),
        dirty=glance.is_dirty,
        running_tasks=glance.running,
        running=None if task is None else _running(head.name, task),
        rollbacks=0 if counted is None else counted.rollbacks,
        rate=rate,
        level=Thresholds().level_of(rate),
    )


def _latest(snapshot: SnapshotInfo) -> LatestSnapshot:
    return LatestSnapshot(
        id=snapshot.id,
        number=snapshot.number,
        kind=snapshot.kind,
        label=snapshot.label,
        actor=snapshot.actor,
        task_id=snapshot.task_id,
        created_at=snapshot.created_at,
    )


def _running(namespace: str, task: TaskRun) -> RunningTask:
    return RunningTask(
        id=task.id,
        namespace=namespace,
        name=task.name,
        actor=task.actor,
        started_at=task.started_at,
    )
