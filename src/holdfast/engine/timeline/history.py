"""What happened to one thing: a file or a directory, a value, a session, a memory.

Nothing is written for it. Snapshots share what they have in common, so the thing is looked up in
all of them together, and most of what is read on the way is read once; where two neighbours hold
the same, nothing happened in between. Snapshots of directories are snapshots like any other.

A page looks at a bounded part of a timeline, and says where the next one goes on: it may be
empty, and the history yet go on.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from typing import Final, NamedTuple

from holdfast.engine.core.limits import check_limit
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.planes.handle import Handle
from holdfast.engine.timeline import restore, snapshots
from holdfast.engine.timeline.diff import entries_of, find_word
from holdfast.engine.timeline.selection import key_of
from holdfast.entries import Directory, Entry, decode_entry
from holdfast.fetching import fetched
from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP, EMPTY_ROOT, UNSTORED_ROOTS, Plane, Root, SnapshotInfo
from holdfast.model.changes import History, Step
from holdfast.model.names import Name
from holdfast.tree import Cover, covers, diff, get, iterate

BATCH: Final = 256
"""Snapshots that are looked at together."""

PAGE_SNAPSHOTS: Final = 4096
"""Where a page ends, whatever was found: nobody keeps a transaction open for longer."""

PAGE_TIME: Final = timedelta(seconds=0.5)
"""And for somebody who waits with others, once it took that long."""

COUNTED: Final = 1000
"""Entries of a directory that are counted for one step."""

_NOTHING: Final[Cover] = (0, ())


class _Sight(NamedTuple):
    """A thing as one moment shows it."""

    map: ObjectId
    around: Cover = _NOTHING
    """From the thing itself to the end of what lies in it: neighbours may be among it."""


class _Exactly(NamedTuple):
    """A thing as one moment shows it, and nothing else."""

    entry: Entry | None
    is_there: bool
    """Also if it is a directory that only what lies in it tells of."""

    @property
    def size(self) -> int | None:
        if self.entry is None or isinstance(self.entry, Directory):
            return None
        return self.entry.size


_NOWHERE: Final = _Sight(EMPTY_MAP)


@dataclass(slots=True)
class _Moment:
    """A snapshot; without one, the present."""

    root: ObjectId
    number: int
    snapshot: SnapshotInfo | None = None
    sight: _Sight = _NOWHERE


@fetched
def history(handle: Handle, name: Name, *, limit: int | None, before: int | None) -> History:
    """Returns all that happened to a thing, or the newest so many steps of it."""
    check_limit(limit)
    if limit == 0:
        return History(name=name, steps=(), searched_to=None, before=before)
    found = page(handle, name, limit=limit, before=before)
    steps = list(found.steps)
    while found.before is not None and (limit is None or len(steps) < limit):
        left = None if limit is None else limit - len(steps)
        older = page(handle, name, limit=left, before=found.before)
        steps += older.steps
        found = replace(older, searched_to=older.searched_to or found.searched_to)
    return replace(found, steps=steps)


def page(
    handle: Handle,
    name: Name,
    *,
    limit: int | None,
    before: int | None,
    time: timedelta | None = None,
) -> History:
    """Returns what happened in a part of the timeline: what snapshots below a number show first.

    Without `before`, it begins with what is there now. With a `time`, it ends after that, too.
    """
    plane, key = key_of(name)
    clock = handle.context.clock
    stop = None if time is None else clock() + time
    with _opened(handle, before) as (source, moments):
        search = _Search(name, _Looking(source, plane, key))
        return search.along(moments, limit, lambda: stop is not None and clock() >= stop)


def find_drift(
    source: StagedObjects, name: Name, known: ObjectId, there: ObjectId, since: SnapshotInfo | None
) -> Step | None:
    """Returns what happened to a file or directory between a snapshot's files and others."""
    looking = _Looking(source, *key_of(name))
    sights = looking.within([known, there])
    number = 0 if since is None else since.number
    older = _Moment(EMPTY_ROOT, number, since, sights[known])
    return looking.step(_Moment(EMPTY_ROOT, number + 1, None, sights[there]), older)


@contextmanager
def _opened(
    handle: Handle, before: int | None
) -> Generator[tuple[StagedObjects, Iterator[_Moment]]]:
    """Opens what is there now, unless a history goes on, and the snapshots, newest first."""
    if before is not None:
        with handle.context.catalog.read() as transaction:
            head = handle.head_or_empty(transaction)
            usable = snapshots.iter_usable(handle, transaction, head, before)
            source = StagedObjects(handle.objects_in(transaction))
            yield source, map(_of_snapshot, usable)
        return
    with restore.folded_head(handle) as (transaction, folded):

        def moments() -> Iterator[_Moment]:
            yield _Moment(folded.root_id, folded.head.generation + 1)
            usable = snapshots.iter_usable(handle, transaction, folded.head)
            yield from map(_of_snapshot, usable)

        yield folded.source, moments()


def _of_snapshot(snapshot: SnapshotInfo) -> _Moment:
    return _Moment(snapshot.root, snapshot.number, snapshot)


class _Looking:
    """Looks a thing up in many maps, and compares what it finds."""

    def __init__(self, source: StagedObjects, plane: Plane, key: bytes) -> None:
        self._source, self._plane, self._key = source, plane, key
        # What lies in it, if it is a directory; elsewhere there is nothing in anything.
        self._start = key + (b"/" if plane is Plane.FILES else b"\0")
        self._stop = key + (b"0" if plane is Plane.FILES else b"\0")

    def at(self, moments: list[_Moment]) -> None:
        """Finds out how each of them shows it."""
        roots = self._roots({moment.root for moment in moments})
        maps = {root_id: root.plane(self._plane) for root_id, root in roots.items()}
        sights = self.within(maps.values())
        for moment in moments:
            moment.sight = sights[maps[moment.root]]

    def within(self, maps: Iterable[ObjectId]) -> dict[ObjectId, _Sight]:
        """Returns how each of some maps of its plane shows it."""
        around = covers(self._source, maps, start=self._key, stop=self._stop)
        return {at: _Sight(at, cover) for at, cover in around.items()}

    def _roots(self, ids: set[ObjectId]) -> dict[ObjectId, Root]:
        stored = [root_id for root_id in ids if root_id not in UNSTORED_ROOTS]
        found = self._source.get_many(stored) if stored else {}
        roots = {root_id: Root.decode(data) for root_id, data in found.items()}
        return roots | UNSTORED_ROOTS

    def step(self, newer: _Moment, older: _Moment | None) -> Step | None:
        """Returns what happened between two neighbours, if anything did."""
        before, after = _NOWHERE if older is None else older.sight, newer.sight
        if before.around == after.around:
            return None
        old, new = self._exactly(before.map), self._exactly(after.map)
        entries = self._count(before.map, after.map)
        if entries == 0:
            return None
        is_other = old.is_there and new.is_there
        return Step(
            change="changed" if is_other else "added" if new.is_there else "removed",
            snapshot=newer.snapshot,
            previous=None if older is None or older.snapshot is None else older.snapshot.id,
            gone=newer.number - (0 if older is None else older.number) - 1,
            old_bytes=old.size,
            new_bytes=new.size,
            entries=entries,
        )

    def _exactly(self, at: ObjectId) -> _Exactly:
        entry = _entry(get(self._source, at, self._key))
        within = iterate(self._source, at, start=self._start, stop=self._stop)
        return _Exactly(entry, entry is not None or next(within, None) is not None)

    def _count(self, old: ObjectId, new: ObjectId) -> int:
        """Returns how many entries changed by more than their times, as far as that is counted."""
        edits = diff(self._source, old, new, start=self._key, stop=self._stop)
        told = (
            edit
            for edit in edits
            if (edit.key == self._key or edit.key >= self._start)
            and find_word(*entries_of(self._source, edit, (old, new))) is not None
        )
        return sum(1 for _ in islice(told, COUNTED))


class _Search:
    """The way down a timeline, from one snapshot to the one before it."""

    def __init__(self, name: Name, looking: _Looking) -> None:
        self._name, self._looking = name, looking
        self._steps: list[Step] = []

    def along(
        self, moments: Iterator[_Moment], limit: int | None, is_over: Callable[[], bool]
    ) -> History:
        """Goes on until there are enough steps, or it took long enough."""
        newer, looked = next(moments, None), 0
        if newer is not None:
            self._looking.at([newer])
        while newer is not None:
            batch = list(islice(moments, BATCH))
            if not batch:
                self._compare(newer, None)
                return self._history(newer, before=None)
            self._looking.at(batch)
            looked += len(batch)
            for older in batch:
                self._compare(newer, older)
                newer = older
                is_enough = limit is not None and len(self._steps) >= limit
                if is_enough or is_over():
                    return self._history(newer, before=newer.number + 1)
            if looked >= PAGE_SNAPSHOTS:
                return self._history(newer, before=newer.number + 1)
        return self._history(None, before=None)

    def _history(self, oldest: _Moment | None, *, before: int | None) -> History:
        seen = oldest is not None and oldest.snapshot is not None
        return History(
            name=self._name,
            steps=self._steps,
            searched_to=oldest.number if oldest is not None and seen else None,
            before=before,
        )

    def _compare(self, newer: _Moment, older: _Moment | None) -> None:
        step = self._looking.step(newer, older)
        if step is not None:
            self._steps.append(step)


def _entry(value: bytes | None) -> Entry | None:
    return None if value is None else decode_entry(value)
