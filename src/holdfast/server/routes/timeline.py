"""The timeline: look at it, compare moments, go back and forth, branch and join."""

from typing import Annotated, Final

from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter

from holdfast.engine.diff import Change
from holdfast.engine.namespace import Namespace
from holdfast.model import SnapshotInfo
from holdfast.server.callers import Caller, runtime_only
from holdfast.server.paging import LAST_NUMBER, page_size, paged
from holdfast.server.places import read_path, shown_path
from holdfast.server.problems import Unfit
from holdfast.server.routes.files import to_content, to_listing
from holdfast.server.routes.snapshots import get_snapshot, to_answer, to_restored
from holdfast.server.routing import get, post
from holdfast.wire.files import ContentAnswer, ListAnswer
from holdfast.wire.snapshots import RestoreAnswer
from holdfast.wire.timeline import (
    ChangeAnswer,
    ChangesAnswer,
    MergeAnswer,
    MergeRequest,
    NamespaceForkAnswer,
    NamespaceForkRequest,
    TextDiffAnswer,
    TimelineAnswer,
    UndoRequest,
)

LISTED, MOST_LISTED = 50, 200
CHANGES, MOST_CHANGES = 1000, 10_000

Old = Annotated[str | None, QueryParameter(name="from", description="A snapshot, or the last.")]
New = Annotated[str | None, QueryParameter(name="to", description="A snapshot, or what is now.")]


@get("/v1/timeline", guards=[runtime_only])
def show(agent: Namespace, limit: int | None = None, before: int | None = None) -> TimelineAnswer:
    """Returns the snapshots, newest first, and how much has changed since."""
    size = page_size(limit, usual=LISTED, most=MOST_LISTED)
    below = None if before is None else min(max(before, 0), LAST_NUMBER)
    found, has_more = paged(lambda most: agent.timeline(limit=most, before=below), size)
    held = agent.size()
    return TimelineAnswer(
        namespace=agent.name,
        snapshots=[to_answer(agent, snapshot) for snapshot in found],
        has_more=has_more,
        dirty=agent.is_dirty(),
        entries=held.entries,
        size_bytes=held.bytes,
    )


@get("/v1/diff", guards=[runtime_only])
def diff(
    agent: Namespace,
    old: Old = None,
    new: New = None,
    plane: list[str] | None = None,
    path: list[str] | None = None,
    limit: int | None = None,
) -> ChangesAnswer:
    """Returns what leads from one moment to another; `plane` and `path` narrow it down."""
    first, last = _chosen(agent, old), _chosen(agent, new)
    found = agent.diff(
        first,
        last,
        planes=plane,
        paths=None if path is None else [read_path(each) for each in path],
        limit=page_size(limit, usual=CHANGES, most=MOST_CHANGES),
    )
    return ChangesAnswer(
        namespace=agent.name,
        old=None if first is None else first.id,
        new=None if last is None else last.id,
        changes=[to_change(change) for change in found],
        truncated=found.truncated,
    )


@get("/v1/diff/text", guards=[runtime_only])
def text_diff(agent: Namespace, path: str, old: Old = None, new: New = None) -> TextDiffAnswer:
    """Returns a unified diff of one file between two moments; empty if nothing differs."""
    bare = read_path(path)
    text = agent.text_diff(bare, _chosen(agent, old), _chosen(agent, new))
    return TextDiffAnswer(path=shown_path(bare), diff=text)


@post("/v1/undo", guards=[runtime_only])
def undo(agent: Namespace, data: UndoRequest | None = None) -> RestoreAnswer:
    """Takes the last change back; with an operation, what that one changed."""
    operation = None if data is None else data.operation
    return to_restored(agent, agent.undo(_chosen(agent, operation)))


@post("/v1/redo", guards=[runtime_only])
def redo(agent: Namespace) -> RestoreAnswer:
    """Takes the last undo back."""
    return to_restored(agent, agent.redo())


@post("/v1/fork", status=201, guards=[runtime_only])
def fork(caller: Caller, agent: Namespace, data: NamespaceForkRequest) -> NamespaceForkAnswer:
    """Makes a namespace with the same content, in constant time."""
    caller.check_namespace(data.name)
    made = agent.fork(data.name, at=_chosen(agent, data.at))
    newest = made.timeline(limit=1)
    return NamespaceForkAnswer(
        namespace=made.name,
        forked_from=agent.name,
        snapshot=to_answer(made, newest[0]) if newest else None,
    )


@post("/v1/merge", guards=[runtime_only])
def merge(caller: Caller, agent: Namespace, data: MergeRequest) -> MergeAnswer:
    """Brings in what a fork of this namespace, or its origin, has changed."""
    caller.check_namespace(data.source)
    if data.prefer not in (None, "ours", "theirs"):
        raise Unfit("prefer is 'ours', 'theirs' or left out", param="prefer")
    merged = agent.merge(data.source, prefer=data.prefer)
    changes = merged.changes.first(CHANGES)
    return MergeAnswer(
        snapshot=to_answer(agent, merged.snapshot),
        changes=[to_change(change) for change in changes],
        truncated=changes.truncated,
    )


@get("/v1/snapshots/{snapshot_id:str}/files", guards=[runtime_only])
def list_then(
    agent: Namespace, snapshot_id: str, path: str = "workspace/", recursive: bool = False
) -> ListAnswer:
    """Lists a directory as it was at a snapshot."""
    then = agent.at(get_snapshot(agent, snapshot_id))
    return to_listing(then.files, path, recursive=recursive)


@get("/v1/snapshots/{snapshot_id:str}/files/content", guards=[runtime_only])
def read_then(agent: Namespace, snapshot_id: str, path: str) -> ContentAnswer:
    """Returns a file's content as it was at a snapshot."""
    then = agent.at(get_snapshot(agent, snapshot_id))
    return to_content(then.files, read_path(path))


def _chosen(agent: Namespace, snapshot_id: str | None) -> SnapshotInfo | None:
    return None if snapshot_id is None else get_snapshot(agent, snapshot_id)


def to_change(change: Change) -> ChangeAnswer:
    """Returns a change as it stands on the wire."""
    name = change.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return ChangeAnswer(
        plane=change.plane.value,
        name=name,
        change=change.change,
        old_bytes=change.old_bytes,
        new_bytes=change.new_bytes,
        is_executable_config=change.is_executable_config,
    )


ROUTES: Final[list[HTTPRouteHandler]] = [
    show,
    diff,
    text_diff,
    undo,
    redo,
    fork,
    merge,
    list_then,
    read_then,
]
