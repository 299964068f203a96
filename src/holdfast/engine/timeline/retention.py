"""Which snapshots stay, and for how long.

A snapshot expires 30 days after it was taken unless it says otherwise. A namespace may have a
policy, which takes the place of those 30 days: what the policy keeps stays, and the rest goes
when the policy is applied. Never gone are pinned snapshots, what the head stands on, and what
one undo or any redo would go to; what the head stands on does not even expire. Deleted snapshots
stay recoverable for the grace period. What a caller did who only adds makes nothing go: see
`additions.py`.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Annotated, Final, NamedTuple

import msgspec

from holdfast.engine.core.context import Context
from holdfast.engine.core.lineage import Timeline, needed, one_back
from holdfast.engine.core.rounds import set_aside
from holdfast.engine.journal.actions import (
    PURGED,
    Trace,
    places_of,
    trace_of_namespace,
    trace_of_snapshots,
)
from holdfast.engine.journal.anchors import anchor_last
from holdfast.engine.journal.chain import append, details_of, is_whole
from holdfast.engine.journal.events import purge_events
from holdfast.engine.journal.forgetting import ACTION as FORGOTTEN
from holdfast.engine.journal.forgetting import LATE, SETTING, Chain, forget_traces
from holdfast.engine.memory.plane import purge_memories
from holdfast.engine.planes.handle import Handle, is_expired
from holdfast.engine.sessions.entities import purge_entities
from holdfast.engine.timeline import settled
from holdfast.engine.timeline.additions import is_added, is_shared, spared
from holdfast.errors import NamespaceNotFound
from holdfast.ids import NamespaceId, SnapshotId, TenantId
from holdfast.instants import to_us
from holdfast.model.basics import Head, SnapshotInfo
from holdfast.model.traces import OWN
from holdfast.model.upkeep import MAX_DAYS, Policy

BATCH: Final = 200
"""Snapshots that go in one transaction, for which writers wait: 10 ms."""

ROUNDS: Final = 4
"""Looks at a timeline that grows all the time; then the rest is left for the next time."""


def set_policy(handle: Handle, policy: Policy) -> None:
    """Gives a namespace a policy."""
    handle.context.check_takes_away("set retention")
    text = msgspec.json.encode(policy).decode() if policy != Policy() else None
    with handle.context.work() as transaction:
        head = handle.lock_or_create(transaction)
        transaction.set_retention(head.namespace_id, text)
        told = trace_of_namespace(SETTING, head.name, **msgspec.structs.asdict(policy))
        append(transaction, handle.context, head, told, door=handle.door)


def trace_of_purge(head: Head) -> Trace:
    """Returns what is noted of a namespace that goes for good: it says how long its traces stay."""
    days = get_policy(head).keep_traces_days
    more = {"keep_traces_days": days} if days else {}
    return trace_of_namespace(PURGED, head.name, **more)


def get_policy(head: Head) -> Policy:
    """Returns a namespace's policy."""
    return msgspec.json.decode(head.retention or "{}", type=Policy)


def forget(
    handle: Handle, *, policy: Policy | None = None, dry_run: bool = False
) -> list[SnapshotInfo]:
    """Takes off the timeline what has expired or what the policy does not keep.

    Returns those snapshots, newest first. Their bytes come back with the next collection.
    """
    context = handle.context
    if not dry_run:
        context.check_takes_away("apply retention")
    seen = _look(handle, policy)
    if dry_run or not seen.going:
        return seen.going
    context.catalog.make_room()
    gone, misses = list[SnapshotInfo](), 0
    while seen.going and misses < ROUNDS:
        # The oldest first: whoever ends us in between leaves a timeline without a gap.
        done = _let_go(handle, seen, seen.going[-BATCH:])
        if done is None:
            misses += 1
            seen = _look(handle, policy)
        else:
            misses = 0
            gone += done
            del seen.going[-BATCH:]
    return sorted(gone, key=lambda snapshot: snapshot.number, reverse=True)


class _Seen(NamedTuple):
    """A head, where one undo leads from it, and what may go, newest first."""

    head: Head
    back: SnapshotInfo | None
    going: list[SnapshotInfo]


def _look(handle: Handle, policy: Policy | None) -> _Seen:
    """Looks at a whole timeline, beside those who write."""
    with handle.context.catalog.read() as transaction:
        head = handle.get_head(transaction)
        timeline = transaction.timeline(head.namespace_id, before=None, most=2**31)
    going = choose(handle, head, timeline, policy or get_policy(head))
    if policy is None and not going:
        settled.note(handle.context, head, timeline)
    return _Seen(head, one_back(head, Timeline(timeline)), going)


def _let_go(
    handle: Handle, seen: _Seen, chosen: Sequence[SnapshotInfo]
) -> list[SnapshotInfo] | None:
    """Takes some snapshots off a timeline; returns those, or None if it has changed since.

    What a head needs depends on the head, which counts its snapshots, and on where one undo leads.
    One that was pinned, deleted or given another term since is not what was chosen, and stays.
    """
    head, context = seen.head, handle.context
    with context.catalog.write() as transaction:
        now = handle.lock(transaction)

        def is_as_seen(snapshot: SnapshotInfo) -> bool:
            return transaction.find_snapshot(now.namespace_id, snapshot.id) == snapshot

        is_same = (now.namespace_id, now.generation) == (head.namespace_id, head.generation)
        is_same = is_same and now.retention == head.retention
        if not is_same or (seen.back is not None and not is_as_seen(seen.back)):
            return None
        gone = [snapshot for snapshot in chosen if is_as_seen(snapshot)]
        for snapshot in gone:
            transaction.purge_snapshot(now.namespace_id, snapshot.id)
        if gone:
            # With the snapshot from before a task goes what is known of its changes.
            since = context.clock() - context.limits.retention
            transaction.drop_task_changes(now.namespace_id, before=since)
            told = trace_of_snapshots("snapshot.forgotten", now.name, gone)
            append(transaction, context, now, told, door=handle.door, each=places_of(gone))
    return gone


def choose(
    handle: Handle, head: Head, timeline: Sequence[SnapshotInfo], policy: Policy
) -> list[SnapshotInfo]:
    """Returns the snapshots that may go; `timeline` is newest first."""
    now, grace = handle.context.clock(), handle.context.limits.grace
    stored = Timeline(timeline)
    needs = needed(head, stored, back=one_back(head, stored))
    stays = spared(handle.context, timeline)
    live = [
        snapshot
        for snapshot in timeline
        if snapshot.deleted_at is None and not is_expired(handle.context, head, snapshot)
    ]
    kept = set[SnapshotId]() if policy.is_set else None
    for group in ((False, False), (True, False), (True, True)):
        alike = [each for each in live if (is_added(each), is_shared(each)) == group]
        kept = kept if kept is None else kept | _kept(alike, policy)

    def may_go(snapshot: SnapshotInfo) -> bool:
        if snapshot.id in needs:
            return False
        if snapshot.deleted_at is not None:
            # Pinned or not: who deletes it wants its bytes back.
            return snapshot.deleted_at + grace <= now
        if snapshot.pinned or snapshot.id in stays:
            return False
        if is_expired(handle.context, head, snapshot):
            return True
        return kept is not None and snapshot.id not in kept

    return [snapshot for snapshot in timeline if may_go(snapshot)]


def _kept(timeline: Sequence[SnapshotInfo], policy: Policy) -> set[SnapshotId]:
    kept = {snapshot.id for snapshot in timeline[: policy.keep_last]}
    kept |= _newest_of_each(timeline, _day, policy.keep_daily)
    return kept | _newest_of_each(timeline, _week, policy.keep_weekly)


def _newest_of_each(
    timeline: Iterable[SnapshotInfo], period: Callable[[datetime], tuple[int, int]], most: int
) -> set[SnapshotId]:
    newest: dict[tuple[int, int], SnapshotId] = {}
    for snapshot in timeline:
        newest.setdefault(period(snapshot.created_at), snapshot.id)
    return set(list(newest.values())[:most])


def _day(instant: datetime) -> tuple[int, int]:
    return instant.year, instant.timetuple().tm_yday


def _week(instant: datetime) -> tuple[int, int]:
    year, week, _ = instant.isocalendar()
    return year, week


def purge(context: Context, head: Head) -> None:
    """Lets go of a deleted namespace for good, unless it was recovered since."""
    with context.catalog.write() as transaction:
        now = transaction.lock_head(head.namespace_id)
        if now is not None and now.deleted_at == head.deleted_at:
            anchor_last(transaction, context, now)
            transaction.keep_added(head.tenant_id, head.namespace_id)
            transaction.purge_namespace(head.namespace_id)
            append(transaction, context, head, trace_of_purge(now), stream=OWN)


def apply_all(context: Context, tenant_id: TenantId) -> list[SnapshotInfo]:
    """Applies the retention of a tenant's namespaces, and purges what outlived its grace period."""
    context.check_takes_away("apply retention")
    gone: list[SnapshotInfo] = []
    now, grace = context.clock(), context.limits.grace
    with context.catalog.read() as transaction:
        heads = transaction.iter_heads(tenant_id)
    for head in heads:
        if head.deleted_at is None:
            if settled.is_settled(context, head):
                continue
            # Deleted since we looked: then there is nothing to apply.
            with suppress(NamespaceNotFound):
                gone += forget(Handle(context, tenant_id, head.name))
        elif head.deleted_at + grace <= now:
            settled.forget(context, head.namespace_id)
            purge(context, head)
    purge_memories(context, tenant_id, before=now - grace)
    purge_entities(context, tenant_id, before=now - grace)
    purge_events(context, tenant_id)
    _forget_traces(context, tenant_id, heads)
    return gone


def _forget_traces(context: Context, tenant_id: TenantId, heads: Iterable[Head]) -> None:
    """Lets go of traces whose time is over; of a damaged chain nothing goes, and it is told.

    All chains are asked for together: one of which nothing is to go costs no question of its own.
    """
    with context.catalog.read() as transaction:
        found = transaction.chains_to_forget(
            tenant_id, before_us=_due_us(context, 0), forgotten=FORGOTTEN, purged=PURGED
        )
    by_stream = {head.namespace_id: head for head in heads}
    for old in found:
        head = by_stream.get(old.stream)
        with set_aside():
            if old.is_gone:
                if old.since_us < _due_us(context, _days_said(old.said)):
                    _forget(context, *_find_gone(context, tenant_id, old.stream))
            elif head is not None:
                days = get_policy(head).keep_traces_days
                if old.since_us < _due_us(context, days):
                    _forget(context, Chain(tenant_id, head.namespace_id, head.name), days)


def _due_us(context: Context, days: int) -> int:
    """Returns the instant before which traces are due that are kept for so many days."""
    keep = _period(context, days)
    return 0 if keep is None else to_us(context.clock() - keep - LATE)


def _days_said(said: str | None) -> int:
    """Returns for how long a namespace that is gone kept its traces, if that is to be believed."""
    try:
        return msgspec.json.decode(said or "{}", type=_Said).keep_traces_days
    except (msgspec.DecodeError, UnicodeEncodeError):
        return 0


class _Said(msgspec.Struct):
    """The part of what is noted of a purge that says how long traces stay."""

    keep_traces_days: Annotated[int, msgspec.Meta(ge=0, le=MAX_DAYS)] = 0


def _find_gone(context: Context, tenant_id: TenantId, stream: NamespaceId) -> tuple[Chain, int]:
    """Returns the chain of a namespace that is gone, and for how many days it kept its traces."""
    with context.catalog.read() as transaction:
        purged = transaction.find_last_done(tenant_id, stream, action=PURGED)
    if purged is None or not is_whole(purged):
        return Chain(tenant_id, stream, str(stream), is_gone=True), 0
    chain = Chain(tenant_id, stream, purged.resource_id or str(stream), is_gone=True)
    return chain, details_of(purged).get("keep_traces_days", 0)


def _forget(context: Context, chain: Chain, days: int) -> None:
    keep = _period(context, days)
    if keep is not None:
        forget_traces(context, chain, keep=keep)


def _period(context: Context, days: int) -> timedelta | None:
    """Returns how long traces are kept; None for ever."""
    return timedelta(days=days) if days else context.limits.keep_traces
