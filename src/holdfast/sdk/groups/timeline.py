"""`client.snapshots`, and the calls about a namespace's timeline that several groups make."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.errors import Incompatible, InvalidName, InvalidValue
from holdfast.model.basics import Plane, SnapshotInfo, SnapshotLike, Timeline, id_of
from holdfast.model.changes import Restored
from holdfast.model.history import History, Step
from holdfast.model.names import Name, check_names
from holdfast.model.paths import PathLike, sent_path
from holdfast.sdk.calls import Call, F, Group, Page, Pages, Steps, call, flow, page_of, pages
from holdfast.sdk.reading import (
    as_it_is,
    id_or_none,
    nothing,
    reads,
    to_restored,
    to_snapshot,
    to_step,
)
from holdfast.wire.changes import ChangeAnswer
from holdfast.wire.snapshots import (
    LabelRequest,
    RestoreAnswer,
    RestoreRequest,
    SnapshotAnswer,
    SnapshotList,
    SnapshotRequest,
)
from holdfast.wire.timeline import ChangesAnswer, HistoryAnswer, TimelineAnswer

PAGE: Final = 200
MOST_CHANGES: Final = 100_000
"""As many as a server lists at once; `truncated` says that there are more."""

SHOWN: Final = 1000
"""Changes that a restore lists, if nobody says how many."""

MAX_LABEL_CHARS: Final = 128

_ONE: Final = "/v1/snapshots/{snapshot_id}"
_WHOLE: Final = re.compile(r"snap-[a-z0-9]{16,}")

read_snapshot = reads(SnapshotAnswer, to_snapshot)
read_restored = reads(RestoreAnswer, to_restored)
_changes = as_it_is(ChangesAnswer)
_history = as_it_is(HistoryAnswer)


class Snapshots(Group[F]):
    """The snapshots of a namespace that were taken on purpose."""

    @call
    def create(
        self,
        label: str | None = None,
        *,
        reason: str | None = None,
        pin: bool = False,
        expires_in: timedelta | None = None,
        expected: SnapshotLike | None = None,
    ) -> Call[SnapshotInfo]:
        """Captures everything as it is now, in one atomic step."""
        return snapshot_call(
            label, reason=reason, pin=pin, expires_in=expires_in, expected=expected
        )

    @flow
    def list(self, *, limit: int | None = None, before: int | None = None) -> Steps[Timeline]:
        """Returns the snapshots, newest first; `before` continues below a `number`."""
        return Timeline((yield from snapshot_pages(limit, before).collect()))

    @pages
    def iter(self, *, before: int | None = None) -> Pages[SnapshotInfo]:
        """Goes through the snapshots, newest first."""
        return snapshot_pages(None, before)

    @call
    def get(self, snapshot: SnapshotLike) -> Call[SnapshotInfo]:
        """Returns one snapshot: by its id, a unique beginning of it, `latest`, `@` or `@-2`."""
        return find_call(snapshot)

    @flow
    def restore(
        self,
        snapshot: SnapshotLike,
        *,
        planes: Sequence[Plane | str] | None = None,
        paths: Sequence[PathLike] | None = None,
        names: Sequence[Name] | None = None,
        except_: Sequence[Name] | None = None,
        dry_run: bool = False,
        limit: int | None = SHOWN,
        reason: str | None = None,
        expected: SnapshotLike | None = None,
    ) -> Steps[Restored]:
        """Brings a snapshot back: all planes, some, or what matches some paths or is named.

        Of all that, nothing that is in `except_`.
        """
        return (
            yield from restore_steps(
                snapshot,
                planes=planes,
                paths=paths,
                names=names,
                except_=except_,
                dry_run=dry_run,
                limit=limit,
                reason=reason,
                expected=expected,
            )
        )

    @flow
    def delete(self, snapshot: SnapshotLike) -> Steps[None]:
        """Takes a snapshot off the timeline; an admin can bring it back for a while."""
        yield from delete_steps(snapshot)

    @flow
    def pin(self, snapshot: SnapshotLike) -> Steps[SnapshotInfo]:
        """Keeps a snapshot until it is unpinned."""
        return (yield from pin_steps(snapshot, "POST"))

    @flow
    def unpin(self, snapshot: SnapshotLike) -> Steps[SnapshotInfo]:
        """Lets a snapshot expire again, a full term from now."""
        return (yield from pin_steps(snapshot, "DELETE"))

    @flow
    def set_label(self, snapshot: SnapshotLike, label: str | None) -> Steps[SnapshotInfo]:
        """Gives a snapshot another label."""
        return (yield from label_steps(snapshot, label))


def snapshot_call(
    label: str | None,
    *,
    reason: str | None = None,
    pin: bool = False,
    expires_in: timedelta | None = None,
    expected: SnapshotLike | None = None,
    task_id: str | None = None,
    trace_id: str | None = None,
) -> Call[SnapshotInfo]:
    """Describes taking a snapshot."""
    body = SnapshotRequest(
        label=_label(label),
        reason=reason,
        pin=pin,
        expected=id_or_none(expected),
        expires_in_seconds=None if expires_in is None else int(expires_in.total_seconds()),
        task_id=task_id,
        trace_id=trace_id,
    )
    return Call(method="POST", path="/v1/snapshots", body=body, read=read_snapshot)


def find_call(snapshot: SnapshotLike) -> Call[SnapshotInfo]:
    """Describes looking a snapshot up, by whatever means it."""
    place = {"snapshot_id": id_of(snapshot)}
    return Call(method="GET", path="/v1/timeline/{snapshot_id}", place=place, read=read_snapshot)


def whole_id(snapshot: SnapshotLike) -> Steps[str]:
    """Returns the whole id of a snapshot, asking for it where only what means it is known."""
    named = id_of(snapshot)
    if not isinstance(snapshot, str) or _WHOLE.fullmatch(named):
        return named
    found: SnapshotInfo = yield find_call(named)
    return found.id


def restore_steps(
    snapshot: SnapshotLike,
    *,
    planes: Sequence[Plane | str] | None = None,
    paths: Sequence[PathLike] | None = None,
    names: Sequence[Name] | None = None,
    except_: Sequence[Name] | None = None,
    dry_run: bool = False,
    limit: int | None = SHOWN,
    reason: str | None = None,
    expected: SnapshotLike | None = None,
) -> Steps[Restored]:
    """Describes bringing a snapshot back."""
    body = RestoreRequest(
        planes=_planes(planes),
        paths=sent_paths(paths),
        names=_sent_names("names", names),
        except_=_sent_names("except_", except_),
        dry_run=dry_run,
        reason=reason,
        expected=id_or_none(expected),
        limit=listed(limit),
    )
    place = {"snapshot_id": (yield from whole_id(snapshot))}
    return (
        yield Call(
            method="POST", path=f"{_ONE}/restore", place=place, body=body, read=read_restored
        )
    )


def listed(limit: int | None) -> int:
    """Returns how many changes a server is asked to list."""
    return MOST_CHANGES if limit is None else limit


def restore_snapshot_steps(snapshot: SnapshotLike) -> Steps[int]:
    """Describes bringing a whole snapshot back; the answer is how many files there are then."""
    place = {"snapshot_id": (yield from whole_id(snapshot))}
    read = reads(RestoreAnswer, lambda answer: answer.files_restored)
    return (
        yield Call(
            method="POST",
            path=f"{_ONE}/restore",
            place=place,
            body=RestoreRequest(limit=0),
            read=read,
        )
    )


def delete_steps(snapshot: SnapshotLike) -> Steps[None]:
    """Describes taking a snapshot off the timeline."""
    place = {"snapshot_id": (yield from whole_id(snapshot))}
    yield Call(method="DELETE", path=_ONE, place=place, read=nothing)


def pin_steps(snapshot: SnapshotLike, method: str) -> Steps[SnapshotInfo]:
    """Describes keeping a snapshot, or letting it expire again."""
    place = {"snapshot_id": (yield from whole_id(snapshot))}
    return (yield Call(method=method, path=f"{_ONE}/pin", place=place, read=read_snapshot))


def label_steps(snapshot: SnapshotLike, label: str | None) -> Steps[SnapshotInfo]:
    """Describes giving a snapshot another label."""
    body = LabelRequest(label=_label(label))
    place = {"snapshot_id": (yield from whole_id(snapshot))}
    return (yield Call(method="PATCH", path=_ONE, place=place, body=body, read=read_snapshot))


def diff_steps(
    old: str | None,
    new: str | None,
    *,
    planes: Sequence[Plane | str] | None,
    paths: Sequence[PathLike] | None,
    limit: int | None,
) -> Steps[tuple[list[ChangeAnswer], bool]]:
    """Describes comparing two moments: what differs, and whether there is more than that."""
    query: dict[str, Any] = {
        "from": old,
        "to": new,
        "plane": _planes(planes),
        "path": sent_paths(paths),
    }
    found: list[ChangeAnswer] = []
    while True:
        left = MOST_CHANGES if limit is None else min(MOST_CHANGES, limit - len(found))
        # A server lists one at the least; who wants none is given none.
        answer: ChangesAnswer = yield Call(
            method="GET", path="/v1/diff", query={**query, "limit": left or 1}, read=_changes
        )
        found += answer.changes
        query["cursor"] = answer.next_cursor
        if answer.next_cursor is None or (limit is not None and len(found) >= limit):
            return found, answer.truncated


def history_steps(name: Name, *, limit: int | None, before: int | None) -> Steps[History]:
    """Describes what happened to one thing: pages of it, until there is enough."""
    if limit is not None and limit < 0:
        raise InvalidValue("limit is a number from 0 on, or None for all")
    steps, searched_to = list[Step](), None
    query: dict[str, Any] = msgspec.to_builtins(_sendable(name))
    while limit is None or len(steps) < limit:
        most = PAGE if limit is None else min(PAGE, limit - len(steps))
        answer: HistoryAnswer = yield Call(
            method="GET",
            path="/v1/history",
            query={**query, "limit": most, "before": before},
            read=_history,
        )
        steps += map(to_step, answer.steps)
        searched_to = answer.searched_to or searched_to
        if answer.next_before is not None and answer.next_before == before:
            raise Incompatible("the server's list has no end: it goes on where it began")
        before = answer.next_before
        if before is None:
            break
    return History(name=name, steps=steps, searched_to=searched_to, before=before)


def _label(label: str | None) -> str | None:
    """Returns a label; raises `InvalidName`, as an engine would, before anything is sent."""
    if label is not None and len(label) > MAX_LABEL_CHARS:
        reason = f"it has more than {MAX_LABEL_CHARS} characters"
        raise InvalidName("label", label, reason=reason)
    return label


def sent_paths(paths: Sequence[PathLike] | None) -> list[str] | None:
    """Returns the paths that select files, as they are sent; None for all."""
    if isinstance(paths, str | bytes):
        # Its letters would be taken for paths, and `*` is one that many files match.
        raise InvalidValue("paths is a list of paths, not one")
    if paths is not None and not paths:
        # In a query, none and no choice at all look the same.
        raise InvalidValue("nothing is selected: name at least one path")
    return None if paths is None else [*map(sent_path, paths)]


def _sent_names(kind: str, names: Sequence[Name] | None) -> list[Name] | None:
    """Returns names as they are sent: what is not UTF-8, as bytes."""
    return None if names is None else [_sendable(name) for name in check_names(kind, names)]


def _sendable(name: Name) -> Name:
    if name.plane != Plane.FILES or name.name is None:
        return name
    name_b64 = name.name_b64 or Name.file(name.name).name_b64
    return name if name_b64 is None else replace(name, name=None, name_b64=name_b64)


def _planes(planes: Sequence[Plane | str] | None) -> list[str] | None:
    if planes is not None and not planes:
        raise InvalidValue("nothing is selected: name at least one plane")
    try:
        return None if planes is None else [str(Plane(plane)) for plane in planes]
    except ValueError as exc:
        raise InvalidValue(f"{exc}: there are {', '.join(Plane)}") from exc


def timeline_pages(limit: int | None, before: int | None) -> Pages[SnapshotInfo]:
    """Describes all that is on a timeline, newest first."""
    return _listed("/v1/timeline", reads(TimelineAnswer, _page), limit, before)


def snapshot_pages(limit: int | None, before: int | None) -> Pages[SnapshotInfo]:
    """Describes what was taken on purpose, newest first."""
    return _listed("/v1/snapshots", reads(SnapshotList, _page), limit, before)


def _listed(
    path: str,
    read: Callable[[bytes], Page[SnapshotInfo]],
    limit: int | None,
    before: int | None,
) -> Pages[SnapshotInfo]:
    def ask(cursor: str | None, most: int) -> Call[Page[SnapshotInfo]]:
        query = {"limit": most, "before": before if cursor is None else int(cursor)}
        return Call(method="GET", path=path, query=query, read=read)

    return Pages(PAGE, ask, limit)


def _page(answer: TimelineAnswer | SnapshotList) -> Page[SnapshotInfo]:
    found = [to_snapshot(each) for each in answer.snapshots]
    return page_of(found, has_more=answer.has_more, cursor=lambda last: str(last.number))
