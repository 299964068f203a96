"""Snapshots: take one, list them, bring one back, keep it, take it off the timeline."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from typing import Annotated, Any, Final, cast

from msgspec import Meta

from holdfast.engine.files.browsing import count_files
from holdfast.engine.namespace import Namespace
from holdfast.engine.timeline.restore import SHOWN
from holdfast.entries import Directory
from holdfast.errors import Conflict, InvalidValue, SnapshotNotFound
from holdfast.model.basics import Kind, Plane, SnapshotInfo
from holdfast.model.changes import WORDS, Change, Changes, Restored
from holdfast.model.paths import read_path, shown_name
from holdfast.server.paging import LAST_NUMBER, page_size, paged
from holdfast.server.routing import Route, delete, get, patch, post
from holdfast.server.times import shown, shown_or_none
from holdfast.wire.changes import ChangeAnswer, Counts
from holdfast.wire.snapshots import (
    LabelRequest,
    RestoreAnswer,
    RestoreRequest,
    SnapshotAnswer,
    SnapshotDeletedAnswer,
    SnapshotList,
    SnapshotRequest,
)

LISTED: Final = 200
NEWEST: Final = "latest"
MOST_CHANGES: Final = 100_000
"""Changes that one answer lists: they are all in memory at once."""

_PAGE: Final = 1000
"""How much of a timeline is looked at together."""


@post("/v1/snapshots", status=201)
def take(agent: Namespace, data: SnapshotRequest | None = None) -> SnapshotAnswer:
    """Captures everything as it is now, in one atomic step."""
    wanted = data or SnapshotRequest()
    snapshot = agent.snapshot(
        wanted.label,
        reason=wanted.reason,
        task_id=wanted.task_id,
        trace_id=wanted.trace_id,
        pin=bool(wanted.pin),
        expires_in=_term(wanted.expires_in_seconds),
        expected=wanted.expected,
    )
    return to_answer(agent, snapshot)


@get("/v1/snapshots")
def list_(
    agent: Namespace,
    limit: int | None = None,
    before: Annotated[int, Meta(ge=0, le=LAST_NUMBER)] | None = None,
    all: bool = False,
) -> SnapshotList:
    """Lists the snapshots that were taken on purpose, newest first.

    `before` continues below a `number`. With `all`, those that undo and restore left are listed,
    too.
    """
    size = page_size(limit, usual=LISTED, most=LISTED)

    def fetch(most: int) -> list[SnapshotInfo]:
        found = _iter_timeline(agent, before)
        return list(islice((s for s in found if all or s.kind is Kind.SNAPSHOT), most))

    found, has_more = paged(fetch, size)
    return SnapshotList(snapshots=[to_answer(agent, each) for each in found], has_more=has_more)


@get("/v1/snapshots/{snapshot_id}")
def show(agent: Namespace, snapshot_id: str) -> SnapshotAnswer:
    """Returns one snapshot."""
    return to_answer(agent, get_snapshot(agent, snapshot_id))


@post("/v1/snapshots/{snapshot_id}/restore")
def restore(
    agent: Namespace, snapshot_id: str, data: RestoreRequest | None = None
) -> RestoreAnswer:
    """Brings a snapshot back, whole or in part; what is there now is kept first."""
    wanted = data or RestoreRequest()
    restored = agent.restore(
        get_snapshot(agent, snapshot_id),
        planes=wanted.planes,
        paths=None if wanted.paths is None else [read_path(path) for path in wanted.paths],
        names=wanted.names,
        except_=wanted.except_,
        dry_run=bool(wanted.dry_run),
        limit=listed(wanted.limit),
        reason=wanted.reason,
        expected=wanted.expected,
    )
    return to_restored(agent, restored, is_part=restored.files is None)


@patch("/v1/snapshots/{snapshot_id}")
def relabel(agent: Namespace, snapshot_id: str, data: LabelRequest) -> SnapshotAnswer:
    """Gives a snapshot another label, or none."""
    snapshot = get_snapshot(agent, snapshot_id)
    return to_answer(agent, agent.set_label(snapshot, data.label))


@post("/v1/snapshots/{snapshot_id}/pin")
def pin(agent: Namespace, snapshot_id: str) -> SnapshotAnswer:
    """Keeps a snapshot out of retention's reach."""
    return to_answer(agent, agent.pin(get_snapshot(agent, snapshot_id)))


@delete("/v1/snapshots/{snapshot_id}/pin")
def unpin(agent: Namespace, snapshot_id: str) -> SnapshotAnswer:
    """Lets a snapshot expire again, a full term from now."""
    return to_answer(agent, agent.unpin(get_snapshot(agent, snapshot_id)))


@delete("/v1/snapshots/{snapshot_id}")
def remove(agent: Namespace, snapshot_id: str) -> SnapshotDeletedAnswer:
    """Takes a snapshot off the timeline; an admin can bring it back for a while."""
    snapshot = get_snapshot(agent, snapshot_id)
    agent.delete_snapshot(snapshot)
    return SnapshotDeletedAnswer(snapshot_id=snapshot.id, deleted=True)


def get_snapshot(agent: Namespace, snapshot_id: str) -> SnapshotInfo:
    """Returns a snapshot by its whole id, or the newest; raises `SnapshotNotFound`."""
    try:
        found = agent.get_snapshot(snapshot_id)
    except Conflict as exc:
        # Of several that begin like that, none is meant: here an id is a whole one.
        raise SnapshotNotFound(snapshot_id) from exc
    if snapshot_id not in (found.id, NEWEST):
        raise SnapshotNotFound(snapshot_id)
    return found


def _iter_timeline(agent: Namespace, before: int | None) -> Iterator[SnapshotInfo]:
    """Yields what is on the timeline, newest first."""
    while page := agent.timeline(limit=_PAGE, before=before):
        yield from page
        before = page[-1].number


def to_answer(agent: Namespace, snapshot: SnapshotInfo) -> SnapshotAnswer:
    """Returns a snapshot as it stands on the wire."""
    return SnapshotAnswer(
        snapshot_id=snapshot.id,
        namespace=agent.name,
        label=snapshot.label,
        size_bytes=snapshot.size.bytes,
        created_at=shown(snapshot.created_at),
        number=snapshot.number,
        kind=snapshot.kind.value,
        parent=snapshot.parent,
        target=snapshot.target,
        reason=snapshot.reason,
        actor=snapshot.actor,
        task_id=snapshot.task_id,
        root=snapshot.root.hex(),
        entries=snapshot.size.entries,
        pinned=snapshot.pinned,
        expires_at=shown_or_none(snapshot.expires_at),
        partial=snapshot.is_partial,
        trace_id=snapshot.trace_id,
        detail=_legible(snapshot.detail),
    )


def to_restored(agent: Namespace, restored: Restored, *, is_part: bool = False) -> RestoreAnswer:
    """Returns what a restore, an undo or a redo did, as it stands on the wire."""
    if is_part:
        files = _put_back(restored)
    else:
        shows = restored.snapshot or agent.get_snapshot(restored.target)
        files = count_files(agent.at(shows).files)
    counts = to_counts(restored.changes)
    return RestoreAnswer(
        snapshot_id=restored.target,
        files_restored=files,
        changed={plane: sum(words.values()) for plane, words in counts.items()},
        counts=counts,
        truncated=restored.changes.truncated,
        snapshot=None if restored.snapshot is None else to_answer(agent, restored.snapshot),
        safety_snapshot_id=restored.safety_id,
        verified=restored.verified,
        dry_run=restored.dry_run,
        changes=[to_change(change) for change in restored.changes],
        root=restored.root.hex(),
        files=restored.files,
        kept=[shown_name(path) for path in restored.kept],
        uncovered=[shown_name(path) for path in restored.uncovered],
        uncaptured=[shown_name(path) for path in restored.uncaptured],
        partial=restored.is_partial,
        in_motion=[shown_name(path) for path in restored.in_motion],
        left_alone=[plane.value for plane in restored.left_alone],
        left=[*restored.left],
        by_snapshots=restored.by_snapshots,
    )


def listed(limit: int | None) -> int:
    """Returns how many changes an answer lists."""
    return SHOWN if limit is None else min(limit, MOST_CHANGES)


def to_counts(changes: Changes) -> Counts:
    """Returns how many entries changed, listed or not, as it stands on the wire."""
    return {
        plane.value: {word: changes.count(word, plane=plane) or 0 for word in WORDS}
        for plane in Plane
    }


def _put_back(restored: Restored) -> int:
    """Returns how many files a restore of a part has put in place, of those that are listed."""
    return sum(
        change.plane is Plane.FILES and not isinstance(change.new, Directory | None)
        for change in restored.changes
    )


def to_change(change: Change) -> ChangeAnswer:
    """Returns a change as it stands on the wire."""
    named = change.named
    return ChangeAnswer(
        plane=change.plane.value,
        name=shown_name(change.name),
        change=change.change,
        old_bytes=change.old_bytes,
        new_bytes=change.new_bytes,
        is_executable_config=change.is_executable_config,
        namespace=named.namespace,
        key=named.key,
        name_b64=named.name_b64,
    )


def _term(seconds: int | None) -> timedelta | None:
    """Returns how long a snapshot shall be kept; whether that can be is the engine's to say."""
    try:
        return None if seconds is None else timedelta(seconds=seconds)
    except OverflowError as exc:
        raise InvalidValue("expires_in_seconds is longer than anything lasts") from exc


def _legible(value: object) -> Any:  # noqa: ANN401 - any JSON
    """Returns JSON with what is no UTF-8 in it replaced: names of files can be such."""
    if isinstance(value, str):
        return shown_name(value)
    if isinstance(value, list):
        return [_legible(part) for part in cast("list[object]", value)]
    if isinstance(value, dict):
        known = cast("dict[str, object]", value)
        return {shown_name(name): _legible(part) for name, part in known.items()}
    return value


ROUTES: Final[list[Route]] = [
    take,
    list_,
    show,
    restore,
    relabel,
    pin,
    unpin,
    remove,
]
