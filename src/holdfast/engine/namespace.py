"""One agent's world, as its user holds it: files, store, and a timeline over both.

A thin face: each method is one use case, in the module of its name.
"""

from collections.abc import Callable
from functools import cached_property
from os import PathLike as OsPathLike
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, overload

from holdfast.engine.audit import health
from holdfast.engine.audit.health import NOTHING, total_of
from holdfast.engine.audit.series import count_series
from holdfast.engine.audit.traces import Traces
from holdfast.engine.files.browsing import count_files
from holdfast.engine.files.editing import Files
from holdfast.engine.files.opening import opened_at, opened_head
from holdfast.engine.files.reader import FilesReader
from holdfast.engine.gitbackup.door import GitBackups
from holdfast.engine.memories import Memories
from holdfast.engine.memory.plane import looking
from holdfast.engine.memory.reader import MemoriesReader
from holdfast.engine.planes.handle import Handle, check_namespace
from holdfast.engine.sessions.door import Sessions
from holdfast.engine.sessions.entities import Entities
from holdfast.engine.sessions.reader import SessionsReader
from holdfast.engine.store.plane import Store
from holdfast.engine.store.reader import StoreReader
from holdfast.engine.tasks.commanding import execute
from holdfast.engine.tasks.contexts import Tasks
from holdfast.engine.tasks.runs import TaskRuns
from holdfast.engine.tasks.schedules import Schedules
from holdfast.engine.timeline import (
    history,
    listing,
    merge,
    restore,
    retention,
    room,
    snapshots,
    takeback,
    undo,
)
from holdfast.engine.timeline.comparison import Comparing
from holdfast.engine.timeline.diff import collect_changes, text_diff
from holdfast.engine.timeline.fork import fork
from holdfast.engine.timeline.selection import select
from holdfast.engine.timeline.takeback_many import take_back_since
from holdfast.fetching import fetched
from holdfast.ids import NamespaceId, SnapshotId
from holdfast.model.archives import Imported, ImportedFiles
from holdfast.model.basics import Plane, Size, SnapshotInfo, SnapshotLike, Standing, Timeline
from holdfast.model.changes import Change, Changes, History, MergeResult, Restored
from holdfast.model.commands import Executed
from holdfast.model.entities import Totals
from holdfast.model.names import to_name
from holdfast.model.overviews import RollbackSeries
from holdfast.model.timelines import FolderCounts
from holdfast.model.traces import Health
from holdfast.model.upkeep import Policy
from holdfast.operations.audit import GetHealth, GetRollbackSeries, GetTotals
from holdfast.operations.checks import checked
from holdfast.operations.commands import RunCommand
from holdfast.operations.namespaces import Forget, Keep, QuotaBytes
from holdfast.operations.operation import does, takes
from holdfast.operations.snapshots import (
    DeleteSnapshot,
    GetSnapshot,
    LabelSnapshot,
    ListSnapshots,
    Note,
    PinSnapshot,
    RestoreSnapshot,
    TakeSnapshot,
    UnpinSnapshot,
)
from holdfast.operations.timeline import (
    CountFolders,
    Diff,
    ForkNamespace,
    GetStatus,
    GetTextDiff,
    Historic,
    ListTimeline,
    Merge,
    RedoChange,
    TextDiffs,
    UndoChange,
    called,
)
from holdfast.progress import Progress, no_progress
from holdfast.running import checkpointed

F = TypeVar("F", bound=Callable[..., Any])


class Moment:
    """A namespace as one snapshot shows it, to read."""

    def __init__(self, handle: Handle, snapshot: SnapshotInfo) -> None:
        self.snapshot = snapshot
        self._handle = handle
        self.files = FilesReader(opened_at(handle, snapshot, Plane.FILES))
        self.store = StoreReader(opened_at(handle, snapshot, Plane.STORE))
        self.sessions = SessionsReader(handle, snapshot)
        self.memory = MemoriesReader(handle, snapshot)

    def __repr__(self) -> str:
        return f"<Moment of {self._handle.name!r} at {self.snapshot.id}>"


@checked
class Namespace:
    """One agent's world. It begins to exist with its first write or snapshot."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.comparing = Comparing(handle)

    # Made when they are first used: a request uses one of them.
    files = cached_property(
        lambda self: Files(self._handle, opened_head(self._handle, Plane.FILES))
    )
    sessions = cached_property(lambda self: Sessions(self._handle))
    memory = cached_property(lambda self: Memories(self._handle))
    entities = cached_property(lambda self: Entities(self._handle))
    store = cached_property(lambda self: Store(self._handle))
    traces = cached_property(
        lambda self: Traces(self._handle.context, self._handle.tenant_id, self._handle)
    )
    tasks = cached_property(lambda self: TaskRuns(self._handle))
    schedules = cached_property(lambda self: Schedules(self._handle))
    git = cached_property(lambda self: GitBackups(self._handle))

    @property
    def name(self) -> str:
        """What it is called."""
        return self._handle.name

    def __repr__(self) -> str:
        return f"Namespace({self.name!r})"

    def acting_as(self, actor: str) -> "Namespace":
        """Returns the same namespace, whose changes are told as made by somebody else."""
        return Namespace(self._handle.acting_as(actor))

    # Snapshots

    @does(TakeSnapshot)
    def snapshot(self, wanted: TakeSnapshot) -> SnapshotInfo:
        return snapshots.taken(self._handle, wanted)

    def task(self, name: str, *, rollback_on_failure: bool = False) -> Tasks:
        """Returns a task: a context, plain or asynchronous, or a decorator of functions.

        When it ends, well or not, a snapshot is taken. With `rollback_on_failure`, an exception
        takes back what it changed.
        """
        goes_back, ids = rollback_on_failure, self._handle.context.ids
        return Tasks(self, name, ids=ids, rollback_on_failure=goes_back, handle=self._handle)

    @overload
    def checkpointed(self, function: F, /) -> F: ...
    @overload
    def checkpointed(
        self, name: str | None = None, /, *, rollback_on_failure: bool = False
    ) -> Callable[[F], F]: ...
    def checkpointed(
        self, given: Callable[..., Any] | str | None = None, /, *, rollback_on_failure: bool = False
    ) -> Any:
        """Makes every call of a function a task, called like the function if nothing else."""
        goes_back = rollback_on_failure
        return checkpointed(given, lambda name: self.task(name, rollback_on_failure=goes_back))

    @takes(RunCommand)
    def exec(self, wanted: RunCommand) -> Executed:
        """Runs a command of bash in the sandbox, where the files are; what it leaves is kept.

        `output` is told what it says, while it runs. With a `task`, before and after are
        snapshots; with `rollback_on_failure`, what a command that fails did is taken back.
        """
        return execute(self._handle, wanted, wanted.output)

    def find_current(self) -> SnapshotInfo | None:
        """Returns the snapshot that holds everything as it is now, or None if none does.

        None also for one whose term is over: it stays only while the namespace stands on it.
        """
        return snapshots.find_current(self._handle)

    @takes(ListTimeline)
    def timeline(self, wanted: ListTimeline) -> Timeline:
        """Returns the snapshots, newest first; `before` continues below a `number`.

        All of them, or those with this `label`, `task_id`, `trace_id` or `metadata`, every word of
        `q`, the `kind` and so on. `with_` tells more of each: `changes`, `task`, `actor`.
        """
        return listing.timeline(self._handle, wanted)

    @takes(Historic)
    def history(self, wanted: Historic) -> History:
        """Returns what happened to one thing, newest first: a path, or what a `Name` names.

        It begins with what is in no snapshot yet; `before` continues below a `number`.
        """
        return history.history(
            self._handle, to_name(wanted.name), limit=wanted.limit, before=wanted.before
        )

    @does(GetSnapshot)
    def get_snapshot(self, wanted: GetSnapshot) -> SnapshotInfo:
        return snapshots.resolve(self._handle, wanted.snapshot)

    def at(self, snapshot: SnapshotLike) -> Moment:
        """Returns the namespace as a snapshot shows it, to read."""
        return Moment(self._handle, self.get_snapshot(snapshot))

    @does(GetStatus)
    def status(self, _wanted: GetStatus) -> Standing:
        return snapshots.standing(self._handle)

    def is_dirty(self) -> bool:
        """Says whether anything was written since the snapshot at `@`, be it taken back by hand."""
        with self._handle.context.catalog.read() as transaction:
            head = self._handle.find_head(transaction)
            return head is not None and transaction.count_pending(head.namespace_id) > 0

    def size(self) -> Size:
        """Returns how much the head holds: entries over all planes, and their bytes."""
        with self._handle.context.catalog.read() as transaction:
            return self._handle.head_or_empty(transaction).size

    # Going back, and forth

    @does(RestoreSnapshot)
    def restore(self, wanted: RestoreSnapshot) -> Restored:
        expected = snapshots.to_expected(self._handle, wanted.expected, wanted.expected_root)
        if wanted.keep is not None:
            return take_back_since(
                self._handle,
                self.get_snapshot(wanted.snapshot),
                dry_run=wanted.dry_run,
                limit=wanted.limit,
                note=Note(reason=wanted.reason),
                expected=expected,
            )
        return restore.restore(
            self._handle,
            snapshots.to_target(self._handle, wanted.snapshot),
            selection=select(
                planes=wanted.planes,
                paths=wanted.paths,
                names=wanted.names,
                except_=wanted.except_,
            ),
            dry_run=wanted.dry_run,
            limit=wanted.limit,
            note=Note(reason=wanted.reason),
            expected=expected,
        )

    @does(UndoChange)
    def undo(self, wanted: UndoChange) -> Restored:
        takeback.check_choice(wanted, dry_run=wanted.dry_run and wanted.operation is not None)
        handle, limit = self._handle, wanted.limit
        expected = snapshots.to_expected(handle, wanted.expected, wanted.expected_root)
        if wanted.task is not None:
            return takeback.take_back(
                handle,
                wanted.task,
                keep_mine=wanted.keep_mine,
                dry_run=wanted.dry_run,
                limit=limit,
                expected=expected,
            )
        if wanted.operation is None:
            return undo.undo(handle, dry_run=wanted.dry_run, limit=limit, expected=expected)
        chosen = self.get_snapshot(wanted.operation)
        return undo.revert(handle, chosen, limit=limit, expected=expected)

    @does(RedoChange)
    def redo(self, wanted: RedoChange) -> Restored:
        return undo.redo(self._handle, limit=wanted.limit)

    def checkout(
        self,
        target: str | OsPathLike[str],
        *,
        at: SnapshotLike | None = None,
        progress: Progress = no_progress,
    ) -> Restored:
        """Puts all files, or a snapshot's, into a new or empty directory; attaches nothing."""
        from holdfast.engine.archives.checkout import checkout  # noqa: PLC0415 - as archives do

        chosen = None if at is None else self.get_snapshot(at)
        return checkout(self._handle, chosen, Path(target).expanduser(), progress=progress)

    # Comparing

    @takes(Diff)
    @fetched
    def diff(self, wanted: Diff) -> Changes:
        """Returns what leads from one snapshot to another.

        Without `new`, to what is there now; without `old`, from the snapshot that the head
        stands on. With `paths`, only files that match one of them. What is behind the `limit` is
        counted if `counts` says so.
        """
        with self.comparing.changes(wanted, planes=wanted.planes) as (_, found):
            return collect_changes(found, limit=wanted.limit, counts=wanted.counts)

    @does(CountFolders)
    def diff_folders(self, wanted: CountFolders) -> FolderCounts:
        return self.comparing.folders(wanted)

    @takes(GetTextDiff)
    def text_diff(self, wanted: GetTextDiff) -> str:
        """Returns a unified diff of one file between two moments; empty if nothing differs."""
        return self.comparing.text(wanted)

    @takes(TextDiffs)
    def text_diffs(self, wanted: TextDiffs) -> list[tuple[Change, str]]:
        """Returns every change between two moments with its unified diff."""
        lines = wanted.context_lines
        with self.comparing.changes(wanted) as (source, found):
            return [(each, text_diff(source, each, context_lines=lines)) for each in found]

    # Branching

    @takes(ForkNamespace)
    def fork(self, wanted: ForkNamespace) -> "Namespace":
        """Makes a new namespace with the same content, as it is now or was at a snapshot."""
        new = self._sibling(wanted.name)
        snapshot = None if wanted.at is None else self.get_snapshot(wanted.at)
        fork(self._handle, new, at=snapshot)
        return Namespace(new)

    @takes(Merge)
    def merge(self, wanted: Merge) -> MergeResult:
        """Brings in what a fork of this namespace (or its origin) has changed.

        Raises `MergeConflict` where both changed the same thing; with `prefer`, that side wins.
        """
        other = self._sibling(called(wanted.other))
        return merge.merge_from(self._handle, other, prefer=wanted.prefer)

    # Keeping and forgetting

    @does(PinSnapshot)
    def pin(self, wanted: PinSnapshot) -> SnapshotInfo:
        return snapshots.pin(self._handle, self.get_snapshot(wanted.snapshot).id, pinned=True)

    @does(UnpinSnapshot)
    def unpin(self, wanted: UnpinSnapshot) -> SnapshotInfo:
        return snapshots.pin(self._handle, self.get_snapshot(wanted.snapshot).id, pinned=False)

    @does(LabelSnapshot)
    def set_label(self, wanted: LabelSnapshot) -> SnapshotInfo:
        chosen = self.get_snapshot(wanted.snapshot)
        return snapshots.set_label(self._handle, chosen.id, wanted.label)

    @does(DeleteSnapshot)
    def delete_snapshot(self, wanted: DeleteSnapshot) -> None:
        snapshots.delete(self._handle, self.get_snapshot(wanted.snapshot).id)

    def recover_snapshot(self, snapshot_id: str) -> SnapshotInfo:
        """Brings a deleted snapshot back during the grace period."""
        return snapshots.recover(self._handle, SnapshotId(snapshot_id))

    def deleted_snapshots(self) -> list[SnapshotInfo]:
        """Returns the deleted snapshots that can still be recovered, newest first."""
        return snapshots.deleted(self._handle)

    def retention(self) -> Policy:
        """Returns which snapshots `forget` keeps."""
        with self._handle.context.catalog.read() as transaction:
            return retention.get_policy(self._handle.get_head(transaction))

    def quota(self) -> int | None:
        """Returns how many content bytes the head may hold; None for as many as fit."""
        with self._handle.context.catalog.read() as transaction:
            return self._handle.get_head(transaction).quota_bytes

    @takes(Keep)
    def set_retention(self, wanted: Keep) -> Policy:
        """Sets which snapshots `forget` keeps, and how long traces stay that nothing needs."""
        retention.set_policy(self._handle, wanted.policy)
        return wanted.policy

    @takes(Forget)
    def forget(self, wanted: Forget) -> list[SnapshotInfo]:
        """Takes expired snapshots, and those that the policy does not keep, off the timeline."""
        return retention.forget(self._handle, policy=wanted.policy, dry_run=wanted.dry_run)

    def set_quota(self, quota_bytes: QuotaBytes) -> None:
        """Limits how many content bytes the head may hold; None takes the limit away."""
        room.set_quota(self._handle, quota_bytes)

    # By the names of other clients

    def create_snapshot(self, label: str | None = None) -> SnapshotInfo:
        """Captures everything as it is now, as `snapshot` does."""
        return self.snapshot(label)

    @takes(ListSnapshots)
    def list_snapshots(self, wanted: ListSnapshots) -> Timeline:
        """Returns the snapshots that were taken on purpose, or `all`, newest first."""
        return listing.snapshots(self._handle, wanted)

    def restore_snapshot(self, snapshot: SnapshotLike) -> int:
        """Brings a whole snapshot back, as `restore` does; returns how many files it has."""
        return count_files(self.at(self.restore(snapshot).snapshot or snapshot).files)

    # Looking after

    @does(GetHealth)
    def health(self, wanted: GetHealth) -> Health:
        context = self._handle.context
        with context.catalog.read() as transaction:
            head = self._handle.find_head(transaction)
            if head is None:
                return health.nothing_yet(wanted)
            return health.measure(context, transaction, head.tenant_id, head.namespace_id, wanted)

    @does(GetRollbackSeries)
    def rollback_series(self, wanted: GetRollbackSeries) -> RollbackSeries:
        handle = self._handle
        with handle.context.catalog.read() as transaction:
            head = handle.find_head(transaction)
            # Of one that does not exist nothing is counted.
            of = NamespaceId(0) if head is None else head.namespace_id
            return count_series(handle.context, transaction, handle.tenant_id, of, wanted)

    @does(GetTotals)
    def totals(self, _wanted: GetTotals) -> Totals:
        with looking(self._handle) as (transaction, head):
            if head is None:
                return NOTHING
            return total_of(self._handle.context, transaction, head.tenant_id, head)

    # Moving

    def export(
        self,
        target: str | OsPathLike[str] | BinaryIO,
        *,
        snapshot: SnapshotLike | None = None,
        progress: Progress = no_progress,
    ) -> int:
        """Writes a snapshot, or what is there now, to a tar file; returns its entries."""
        chosen = None if snapshot is None else self.get_snapshot(snapshot)
        from holdfast.engine.archives.transfer import export  # noqa: PLC0415 - few need it

        return export(self._handle, target, snapshot=chosen, progress=progress)

    def export_files(
        self,
        target: str | OsPathLike[str] | BinaryIO,
        *,
        snapshot: SnapshotLike | None = None,
        progress: Progress = no_progress,
    ) -> int:
        """Writes the files alone, under their own names, to a plain tar file; returns how many."""
        from holdfast.engine.archives.transfer import export_files  # noqa: PLC0415 - as in `export`

        chosen = None if snapshot is None else self.get_snapshot(snapshot)
        return export_files(self._handle, target, snapshot=chosen, progress=progress)

    def import_(
        self, source: str | OsPathLike[str], *, progress: Progress = no_progress
    ) -> Imported:
        """Replaces the content by that of an exported tar file, which is not trusted.

        What is there now is kept as a snapshot first; `undo` brings it back.
        """
        from holdfast.engine.archives.transfer import import_  # noqa: PLC0415 - as in `export`

        return import_(self._handle, source, progress=progress)

    def import_files(
        self, source: str | OsPathLike[str], *, progress: Progress = no_progress
    ) -> ImportedFiles:
        """Makes the files exactly those of a plain tar file, which is not trusted, or of a folder.

        All else stays. What is there now is kept as a snapshot first; `undo` brings it back.
        """
        from holdfast.engine.archives.plainfiles import import_files  # noqa: PLC0415 - as above

        return import_files(self._handle, source, progress=progress)

    # Inside

    def _sibling(self, name: str) -> Handle:
        context, tenant_id = self._handle.context, self._handle.tenant_id
        return Handle(context, tenant_id, check_namespace(context, tenant_id, name))
