"""The timeline: look at it, compare moments, go back and forth, branch and join."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Final

from msgspec import Meta

from holdfast.engine.namespace import Namespace
from holdfast.errors import NamespaceNotFound, NotFound
from holdfast.model.basics import Plane, SnapshotInfo
from holdfast.model.changes import Change
from holdfast.model.history import Step
from holdfast.model.names import Name
from holdfast.model.paths import read_path, shown_name, shown_path
from holdfast.server.leaving import IsGone
from holdfast.server.paging import LAST_NUMBER, page_size, paged
from holdfast.server.parameters import Query
from holdfast.server.problems import Unfit
from holdfast.server.requests import Caller
from holdfast.server.routes.snapshots import (
    MOST_CHANGES,
    listed,
    to_answer,
    to_change,
    to_counts,
    to_restored,
)
from holdfast.server.routing import Route, get, post
from holdfast.server.threads import Work
from holdfast.wire.snapshots import RestoreAnswer, SnapshotAnswer
from holdfast.wire.timeline import (
    ChangesAnswer,
    ChangeTextAnswer,
    HistoryAnswer,
    MergeAnswer,
    MergeRequest,
    NamespaceForkAnswer,
    NamespaceForkRequest,
    RedoRequest,
    StatusAnswer,
    StepAnswer,
    TextDiffAnswer,
    TextDiffsAnswer,
    TimelineAnswer,
    UndoRequest,
)

LISTED, MOST_LISTED = 50, 200
CHANGES, MOST_LINES = 1000, 1_000_000
TEXTS, MOST_TEXTS = 100, 1000

Old = Annotated[str | None, Query("from"), Meta(description="A snapshot, or the last.")]
Lines = Annotated[int, Meta(ge=0, le=MOST_LINES, description="How much is shown around it.")]
New = Annotated[str | None, Query("to"), Meta(description="A snapshot, or what is now.")]


@get("/v1/timeline")
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


@get("/v1/status")
def status(agent: Namespace) -> StatusAnswer:
    """Says where the namespace stands, without listing anything."""
    held = agent.size()
    return StatusAnswer(
        namespace=agent.name,
        exists=_exists(agent),
        dirty=agent.is_dirty(),
        entries=held.entries,
        size_bytes=held.bytes,
        position=_position(agent),
    )


@get("/v1/timeline/{snapshot_id}")
def find(agent: Namespace, snapshot_id: str) -> SnapshotAnswer:
    """Returns one snapshot, by whatever means it: its id, a unique beginning, `latest`, `@-2`."""
    return to_answer(agent, agent.get_snapshot(snapshot_id))


@get("/v1/history", work=Work.COSTLY)
def history(
    agent: Namespace,
    plane: Annotated[str, Meta(description="files, store, sessions or memories.")] = "files",
    name: Annotated[
        str | None,
        Meta(description="A path, the id of a session or memory, or the store's ns/key."),
    ] = None,
    namespace: Annotated[str | None, Meta(description="In the store.")] = None,
    key: Annotated[str | None, Meta(description="In the store.")] = None,
    name_b64: Annotated[
        str | None, Meta(description="The bytes of a path that is not UTF-8.")
    ] = None,
    limit: int | None = None,
    before: Annotated[int, Meta(ge=0, le=LAST_NUMBER)] | None = None,
) -> HistoryAnswer:
    """Returns what happened to a file or directory, a value of the store, a session or memory.

    Newest first, and before that what is in no snapshot yet. `before` is the `next_before` of the
    answer before, which may be without steps and yet not the last.
    """
    found = agent.comparing.page_of_history(
        Name(plane, name, namespace, key, name_b64),
        limit=page_size(limit, usual=LISTED, most=MOST_LISTED),
        before=before,
    )
    return HistoryAnswer(
        namespace=agent.name,
        name=found.name,
        steps=[_to_step(agent, step) for step in found],
        searched_to=found.searched_to,
        next_before=found.before,
    )


@get("/v1/diff")
def diff(
    agent: Namespace,
    old: Old = None,
    new: New = None,
    plane: list[str] | None = None,
    path: list[str] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> ChangesAnswer:
    """Returns what leads from one moment to another; `plane` and `path` narrow it down.

    `cursor` is the `next_cursor` of the answer before.
    """
    first, last = _chosen(agent, old), _chosen(agent, new)
    found = agent.comparing.page(
        first,
        last,
        planes=plane,
        paths=None if path is None else [read_path(each) for each in path],
        after=None if cursor is None else _read_cursor(cursor),
        most=page_size(limit, usual=CHANGES, most=MOST_CHANGES),
    )
    return ChangesAnswer(
        namespace=agent.name,
        old=None if first is None else first.id,
        new=None if last is None else last.id,
        changes=[to_change(change) for change in found],
        truncated=found.truncated,
        next_cursor=_cursor(found.items[-1]) if found.truncated else None,
    )


@get("/v1/diff/text", work=Work.COSTLY)
def text_diff(
    agent: Namespace,
    is_gone: IsGone,
    path: str,
    old: Old = None,
    new: New = None,
    context_lines: Lines = 3,
) -> TextDiffAnswer:
    """Returns a unified diff of one file between two moments; empty if nothing differs.

    Texts that would take more than two seconds to compare get a coarse one, which says so.
    """
    bare = read_path(path)
    first, last = _chosen(agent, old), _chosen(agent, new)
    text = agent.comparing.text(bare, first, last, context_lines=context_lines, is_over=is_gone)
    return TextDiffAnswer(path=shown_path(bare), diff=shown_name(text))


@get("/v1/diff/texts", work=Work.COSTLY)
def text_diffs(
    agent: Namespace,
    is_gone: IsGone,
    old: Old = None,
    new: New = None,
    path: list[str] | None = None,
    context_lines: Lines = 3,
    limit: int | None = None,
    cursor: str | None = None,
) -> TextDiffsAnswer:
    """Returns every change between two moments with its unified diff; `path` narrows it down.

    A page ends at 1 MiB of text and after 2 seconds, too; `cursor` is the `next_cursor` of the
    answer before.
    """
    found, has_more = agent.comparing.page_of_texts(
        _chosen(agent, old),
        _chosen(agent, new),
        paths=None if path is None else [read_path(each) for each in path],
        context_lines=context_lines,
        after=None if cursor is None else _read_cursor(cursor),
        most=page_size(limit, usual=TEXTS, most=MOST_TEXTS),
        is_over=is_gone,
    )
    return TextDiffsAnswer(
        namespace=agent.name,
        diffs=[
            ChangeTextAnswer(change=to_change(change), diff=shown_name(text))
            for change, text in found
        ],
        next_cursor=_cursor(found[-1][0]) if has_more else None,
    )


@post("/v1/undo")
def undo(agent: Namespace, data: UndoRequest | None = None) -> RestoreAnswer:
    """Takes the last change back; with an operation or a task, what that one changed.

    409 `others_changed`, with nothing taken back, where others changed the same as the task since.
    """
    wanted = data or UndoRequest()
    done = agent.undo(
        _chosen(agent, wanted.operation),
        task=wanted.task,
        keep_mine=wanted.keep_mine,
        dry_run=wanted.dry_run,
        limit=listed(wanted.limit),
    )
    return to_restored(agent, done, is_part=wanted.task is not None)


@post("/v1/redo")
def redo(agent: Namespace, data: RedoRequest | None = None) -> RestoreAnswer:
    """Takes the last undo back."""
    wanted = data or RedoRequest()
    return to_restored(agent, agent.redo(limit=listed(wanted.limit)))


@post("/v1/fork", status=201)
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


@post("/v1/merge")
def merge(caller: Caller, agent: Namespace, data: MergeRequest) -> MergeAnswer:
    """Brings in what a fork of this namespace, or its origin, has changed."""
    caller.check_namespace(data.source)
    if data.prefer not in (None, "ours", "theirs"):
        raise Unfit("prefer is 'ours', 'theirs' or left out", param="prefer")
    most = page_size(data.limit, usual=CHANGES, most=MOST_CHANGES)  # Refused before it is done.
    merged = agent.merge(data.source, prefer=data.prefer)
    changes = merged.changes.first(most)
    return MergeAnswer(
        snapshot=to_answer(agent, merged.snapshot),
        changes=[to_change(change) for change in changes],
        truncated=changes.truncated,
        counts=to_counts(changes),
    )


def _exists(agent: Namespace) -> bool:
    try:
        agent.quota()
    except NamespaceNotFound:
        return False
    return True


def _position(agent: Namespace) -> str | None:
    try:
        return agent.get_snapshot("@").id
    except NotFound:
        return None


def _cursor(change: Change) -> str:
    """Returns where a list of changes goes on behind this one."""
    return f"{change.plane.value}.{urlsafe_b64encode(change.key).decode('ascii')}"


def _read_cursor(cursor: str) -> tuple[Plane, bytes]:
    plane, _, key = cursor.partition(".")
    try:
        return Plane(plane), urlsafe_b64decode(key)
    except ValueError as exc:
        raise Unfit("cursor is the next_cursor of an answer", param="cursor") from exc


def _to_step(agent: Namespace, step: Step) -> StepAnswer:
    return StepAnswer(
        change=step.change,
        snapshot=None if step.snapshot is None else to_answer(agent, step.snapshot),
        previous=step.previous,
        gone=step.gone,
        old_bytes=step.old_bytes,
        new_bytes=step.new_bytes,
        entries=step.entries,
    )


def _chosen(agent: Namespace, snapshot_id: str | None) -> SnapshotInfo | None:
    return None if snapshot_id is None else agent.get_snapshot(snapshot_id)


ROUTES: Final[list[Route]] = [
    show,
    status,
    find,
    history,
    diff,
    text_diff,
    text_diffs,
    undo,
    redo,
    fork,
    merge,
]
