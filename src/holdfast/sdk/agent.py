"""One namespace on a server: the names of `holdfast.Namespace`, once for both clients."""

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, Literal

from holdfast.model.basics import Plane, Size, SnapshotInfo, SnapshotLike, Timeline
from holdfast.model.changes import Change, Changes, MergeResult, Restored
from holdfast.model.entities import Totals
from holdfast.model.health import Health, Thresholds
from holdfast.model.history import History
from holdfast.model.names import Name, PathOrName, to_name
from holdfast.model.paths import PathLike, sent_path
from holdfast.operations.keys import GetMe
from holdfast.progress import Progress, no_progress
from holdfast.sdk.calls import (
    Call,
    Download,
    F,
    Group,
    Page,
    Pages,
    Query,
    Sender,
    Steps,
    asked,
    call,
    download,
    flow,
    method,
)
from holdfast.sdk.content import Content, Target
from holdfast.sdk.groups.activity import Schedules, TaskRuns, Traces
from holdfast.sdk.groups.events import Events
from holdfast.sdk.groups.files import Files, FilesReader
from holdfast.sdk.groups.memory import Entities, Memories
from holdfast.sdk.groups.sessions import Sessions, SessionsReader
from holdfast.sdk.groups.store import Store, StoreReader
from holdfast.sdk.groups.timeline import (
    MOST_CHANGES,
    SHOWN,
    Snapshots,
    delete_steps,
    diff_steps,
    find_call,
    history_steps,
    label_steps,
    listed,
    pin_steps,
    read_restored,
    restore_snapshot_steps,
    restore_steps,
    sent_paths,
    snapshot_call,
    snapshot_pages,
    timeline_pages,
)
from holdfast.sdk.reading import (
    as_it_is,
    id_or_none,
    nothing,
    reads,
    to_change,
    to_changes,
    to_health,
    to_merged,
    whole,
)
from holdfast.sdk.values import Imported, read_imported, read_totals
from holdfast.wire.audit import RollbackRateAnswer
from holdfast.wire.timeline import (
    MergeAnswer,
    MergeRequest,
    NamespaceForkRequest,
    RedoRequest,
    StatusAnswer,
    TextDiffAnswer,
    TextDiffsAnswer,
    UndoRequest,
)

DAY: Final = timedelta(hours=24)
MOST_TEXTS: Final = 1000
"""Diffs that a server tells at once; it ends a page earlier where they become long."""

_status = as_it_is(StatusAnswer)


class Moment(Group[F]):
    """A namespace as one snapshot shows it, to read."""

    def __init__(self, sender: Sender, snapshot_id: str) -> None:
        super().__init__(sender)
        self._snapshot_id = snapshot_id
        self.files: FilesReader[F] = FilesReader(sender, at=snapshot_id)
        self.store: StoreReader[F] = StoreReader(sender, at=snapshot_id)
        self.sessions: SessionsReader[F] = SessionsReader(sender, at=snapshot_id)

    def __repr__(self) -> str:
        return f"<Moment of {self.sender.line.namespace!r} at {self._snapshot_id}>"

    @asked
    def snapshot(self) -> Steps[SnapshotInfo]:
        """The snapshot; over an `AsyncClient` it is awaited."""
        return (yield find_call(self._snapshot_id))


class Agent(Group[F]):
    """One agent's world, on a server."""

    def __init__(self, sender: Sender) -> None:
        super().__init__(sender)
        self.files: Files[F] = Files(sender)
        self.store: Store[F] = Store(sender)
        self.sessions: Sessions[F] = Sessions(sender)
        self.memory: Memories[F] = Memories(sender)
        self.entities: Entities[F] = Entities(sender)
        self.traces: Traces[F] = Traces(sender)
        self.tasks: TaskRuns[F] = TaskRuns(sender)
        self.schedules: Schedules[F] = Schedules(sender)
        self.snapshots: Snapshots[F] = Snapshots(sender)
        self.events: Events[F] = Events(sender, namespace=sender.line.namespace)

    @property
    def name(self) -> str | None:
        """What the namespace is called; None where the key says it."""
        return self.sender.line.namespace

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sender.line.url!r}, namespace={self.name!r})"

    # Snapshots

    @call
    def snapshot(
        self,
        label: str | None = None,
        *,
        reason: str | None = None,
        task_id: str | None = None,
        trace_id: str | None = None,
        pin: bool = False,
        expires_in: timedelta | None = None,
        expected: SnapshotLike | None = None,
    ) -> Call[SnapshotInfo]:
        """Captures everything as it is now, in one atomic step.

        With `expected`, only if the head still shows that snapshot; else raises `HeadMoved`.
        """
        return snapshot_call(
            label,
            reason=reason,
            pin=pin,
            expires_in=expires_in,
            expected=expected,
            task_id=task_id,
            trace_id=trace_id,
        )

    @flow
    def find_held(self) -> Steps[SnapshotInfo | None]:
        """Returns the snapshot that holds everything as it is now, or None if none does."""
        status: StatusAnswer = yield _status_call()
        if status.dirty or status.position is None:
            return None
        return (yield find_call(status.position))

    @flow
    def timeline(self, *, limit: int | None = None, before: int | None = None) -> Steps[Timeline]:
        """Returns the snapshots, newest first; `before` continues below a `number`."""
        return Timeline((yield from timeline_pages(limit, before).collect()))

    @flow
    def history(
        self, name: PathOrName, *, limit: int | None = None, before: int | None = None
    ) -> Steps[History]:
        """Returns what happened to one thing, newest first: a path, or what a `Name` names.

        It begins with what is in no snapshot yet; `before` continues below a `number`.
        """
        return (yield from history_steps(to_name(name), limit=limit, before=before))

    @call
    def get_snapshot(self, snapshot: SnapshotLike) -> Call[SnapshotInfo]:
        """Returns one snapshot as it is on the timeline now."""
        return find_call(snapshot)

    def at(self, snapshot: SnapshotLike) -> Moment[F]:
        """Returns the namespace as a snapshot shows it, to read."""
        return Moment[F](self.sender, id_or_none(snapshot) or "")

    @flow
    def is_dirty(self) -> Steps[bool]:
        """Says whether there are changes that no snapshot holds yet."""
        status: StatusAnswer = yield _status_call()
        return status.dirty

    @flow
    def size(self) -> Steps[Size]:
        """Returns how much the head holds: entries over all planes, and their bytes."""
        status: StatusAnswer = yield _status_call()
        return Size(status.entries, status.size_bytes)

    # Going back, and forth

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

        Of all that, nothing that is in `except_`. What is there now is kept as a snapshot first.
        `dry_run` says what would change and changes nothing. At most `limit` changes are listed,
        with None as many as a server lists.
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

    @call
    def undo(
        self,
        operation: SnapshotLike | None = None,
        *,
        task: str | None = None,
        keep_mine: bool = False,
        dry_run: bool = False,
        limit: int | None = SHOWN,
    ) -> Call[Restored]:
        """Takes the last change back; with an operation or a task, what that one changed.

        Where others changed the same as a task since, raises `OthersChanged`, with nothing taken
        back; with `keep_mine`, that stays and the rest goes back. `dry_run` says what taking a
        task back would change, and changes nothing.
        """
        body = UndoRequest(
            operation=id_or_none(operation),
            task=task,
            keep_mine=keep_mine,
            dry_run=dry_run,
            limit=listed(limit),
        )
        return Call(method="POST", path="/v1/undo", body=body, read=read_restored)

    @call
    def redo(self, *, limit: int | None = SHOWN) -> Call[Restored]:
        """Takes the last undo back."""
        body = RedoRequest(limit=listed(limit))
        return Call(method="POST", path="/v1/redo", body=body, read=read_restored)

    # Comparing

    @flow
    def diff(
        self,
        old: SnapshotLike | None = None,
        new: SnapshotLike | None = None,
        *,
        planes: Sequence[Plane | str] | None = None,
        paths: Sequence[PathLike] | None = None,
        limit: int | None = None,
    ) -> Steps[Changes]:
        """Returns what leads from one snapshot to another.

        Without `new`, to what is there now; without `old`, from the snapshot that the head
        stands on. With `paths`, only files that match one of them.
        """
        answers, more = yield from diff_steps(
            id_or_none(old), id_or_none(new), planes=planes, paths=paths, limit=limit
        )
        return to_changes(answers, truncated=more).first(limit)

    @call
    def text_diff(
        self,
        path: PathLike,
        old: SnapshotLike | None = None,
        new: SnapshotLike | None = None,
        *,
        context_lines: int = 3,
    ) -> Call[str]:
        """Returns a unified diff of one file between two moments; empty if nothing differs."""
        return _text_diff(path, id_or_none(old), id_or_none(new), context_lines)

    @flow
    def text_diffs(
        self,
        old: SnapshotLike | None = None,
        new: SnapshotLike | None = None,
        *,
        paths: Sequence[PathLike] | None = None,
        context_lines: int = 3,
    ) -> Steps[list[tuple[Change, str]]]:
        """Returns every change between two moments with its unified diff."""
        first, last = id_or_none(old), id_or_none(new)
        return (yield from _text_diffs(first, last, paths, context_lines).collect())

    # Branching

    @call
    def merge(
        self, other: "Agent[F] | str", *, prefer: Literal["ours", "theirs"] | None = None
    ) -> Call[MergeResult]:
        """Brings in what a fork of this namespace (or its origin) has changed.

        Raises `MergeConflict`, with nothing applied, where both changed the same thing; with
        `prefer`, that side wins.
        """
        source = other if isinstance(other, str) else other.sender.line.namespace or ""
        body = MergeRequest(source=source, prefer=prefer, limit=MOST_CHANGES)
        return Call(method="POST", path="/v1/merge", body=body, read=reads(MergeAnswer, to_merged))

    # Keeping and forgetting

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

    @flow
    def delete_snapshot(self, snapshot: SnapshotLike) -> Steps[None]:
        """Takes a snapshot off the timeline; an admin can bring it back for a while."""
        yield from delete_steps(snapshot)

    # By the names of other clients

    @call
    def create_snapshot(self, label: str | None = None) -> Call[SnapshotInfo]:
        """Captures everything as it is now, as `snapshot` does."""
        return snapshot_call(label)

    @flow
    def list_snapshots(self) -> Steps[list[SnapshotInfo]]:
        """Returns the snapshots that were taken on purpose, newest first."""
        return (yield from snapshot_pages(None, None).collect())

    @flow
    def restore_snapshot(self, snapshot: SnapshotLike) -> Steps[int]:
        """Brings a whole snapshot back, as `restore` does; returns how many files it has."""
        return (yield from restore_snapshot_steps(snapshot))

    # Looking after

    @call
    def health(
        self,
        *,
        window: timedelta = DAY,
        agent_id: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> Call[Health]:
        """Returns how often sessions were rolled back lately, and which turn in circles."""
        query, read = (
            health_query(window, agent_id, thresholds),
            reads(RollbackRateAnswer, to_health),
        )
        return Call(method="GET", path="/v1/rollbacks", query=query, read=read)

    @call
    def totals(self) -> Call[Totals]:
        """Returns how many sessions, turns, memories and entities there are."""
        return Call(method="GET", path="/v1/dashboard/stats", read=read_totals)

    me = method(GetMe)

    # Moving

    @download
    def export(
        self,
        target: Target,
        *,
        snapshot: SnapshotLike | None = None,
        progress: Progress = no_progress,
    ) -> Download[int]:
        """Writes a snapshot, or what is there now, to a tar file; returns its bytes."""
        query = {"snapshot": id_or_none(snapshot)}
        ask = Call(method="GET", path="/v1/export", query=query, read=whole, is_slow=True)
        return Download(ask, target, lambda size: size, progress)

    @call
    def import_(
        self, source: str | os.PathLike[str], *, progress: Progress = no_progress
    ) -> Call[Imported]:
        """Replaces the content by that of an exported tar file, which is not trusted.

        What is there now is kept as a snapshot first; `undo` brings it back.
        """
        from pathlib import Path  # noqa: PLC0415 - few clients move archives

        content = Content(Path(source).expanduser(), progress=progress)
        headers = {"Content-Type": "application/x-tar"}
        return Call(
            method="POST",
            path="/v1/import",
            content=content,
            headers=headers,
            read=read_imported,
            is_slow=True,
        )


def health_query(
    window: timedelta, agent_id: str | None, thresholds: Thresholds | None
) -> dict[str, str | float | None]:
    """Returns what a server is asked about health."""
    asked: dict[str, str | float | None] = {
        "window_seconds": int(window.total_seconds()),
        "agent_id": agent_id,
    }
    if thresholds is not None:
        asked["elevated"], asked["warning"] = thresholds.elevated, thresholds.warning
        asked["critical"], asked["loop"] = thresholds.critical, thresholds.loop
    return asked


def fork_call(name: str, at: SnapshotLike | None) -> Call[None]:
    """Describes making a namespace with the same content."""
    body = NamespaceForkRequest(name=name, at=id_or_none(at))
    return Call(method="POST", path="/v1/fork", body=body, read=nothing)


def _text_diff(path: PathLike, old: str | None, new: str | None, context_lines: int) -> Call[str]:
    query = {"path": sent_path(path), "from": old, "to": new, "context_lines": context_lines}
    read = reads(TextDiffAnswer, lambda answer: answer.diff)
    return Call(method="GET", path="/v1/diff/text", query=query, read=read)


def _text_diffs(
    old: str | None, new: str | None, paths: Sequence[PathLike] | None, context_lines: int
) -> Pages[tuple[Change, str]]:
    def read(answer: TextDiffsAnswer) -> Page[tuple[Change, str]]:
        found = [(to_change(each.change), each.diff) for each in answer.diffs]
        return Page(found, answer.next_cursor)

    def ask(cursor: str | None, most: int) -> Call[Page[tuple[Change, str]]]:
        query: Query = {
            "from": old,
            "to": new,
            "path": sent_paths(paths),
            "context_lines": context_lines,
            "limit": most,
            "cursor": cursor,
        }
        read_page = reads(TextDiffsAnswer, read)
        return Call(method="GET", path="/v1/diff/texts", query=query, read=read_page, is_slow=True)

    return Pages(MOST_TEXTS, ask)


def _status_call() -> Call[StatusAnswer]:
    return Call(method="GET", path="/v1/status", read=_status)
