"""Lists a timeline: which of its snapshots are meant, and what is told beside them.

Labels and the ids of tasks and traces have indexes, and nothing else has for a search: snapshots
are looked at from the newest down, and who waits with others is told after a while how far that
came, and where it goes on. A path is asked of the roots (`history.py`), so whoever has changed it
is found, however that happened.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.catalog.snapshots import Called
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.limits import check_limit
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.planes.handle import Handle, dated, is_expired
from holdfast.engine.timeline import history
from holdfast.engine.timeline.counting import count_between
from holdfast.engine.timeline.snapshots import iter_rows
from holdfast.fetching import fetched
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import (
    EMPTY_ROOT,
    Counts,
    Head,
    Kind,
    SnapshotInfo,
    TaskBrief,
    Timeline,
)
from holdfast.model.changes import Tally, from_counts, to_counts
from holdfast.model.names import PathLike, to_name
from holdfast.operations.snapshots import Choice, ListSnapshots
from holdfast.operations.timeline import ListTimeline

PAGE_TIME: Final = timedelta(seconds=0.3)
"""How long a search lasts for somebody who waits with others, and counting what was not counted."""

BATCH: Final = 256
"""Snapshots whose tasks and actors are looked up together."""

MOST_FORKS: Final = 1000
"""Forks of one namespace that are told of."""

CALLED: Final[Sequence[Called]] = ("trace_id", "task_id", "label")
"""What has an index, from what names the fewest on."""

IsOver = Callable[[], bool]

_decode_counts: Final = msgspec.json.Decoder(Counts).decode


@fetched
def snapshots(handle: Handle, wanted: ListSnapshots, *, time: timedelta | None = None) -> Timeline:
    """Returns the usable snapshots that were taken on purpose and are meant, newest first.

    With a `time`, it ends after that, too; `before` says where it goes on.
    """
    check_limit(wanted.limit)
    return _search(handle, wanted, _ending(handle, time))


@fetched
def timeline(handle: Handle, wanted: ListTimeline, *, time: timedelta | None = None) -> Timeline:
    """Returns the usable snapshots that are meant, newest first; `before` is a number.

    With a `time`, it ends after that, too, and what takes longer to count is not known.
    """
    check_limit(wanted.limit)
    is_over = _ending(handle, time)
    if wanted.path is None:
        found = _search(handle, wanted, is_over)
    else:
        found = _search_path(handle, wanted, wanted.path, is_over, time)
    if wanted.with_:
        _tell(handle, wanted.with_, found, _ending(handle, time))
    return found


def _ending(handle: Handle, time: timedelta | None) -> IsOver:
    if time is None:
        return lambda: False
    clock = handle.context.clock
    stop = clock() + time
    return lambda: clock() >= stop


def _search(handle: Handle, wanted: ListTimeline | ListSnapshots, is_over: IsOver) -> Timeline:
    """Goes down the timeline until there are enough, or it took long enough."""
    found, looked = Timeline(), 0
    with handle.context.catalog.read() as transaction:
        head = handle.find_head(transaction)
        if head is None:
            return found
        compare = transaction.comparing(head.namespace_id, "snapshots")
        choice = _Choice(transaction, head, wanted)
        batch = list[SnapshotInfo]()
        called = _called(wanted)
        for row in iter_rows(transaction, head, wanted.before, called=called):
            looked += 1
            if row.deleted_at is None and not is_expired(handle.context, head, row):
                batch.append(dated(handle.context, head, row))
            if len(batch) == choice.batch:
                choice.add_to(found, batch)
                batch.clear()
                if found.before is not None:
                    break
                if is_over():
                    found.before = found.searched_to
                    break
        else:
            choice.add_to(found, batch)
        is_all = wanted.before is None and found.before is None and called is None
        compare(looked if is_all else None)
    return found


def _called(wanted: Choice) -> tuple[Called, str] | None:
    """Returns by what the fewest are found that are meant, of what has an index."""
    for name in CALLED:
        if (value := getattr(wanted, name)) is not None:
            return name, value
    return None


def _search_path(
    handle: Handle,
    wanted: ListTimeline,
    path: PathLike,
    is_over: IsOver,
    time: timedelta | None,
) -> Timeline:
    """Goes down what happened to a path, in the same way."""
    found, name = Timeline(), to_name(path)
    found.before = wanted.before
    while wanted.limit is None or len(found) < wanted.limit:
        left = None if wanted.limit is None else wanted.limit - len(found)
        part = history.page(handle, name, limit=left, before=found.before, time=time)
        steps = [step.snapshot for step in part.steps if step.snapshot is not None]
        with handle.context.catalog.read() as transaction:
            choice = _Choice(transaction, handle.head_or_empty(transaction), wanted)
            found += choice.meant(steps)
        found.searched_to = part.searched_to or found.searched_to
        found.before = part.before
        if found.before is None or is_over():
            break
    return found


class _Named:
    """What tasks and keys are called that snapshots name."""

    def __init__(self, transaction: Transaction, head: Head) -> None:
        self._transaction, self._head = transaction, head
        self._tasks = dict[str, TaskBrief | None]()
        self._actors = dict[str, str | None]()

    def learn(self, snapshots: Sequence[SnapshotInfo], *, tasks: bool, actors: bool) -> None:
        """Looks up those that are not known yet, all of them together."""
        head, asked = self._head, self._transaction
        if tasks and (ids := _new(self._tasks, (each.task_id for each in snapshots))):
            self._tasks.update(dict.fromkeys(ids))
            for task in asked.find_tasks(head.namespace_id, ids):
                self._tasks[task.id] = TaskBrief(task.name, task.status.value)
        if actors and (ids := _new(self._actors, (each.actor for each in snapshots))):
            self._actors.update(dict.fromkeys(ids))
            for key in asked.find_keys(head.tenant_id, ids):
                self._actors[key.id] = key.name

    def task(self, snapshot: SnapshotInfo) -> TaskBrief | None:
        """Returns the task of a snapshot, if it was looked up and is one."""
        return self._tasks.get(snapshot.task_id or "")

    def actor(self, snapshot: SnapshotInfo) -> str | None:
        """Returns what the key is called that made a snapshot, if it was looked up and is one."""
        return self._actors.get(snapshot.actor or "")


def with_names(
    transaction: Transaction, head: Head, snapshots: Sequence[SnapshotInfo]
) -> list[SnapshotInfo]:
    """Returns snapshots with what their tasks and actors are called."""
    named = _Named(transaction, head)
    named.learn(snapshots, tasks=True, actors=True)
    return [
        replace(each, task=named.task(each), actor_name=named.actor(each)) for each in snapshots
    ]


def _new(known: dict[str, Any], names: Iterable[str | None]) -> list[str]:
    return [*{name for name in names if name is not None and name not in known}]


class _Choice:
    """Which snapshots are meant."""

    def __init__(
        self, transaction: Transaction, head: Head, wanted: ListTimeline | ListSnapshots
    ) -> None:
        self._wanted, self._named = wanted, _Named(transaction, head)
        self._sought = wanted if isinstance(wanted, ListTimeline) and wanted.names_others else None
        limit = None if self._sought else wanted.limit
        self.batch = BATCH if limit is None else min(BATCH, limit + 1)
        """How many are looked at together: no more than are wanted, if all of them are meant."""

    def add_to(self, found: Timeline, snapshots: Sequence[SnapshotInfo]) -> None:
        """Adds those that are meant, up to the limit; `before` then says where it goes on."""
        limit, meant = self._wanted.limit, {each.id for each in self.meant(snapshots)}
        for snapshot in snapshots:
            if limit is not None and len(found) >= limit:
                found.before = found.searched_to or snapshot.number + 1
                return
            found.searched_to = snapshot.number
            if snapshot.id in meant:
                found.append(snapshot)

    def meant(self, snapshots: Sequence[SnapshotInfo]) -> list[SnapshotInfo]:
        """Returns those of some that are meant."""
        some = [each for each in snapshots if self._wanted.means(each)]
        sought = self._sought
        if sought is None:
            return some
        has_words = bool(sought.words)
        self._named.learn(
            some,
            tasks=has_words or sought.task_status is not None,
            actors=has_words or sought.actor is not None,
        )
        return [each for each in some if self._fits(sought, each)]

    def _fits(self, sought: ListTimeline, snapshot: SnapshotInfo) -> bool:
        task, actor = self._named.task(snapshot), self._named.actor(snapshot)
        if sought.actor is not None and sought.actor not in (snapshot.actor, actor):
            return False
        if sought.task_status is not None and (task is None or task.status != sought.task_status):
            return False
        said = (snapshot.label, snapshot.reason, snapshot.task_id, snapshot.actor, actor)
        text = "\n".join(filter(None, (*said, task and task.name))).casefold()
        return all(word in text for word in sought.words)


# What is told beside them


def _tell(handle: Handle, beside: Sequence[str], found: Timeline, is_over: IsOver) -> None:
    """Tells what was asked for beside snapshots, and how many there are in all."""
    with handle.context.catalog.read() as transaction:
        head = handle.find_head(transaction)
        found.total = 0
        if head is None:
            return
        found.total = _count_usable(handle, transaction, head)
        named = _Named(transaction, head)
        named.learn(found, tasks="task" in beside, actors="actor" in beside)
        forks = defaultdict[SnapshotId, list[str]](list)
        for target, name in transaction.list_forks(
            head.tenant_id, head.namespace_id, most=MOST_FORKS
        ):
            forks[target].append(name)
        counting = _Counting(handle, transaction, found, is_over)
        found[:] = [
            replace(
                snapshot,
                changes=counting.find(snapshot) if "changes" in beside else None,
                task=named.task(snapshot),
                actor_name=named.actor(snapshot),
                forks=forks[snapshot.id],
            )
            for snapshot in found
        ]


def _count_usable(handle: Handle, transaction: Transaction, head: Head) -> int:
    context = handle.context
    now = context.clock()
    return transaction.count_usable_snapshots(
        head.namespace_id,
        position=head.position,
        now=now,
        oldest=None if head.retention is not None else now - context.limits.retention,
    )


class _Counting:
    """How much snapshots changed, each against the one that its number follows."""

    def __init__(
        self, handle: Handle, transaction: Transaction, found: Timeline, is_over: IsOver
    ) -> None:
        self._handle, self._transaction, self._is_over = handle, transaction, is_over
        self._source = StagedObjects(handle.objects_in(transaction))
        self._roots = {each.number: each.root for each in found}

    def find(self, snapshot: SnapshotInfo) -> Counts | None:
        """Returns what was counted when it was taken, or is now; None if it cannot be known."""
        if snapshot.counts is not None:
            return to_counts(from_counts(_decode_counts(snapshot.counts)))
        if snapshot.kind is Kind.FORK and snapshot.number == 1:
            return to_counts({})  # It shows what its origin showed.
        if (before := self._before(snapshot)) is None:
            return None
        every: Tally | None = count_between(
            self._handle, self._source, before, snapshot.root, is_over=self._is_over
        )
        return None if every is None else to_counts(every)

    def _before(self, snapshot: SnapshotInfo) -> ObjectId | None:
        """Returns the state that a snapshot follows: whatever moves a head leaves one more."""
        number = snapshot.number - 1
        if number == 0:
            return EMPTY_ROOT
        if number not in self._roots and not self._is_over():
            rows = self._transaction.timeline(snapshot.namespace_id, before=snapshot.number, most=1)
            self._roots.update({each.number: each.root for each in rows})
        return self._roots.get(number)
