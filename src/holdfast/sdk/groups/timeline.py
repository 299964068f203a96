"""`client.snapshots`, and what several groups ask of a namespace's timeline."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from msgspec import structs

from holdfast.errors import Incompatible, InvalidValue
from holdfast.ids import is_snapshot_id
from holdfast.model.basics import SnapshotInfo, Timeline, id_of
from holdfast.model.changes import (
    Change,
    Changes,
    ChangesPage,
    History,
    Step,
    counted,
    from_counts,
    tally,
)
from holdfast.model.names import Name, to_name
from holdfast.model.timelines import TimelinePage
from holdfast.operations.choices import MOST_CHANGES
from holdfast.operations.operation import Operation, takes
from holdfast.operations.shapes import shape_of
from holdfast.operations.snapshots import (
    DeleteSnapshot,
    GetSnapshot,
    GetSnapshots,
    LabelSnapshot,
    ListSnapshots,
    PinSnapshot,
    RestoreSnapshot,
    TakeSnapshot,
    UnpinSnapshot,
)
from holdfast.operations.timeline import (
    PARTS,
    Diff,
    GetChanges,
    GetHistory,
    GetTimeline,
    Historic,
    ListTimeline,
)
from holdfast.sdk.calls import (
    Call,
    F,
    Group,
    P,
    Page,
    Pages,
    Steps,
    T,
    asking,
    flow,
    method,
    pages,
)

PAGE: Final = PARTS.most


Asked = TypeVar("Asked", bound=Operation[Any])


class of_snapshot(method[P, T]):  # noqa: N801 - as a decorator is
    """A method that does something with a snapshot: a server wants the whole id of it."""

    @staticmethod
    def steps(asked: Operation[Any], _above: Mapping[str, str]) -> Steps[Any]:
        """Asks for it with the whole id; what cannot be sent is refused before that."""
        asking(asked)
        return (yield asking((yield from with_whole_id(asked))))


def with_whole_id(asked: Asked) -> Steps[Asked]:
    """Returns an operation with the whole id of its snapshot; asks for it if that is not known."""
    wanted: Any = asked
    name = id_of(wanted.snapshot)
    if isinstance(wanted.snapshot, str) and not is_snapshot_id(name):
        found: SnapshotInfo = yield asking(GetSnapshot(name))
        name = found.id
    return replace(wanted, snapshot=name)


class Snapshots(Group[F]):
    """The snapshots of a namespace that were taken on purpose."""

    create = method(TakeSnapshot)
    get = method(GetSnapshot)
    restore = of_snapshot(RestoreSnapshot)
    delete = of_snapshot(DeleteSnapshot)
    pin = of_snapshot(PinSnapshot)
    unpin = of_snapshot(UnpinSnapshot)
    set_label = of_snapshot(LabelSnapshot)

    @flow
    @takes(ListSnapshots)
    def list(self, wanted: ListSnapshots) -> Steps[Timeline]:
        """Returns the snapshots that were taken on purpose, or `all`, newest first."""
        return (yield from snapshots_steps(wanted))

    @pages
    @takes(ListSnapshots)
    def iter(self, wanted: ListSnapshots) -> Pages[SnapshotInfo]:
        """Goes through the snapshots, newest first."""
        return _snapshots(wanted)


def _snapshots(wanted: ListSnapshots) -> Pages[SnapshotInfo]:
    """Describes listing what was taken on purpose; a page may be empty, and not the last."""
    asked = GetSnapshots(**vars(wanted))

    def ask(cursor: Any, most: int) -> Call[Page[SnapshotInfo]]:  # noqa: ANN401 - a number
        before = asked.before if cursor is None else cursor
        sent = asking(replace(asked, before=before, limit=most))

        def read(body: bytes) -> Page[SnapshotInfo]:
            page = sent.read(body)
            return Page(page.snapshots, page.next_before)

        return structs.replace(cast("Call[Any]", sent), read=read)

    return Pages(PAGE, ask, wanted.limit)


def snapshots_steps(wanted: ListSnapshots) -> Steps[Timeline]:
    """Describes listing what was taken on purpose, until there is enough."""
    return Timeline((yield from _snapshots(wanted).collect()))


def diff_steps(wanted: Diff) -> Steps[Changes]:
    """Describes comparing two moments: page by page, until there is enough."""
    limit, found, every = wanted.limit, list[Change](), None
    asked = GetChanges(**vars(wanted))
    while True:
        left = MOST_CHANGES if limit is None else min(MOST_CHANGES, limit - len(found))
        # A server lists one at the least; who wants none is given none.
        page: ChangesPage = yield asking(replace(asked, limit=left or 1))
        found += page.changes
        if page.counts is not None:
            every = from_counts(page.counts)
        asked = replace(asked, cursor=page.next_cursor, counts=False)
        if page.next_cursor is None or (limit is not None and len(found) >= limit):
            if every is not None and page.truncated:
                return counted(found, every - tally(found)).first(limit)
            return Changes(found, page.truncated).first(limit)


def timeline_steps(wanted: ListTimeline) -> Steps[Timeline]:
    """Describes listing a timeline: pages of it, until there is enough."""
    limit, found = wanted.limit, Timeline()
    if limit is not None and limit < 0:
        raise InvalidValue("limit is a number from 0 on, or None for all")
    asked = GetTimeline(**vars(wanted))
    while limit is None or len(found) < limit:
        most = PAGE if limit is None else min(PAGE, limit - len(found))
        page: TimelinePage = yield asking(replace(asked, limit=most))
        found += page.snapshots
        found.searched_to = page.searched_to or found.searched_to
        found.total = page.total
        found.before = page.next_before
        if found.before is None:
            break
        if found.before == asked.before:
            raise Incompatible("the server's list has no end: it goes on where it began")
        asked = replace(asked, before=found.before)
    return found


def history_steps(wanted: Historic) -> Steps[History]:
    """Describes what happened to one thing: pages of it, until there is enough."""
    name, limit, before = to_name(wanted.name), wanted.limit, wanted.before
    if limit is not None and limit < 0:
        raise InvalidValue("limit is a number from 0 on, or None for all")
    steps, searched_to = list[Step](), None
    sent: Name = _send_name(name)
    asked = GetHistory(sent.plane, sent.name, sent.namespace, sent.key, sent.name_b64)
    while limit is None or len(steps) < limit:
        most = PAGE if limit is None else min(PAGE, limit - len(steps))
        page: History = yield asking(replace(asked, limit=most, before=before))
        steps += page.steps
        searched_to = page.searched_to or searched_to
        if page.before is not None and page.before == before:
            raise Incompatible("the server's list has no end: it goes on where it began")
        before = page.before
        if before is None:
            break
    return History(name=name, steps=steps, searched_to=searched_to, before=before)


_send_name: Any = shape_of(Name).send


def snapshot_or_none(snapshot_id: str | None) -> Steps[SnapshotInfo | None]:
    """Asks for a snapshot, if there is one."""
    return None if snapshot_id is None else (yield asking(GetSnapshot(snapshot_id)))
