"""One namespace on a server: the names of `holdfast.Namespace`, once for both clients."""

import os
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.model.archives import Imported, ImportedFiles
from holdfast.model.basics import Size, SnapshotInfo, SnapshotLike, Standing, Timeline, id_of
from holdfast.model.changes import Change, Changes, History, MergeResult, TextsPage
from holdfast.model.commands import Executed
from holdfast.operations.audit import GetHealth, GetRollbackSeries, GetTotals
from holdfast.operations.checks import checked
from holdfast.operations.choices import MOST_CHANGES
from holdfast.operations.commands import RunCommand
from holdfast.operations.forms import form_of
from holdfast.operations.keys import GetMe
from holdfast.operations.operation import takes
from holdfast.operations.snapshots import (
    DeleteSnapshot,
    GetSnapshot,
    LabelSnapshot,
    ListSnapshots,
    PinSnapshot,
    RestoreSnapshot,
    TakeSnapshot,
    UnpinSnapshot,
)
from holdfast.operations.timeline import (
    TEXTS,
    CountFolders,
    Diff,
    GetStatus,
    GetTextDiff,
    GetTextDiffs,
    Historic,
    ListTimeline,
    Merge,
    MergeNamespace,
    RedoChange,
    TextDiffs,
    UndoChange,
)
from holdfast.progress import Progress, no_progress
from holdfast.sdk.calls import (
    Call,
    Download,
    F,
    Group,
    Page,
    Pages,
    Sender,
    Steps,
    asked,
    asking,
    call,
    download,
    flow,
    method,
)
from holdfast.sdk.content import Content, Packed, Target
from holdfast.sdk.groups.activity import GitBackups, Schedules, TaskRuns, Traces
from holdfast.sdk.groups.commands import running
from holdfast.sdk.groups.events import Events
from holdfast.sdk.groups.files import Files, FilesReader
from holdfast.sdk.groups.sessions import (
    Entities,
    Memories,
    MemoriesReader,
    Sessions,
    SessionsReader,
)
from holdfast.sdk.groups.store import Store, StoreReader
from holdfast.sdk.groups.timeline import (
    Snapshots,
    diff_steps,
    history_steps,
    of_snapshot,
    snapshot_or_none,
    snapshots_steps,
    timeline_steps,
    with_whole_id,
)
from holdfast.sdk.reading import (
    id_or_none,
    reads,
    value_of,
    whole,
)

T = TypeVar("T")


class _Counted(msgspec.Struct):
    files_restored: int


_files_restored = reads(_Counted, lambda answer: answer.files_restored)


class Moment(Group[F]):
    """A namespace as one snapshot shows it, to read."""

    def __init__(self, sender: Sender, snapshot_id: str) -> None:
        super().__init__(sender)
        self._snapshot_id = snapshot_id
        self.files: FilesReader[F] = FilesReader(sender, at=snapshot_id)
        self.store: StoreReader[F] = StoreReader(sender, at=snapshot_id)
        self.sessions: SessionsReader[F] = SessionsReader(sender, at=snapshot_id)
        self.memory: MemoriesReader[F] = MemoriesReader(sender, at=snapshot_id)

    def __repr__(self) -> str:
        return f"<Moment of {self.sender.line.namespace!r} at {self._snapshot_id}>"

    @asked
    def snapshot(self) -> Steps[SnapshotInfo]:
        """The snapshot; over an `AsyncClient` it is awaited."""
        return (yield asking(GetSnapshot(self._snapshot_id)))


@checked
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
        self.git: GitBackups[F] = GitBackups(sender)
        self.snapshots: Snapshots[F] = Snapshots(sender)
        self.events: Events[F] = Events(sender, namespace=sender.line.namespace)

    @property
    def name(self) -> str | None:
        """What the namespace is called; None where the key says it."""
        return self.sender.line.namespace

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sender.line.url!r}, namespace={self.name!r})"

    # Snapshots

    snapshot = method(TakeSnapshot)
    get_snapshot = method(GetSnapshot)
    status = method(GetStatus)

    @download
    @takes(RunCommand)
    def exec(self, wanted: RunCommand) -> Download[Executed]:
        """Runs a command of bash in the server's sandbox, where the files are; keeps what it left.

        `output` is told what it says, while it runs. With a `task`, before and after are
        snapshots; with `rollback_on_failure`, what a command that fails did is taken back.
        """
        return running(wanted)

    @flow
    def find_current(self) -> Steps[SnapshotInfo | None]:
        """Returns the snapshot that holds everything as it is now, or None if none does."""
        status: Standing = yield asking(GetStatus())
        return (yield from snapshot_or_none(None if status.dirty else status.position))

    @flow
    @takes(ListTimeline)
    def timeline(self, wanted: ListTimeline) -> Steps[Timeline]:
        """Returns the snapshots, newest first; `before` continues below a `number`.

        All of them, or those with this `label`, `task_id`, `trace_id` or `metadata`, every word of
        `q`, the `kind` and so on. `with_` tells more of each: `changes`, `task`, `actor`.
        """
        return (yield from timeline_steps(wanted))

    @flow
    @takes(Historic)
    def history(self, wanted: Historic) -> Steps[History]:
        """Returns what happened to one thing, newest first: a path, or what a `Name` names.

        It begins with what is in no snapshot yet; `before` continues below a `number`.
        """
        return (yield from history_steps(wanted))

    def at(self, snapshot: SnapshotLike) -> Moment[F]:
        """Returns the namespace as a snapshot shows it, to read."""
        return Moment[F](self.sender, id_of(snapshot))

    @flow
    def is_dirty(self) -> Steps[bool]:
        """Says whether anything was written since the snapshot that the head stands on.

        Nothing is compared: what was taken back by hand counts, too, and `diff` says what differs.
        """
        status: Standing = yield asking(GetStatus())
        return status.dirty

    @flow
    def size(self) -> Steps[Size]:
        """Returns how much the head holds: entries over all planes, and their bytes."""
        status: Standing = yield asking(GetStatus())
        return status.size

    # Going back, and forth

    restore = of_snapshot(RestoreSnapshot)
    undo = method(UndoChange)
    redo = method(RedoChange)

    # Comparing

    @flow
    @takes(Diff)
    def diff(self, wanted: Diff) -> Steps[Changes]:
        """Returns what leads from one snapshot to another.

        Without `new`, to what is there now; without `old`, from the snapshot that the head
        stands on. With `paths`, only files that match one of them. What is behind the `limit` is
        counted if `counts` says so.
        """
        return (yield from diff_steps(wanted))

    diff_folders = method(CountFolders)

    text_diff = method(GetTextDiff)

    @flow
    @takes(TextDiffs)
    def text_diffs(self, wanted: TextDiffs) -> Steps[list[tuple[Change, str]]]:
        """Returns every change between two moments with its unified diff."""
        return (yield from _text_diffs(wanted).collect())

    # Branching

    @call
    @takes(Merge)
    def merge(self, wanted: Merge) -> Call[MergeResult]:
        """Brings in what a fork of this namespace (or its origin) has changed.

        Raises `MergeConflict`, with nothing applied, where both changed the same thing; with
        `prefer`, that side wins.
        """
        return asking(MergeNamespace(**vars(wanted), limit=MOST_CHANGES))

    # Keeping and forgetting

    pin = of_snapshot(PinSnapshot)
    unpin = of_snapshot(UnpinSnapshot)
    set_label = of_snapshot(LabelSnapshot)
    delete_snapshot = of_snapshot(DeleteSnapshot)

    # By the names of other clients

    @call
    def create_snapshot(self, label: str | None = None) -> Call[SnapshotInfo]:
        """Captures everything as it is now, as `snapshot` does."""
        return asking(TakeSnapshot(label))

    @flow
    @takes(ListSnapshots)
    def list_snapshots(self, wanted: ListSnapshots) -> Steps[Timeline]:
        """Returns the snapshots that were taken on purpose, or `all`, newest first."""
        return (yield from snapshots_steps(wanted))

    @flow
    def restore_snapshot(self, snapshot: SnapshotLike) -> Steps[int]:
        """Brings a whole snapshot back, as `restore` does; returns how many files it has."""
        asked = yield from with_whole_id(RestoreSnapshot(snapshot, limit=0))
        return (yield replace(asking(asked), read=_files_restored))

    # Looking after

    health = method(GetHealth)
    rollback_series = method(GetRollbackSeries)
    totals = method(GetTotals)
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
        return _export(target, progress, snapshot=id_or_none(snapshot))

    @download
    def export_files(
        self,
        target: Target,
        *,
        snapshot: SnapshotLike | None = None,
        progress: Progress = no_progress,
    ) -> Download[int]:
        """Writes the files alone, under their own names, to a plain tar file; returns its bytes."""
        return _export(target, progress, snapshot=id_or_none(snapshot), files=True)

    @call
    def import_(
        self, source: str | os.PathLike[str], *, progress: Progress = no_progress
    ) -> Call[Imported]:
        """Replaces the content by that of an exported tar file, which is not trusted.

        What is there now is kept as a snapshot first; `undo` brings it back.
        """
        from pathlib import Path  # noqa: PLC0415 - few clients move archives

        return _import(Content(Path(source).expanduser(), progress=progress), Imported)

    @call
    def import_files(
        self, source: str | os.PathLike[str], *, progress: Progress = no_progress
    ) -> Call[ImportedFiles]:
        """Makes the files exactly those of a plain tar file, which is not trusted, or of a folder.

        All else stays. What is there now is kept as a snapshot first; `undo` brings it back.
        """
        from pathlib import Path  # noqa: PLC0415 - few clients move archives

        path = Path(source).expanduser()
        # Not asked of the path: of a name that is too long, this says no.
        kind = Packed if os.path.isdir(path) else Content  # noqa: PTH112 - see above
        return _import(kind(path, progress=progress), ImportedFiles, files=True)


def _export(
    target: Target, progress: Progress, *, snapshot: str | None, files: bool | None = None
) -> Download[int]:
    query = {"snapshot": snapshot, "files": files}
    ask = Call(method="GET", path="/v1/export", query=query, read=whole, is_slow=True)
    return Download(ask, target, lambda size: size, progress, begins_again=True)


def _import(content: Content, answer: type[T], *, files: bool | None = None) -> Call[T]:
    return Call(
        method="POST",
        path="/v1/import",
        query={"files": files},
        content=content,
        headers={"Content-Type": "application/x-tar"},
        read=value_of(answer),
        is_slow=True,
    )


def _text_diffs(wanted: TextDiffs) -> Pages[tuple[Change, str]]:
    form = form_of(GetTextDiffs)

    def read(body: bytes) -> Page[tuple[Change, str]]:
        page: TextsPage = form.read_answer(body)
        return Page([(each.change, each.diff) for each in page.diffs], page.next_cursor)

    def ask(cursor: str | None, most: int) -> Call[Page[tuple[Change, str]]]:
        told: Any = asking(GetTextDiffs(**vars(wanted), limit=most, cursor=cursor))
        return replace(told, read=read)

    return Pages(TEXTS.most, ask)
