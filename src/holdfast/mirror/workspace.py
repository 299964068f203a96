"""A directory here, its timeline on a server: the names of `holdfast.Workspace`.

    with holdfast.Client(namespace="alice") as client:
        project = client.workspace("./project")
        before = project.snapshot("before the refactoring")
        ...
        project.restore(before)

Looking at the directory is done here, with the machinery of the local form and a vault of its own
beside it. What the server lacks is sent to it, and snapshots are the server's. The promises are the
same: what is in the directory and in no snapshot becomes one before anything is replaced, a restore
is proven, and whatever is interrupted is put right by the next one who comes.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Self, TypeVar

from msgspec.structs import replace as changed

from holdfast.engine.archives.checkout import checkout
from holdfast.engine.capturing.capture import Rereading
from holdfast.engine.directory.preview import preview
from holdfast.engine.directory.writer import Follower
from holdfast.engine.exchange.coverage import lacking_of
from holdfast.engine.tasks.contexts import Tasks
from holdfast.engine.timeline.diff import collect_changes
from holdfast.engine.timeline.selection import Selection, select
from holdfast.engine.timeline.takeback import check_choice
from holdfast.errors import Busy, DriftFound, Unavailable
from holdfast.mirror.comparing import Comparing, texts_of
from holdfast.mirror.following import Moved, fetch
from holdfast.mirror.packing import ready
from holdfast.mirror.tasks import Place, RemoteTasks
from holdfast.model.archives import Imported, ImportedFiles
from holdfast.model.basics import EMPTY_MAP, Plane, SnapshotInfo, SnapshotLike
from holdfast.model.changes import Changes, Restored, counted
from holdfast.model.tasks import TaskRun
from holdfast.operations.checks import checked
from holdfast.operations.choices import SHOWN
from holdfast.operations.operation import takes
from holdfast.operations.snapshots import (
    Drift,
    Note,
    PushOfDirectory,
    RestoreOfDirectory,
    note_of,
)
from holdfast.operations.timeline import UndoOfDirectory
from holdfast.progress import Progress, no_progress
from holdfast.wire.exchange import CommitRequest

B = TypeVar("B", Imported, ImportedFiles)


@checked
class RemoteWorkspace(Comparing):
    """A directory that is attached to a namespace of a server. Any number of threads may use it."""

    _is_closed = False

    # Capturing

    @takes(PushOfDirectory)
    def snapshot(self, wanted: PushOfDirectory) -> SnapshotInfo:
        """Captures the directory as it is now on the server, with the namespace's other planes.

        With `rules`, by those instead of what `.holdfastignore` says now. Raises `HeadMoved` if
        the server's files are not those that were last pushed or pulled; with `overwrite` the
        directory wins, and what the server had is a snapshot first.
        """
        told = CommitRequest(name="", base=b"", root=b"", note=note_of(wanted))
        with self._exclusive(), self._local.directory.judged_by(wanted.rules):
            self._finish(wanted.progress)
            self._look(wanted.progress)
            return self._pair.send(told, overwrite=wanted.overwrite, progress=wanted.progress)

    @takes(Note)
    def snapshot_if_changed(self, wanted: Note) -> SnapshotInfo | None:
        """Captures the directory if it differs from what was last pushed or pulled."""
        told = CommitRequest(name="", base=b"", root=b"", note=wanted)
        with self._exclusive():
            self._finish(no_progress)
            self._look(no_progress)
            if self._pair.here == self._pair.memo.now.files:
                return None
            return self._pair.send(told, overwrite=False, progress=no_progress)

    def task(self, name: str, *, rollback_on_failure: bool = False) -> Tasks:
        """Returns a task on this directory: a context, plain or asynchronous, or a decorator."""
        place = self._place()
        return RemoteTasks(
            self, name, opened=lambda: place, rollback_on_failure=rollback_on_failure
        )

    def take_over(self) -> None:
        """Takes what stands in the directory's place for it, be it what it may."""
        self._local.take_over()

    def read_rules(self) -> bytes:
        """Returns what `.holdfastignore` says now; empty if there is none."""
        with self._exclusive():
            return self._local.directory.rules_text()

    # Going back, and forth

    @takes(RestoreOfDirectory)
    def restore(self, wanted: RestoreOfDirectory) -> Restored:
        """Brings a snapshot back, on the server and here: all, or some paths and names.

        Of all that, nothing that is in `except_`. What is there and in no snapshot becomes one
        first, by `rules` if they are told; with `drift="refuse"` it is an error instead. What
        cannot be captured and would be lost is an error unless `force`. With `keep="mine"`, a
        preview is of what the server has.
        """
        selection = select(paths=wanted.paths, names=wanted.names, except_=wanted.except_)
        judged = self._local.directory.judged_by(wanted.rules)
        progress, limit = wanted.progress, wanted.limit
        with self._exclusive(makes_anew=not wanted.dry_run), judged:
            self._finish(progress)
            target = self.namespace.get_snapshot(wanted.snapshot)
            if wanted.dry_run and wanted.keep is not None:
                return self.namespace.restore(target, keep=wanted.keep, dry_run=True, limit=limit)
            if wanted.dry_run:
                beside = self._beside(target, selection, wanted)
                if beside is not None and Plane.FILES not in selection.parts:
                    return beside
                near, files = fetch(self._pair, target, progress), selection.of(Plane.FILES)
                seen = preview(self._local.attached, near, selection=files, limit=limit)
                changes = _joined(seen.changes, beside.changes) if beside else seen.changes
                return replace(seen, target=target.id, changes=changes.first(limit))
            self._check_drift(wanted.drift)
            texts = texts_of(wanted.paths)
            follower = self._follower(force=wanted.force, progress=progress, target=target)
            done, moved = self._pair.move(
                lambda: self.namespace.restore(
                    target,
                    paths=texts,
                    names=wanted.names,
                    except_=wanted.except_,
                    limit=limit,
                    reason=wanted.reason,
                    keep=wanted.keep,
                ),
                back=self.namespace.undo,
                follower=follower,
                reason=f"before restoring {target.id}",
                overwrite=wanted.keep is None,
            )
            return self._told(done, moved, follower, limit=limit)

    @takes(UndoOfDirectory)
    def undo(self, wanted: UndoOfDirectory) -> Restored:
        """Takes the last change back; with an operation or a task, what that one changed.

        A task is one that the server keeps; a preview of it is of what the server has. At most
        `limit` changes are listed, None lists all; they are counted either way.
        """
        operation, task, keep_mine = wanted.operation, wanted.task, wanted.keep_mine
        progress, limit = wanted.progress, wanted.limit
        check_choice(wanted, dry_run=wanted.dry_run)
        if wanted.dry_run:
            return self.namespace.undo(task=task, keep_mine=keep_mine, dry_run=True, limit=limit)
        is_step = operation is None and task is None
        with self._exclusive(makes_anew=True):
            self._finish(progress)
            follower = self._follower(force=wanted.force, progress=progress)

            def act() -> Restored:
                done = self.namespace.undo(operation, task=task, keep_mine=keep_mine, limit=limit)
                if is_step:
                    follower.leave(done.uncaptured)
                return done

            done, moved = self._pair.move(
                act,
                back=self.namespace.redo if is_step else self.namespace.undo,
                follower=follower,
                reason="before undo",
            )
            return self._told(done, moved, follower, limit=limit)

    def redo(
        self,
        *,
        force: bool = False,
        limit: int | None = SHOWN,
        progress: Progress = no_progress,
    ) -> Restored:
        """Takes the last undo back."""
        with self._exclusive(makes_anew=True):
            self._finish(progress)
            follower = self._follower(force=force, progress=progress)

            def act() -> Restored:
                done = self.namespace.redo(limit=limit)
                follower.leave(done.uncaptured)
                return done

            done, moved = self._pair.move(
                act,
                back=self.namespace.undo,
                follower=follower,
                reason="before redo",
                keeps_redo=True,
            )
            return self._told(done, moved, follower, limit=limit)

    def pull(self, *, force: bool = False, progress: Progress = no_progress) -> SnapshotInfo | None:
        """Makes the directory what the server shows now; returns the snapshot that it is then.

        What is in the directory and nowhere else is put on the server's timeline first. None if
        the server has nothing, and never had.
        """
        with self._exclusive(makes_anew=True):
            pair = self._pair
            standing = pair.server.standing()
            if pair.memo.now.snapshot is None and standing.root == EMPTY_MAP.hex():
                return None
            pair.catch_up(self._follower(force=force, progress=progress), reason="before a pull")
            return pair.memo.now.snapshot

    def checkout(
        self,
        snapshot: SnapshotLike,
        target: str | os.PathLike[str],
        *,
        progress: Progress = no_progress,
    ) -> Restored:
        """Puts a whole snapshot into another directory, which is new or empty."""
        chosen = self.namespace.get_snapshot(snapshot)
        with self._exclusive():
            near = fetch(self._pair, chosen, progress)
        place = Path(target).expanduser()
        done = checkout(self._local.aside, near, place, progress=progress)
        return replace(done, target=chosen.id)

    def import_(
        self,
        source: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Progress = no_progress,
    ) -> Imported:
        """Replaces what the server has, and the directory, by an exported file's content."""
        with ready(source, progress=progress) as file:
            return self._brought_in(
                lambda: self.namespace.import_(file),
                reason="before importing an archive",
                force=force,
                progress=progress,
            )

    def import_files(
        self,
        source: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Progress = no_progress,
    ) -> ImportedFiles:
        """Makes the server's files, and the directory, what a plain tar file or a folder holds."""
        with ready(source, progress=progress) as file:
            return self._brought_in(
                lambda: self.namespace.import_files(file),
                reason="before importing files",
                force=force,
                progress=progress,
            )

    # Opening and closing

    def watch(self) -> None:
        """Looks, from now on, only where something has happened; raises where that cannot be."""
        self._local.watch()

    def wait_for_changes(self, timeout_s: float) -> bool:
        """Waits until something happens in a watched directory; says whether it did."""
        return self._local.wait_for_changes(timeout_s)

    def look_ahead(self) -> bool:
        """Does some of the next look's work in a watched directory; says whether there is more."""
        return self._local.look_ahead()

    def recover(self) -> str | None:
        """Puts right what an interrupted restore has left; says what was done, if anything.

        Where the server has moved and the directory has not, it follows now.
        """
        with self._exclusive():
            self._finish(no_progress)
            return self._local.recovered

    def close(self) -> None:
        """Keeps what is known for the next time, and lets go of the directory."""
        if not self._is_closed:
            self._is_closed = True
            try:
                # It is thrift: where the directory is gone, or in use, the next one sees to it.
                with suppress(Unavailable, Busy), self._exclusive():
                    self._local.forget_old(self._vault, self._pair.memo.now.files)
                self._local.close()
            finally:
                self._vault.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Inside

    def _place(self) -> Place:
        return Place(self, self._take_back)

    def _take_back(self, end: Callable[[], TaskRun], rules: bytes | None) -> Restored:
        """Ends a task on the server, which takes it back, and has the directory follow."""
        with self._exclusive(makes_anew=True), self._local.directory.judged_by(rules):
            self._finish(no_progress)
            follower = self._follower(force=False, progress=no_progress)
            done, moved = self._pair.move(
                lambda: self._gone_back(end()),
                back=self.namespace.undo,
                follower=follower,
                reason="before a task that failed goes back",
            )
            return self._told(done, moved, follower, limit=SHOWN)

    def _gone_back(self, run: TaskRun) -> Restored:
        """Returns what a server has taken back, as it tells of a task that failed."""
        if run.restored is None:
            raise Unavailable(f"the server does not say where task {run.id} went back")
        shown = self.namespace.get_snapshot(run.restored)
        return Restored(
            target=run.before,
            snapshot=shown,
            safety_id=None,
            root=shown.root,
            changes=self.namespace.diff(shown.parent, shown, limit=SHOWN),
            # The server has read it back, and what follows is compared with what it names.
            verified=True,
        )

    def _beside(
        self, target: SnapshotInfo, selection: Selection, wanted: RestoreOfDirectory
    ) -> Restored | None:
        """Returns what a restore would change beside files, which the directory knows best."""
        planes = [plane for plane in selection.parts if plane is not Plane.FILES]
        if not planes:
            return None
        names, except_ = wanted.names, wanted.except_
        return self.namespace.restore(
            target,
            planes=planes,
            names=None if names is None else [n for n in names if n.plane != Plane.FILES],
            except_=[name for name in except_ or () if name.plane != Plane.FILES],
            dry_run=True,
            limit=wanted.limit,
        )

    def _brought_in(
        self, act: Callable[[], B], *, reason: str, force: bool, progress: Progress
    ) -> B:
        """Lets what comes from outside take the place of what is there, on the server and here."""
        with self._exclusive(makes_anew=True):
            self._finish(progress)
            follower = self._follower(force=force, progress=progress)
            done, moved = self._pair.move(
                act, back=self.namespace.undo, follower=follower, reason=reason
            )
        return changed(
            done,
            safety_id=done.safety_id or moved.kept_id,
            verified=done.verified and follower.is_verified,
        )

    def _finish(self, progress: Progress) -> None:
        """Brings to its end what was interrupted between the server and the directory."""
        if self._pair.has_to_follow():
            follower = self._follower(force=False, progress=progress)
            self._pair.catch_up(follower, reason="found after an interrupted restore")

    def _look(self, progress: Progress) -> None:
        """Reads what has changed in the directory, and keeps it here."""
        self._local.directory.forget_rules()
        self._local.attached.keep_drift("captured", progress=progress, rereading=Rereading.SOME)

    def _follower(
        self, *, force: bool, progress: Progress, target: SnapshotInfo | None = None
    ) -> Follower:
        follower = Follower(self._local.directory, force=force, progress=progress)
        if target is not None:
            # Not as its target: the snapshot is the server's, and its root need not be here.
            follower.leave(lacking_of(target).uncaptured)
        return follower

    def _told(
        self, done: Restored, moved: Moved, follower: Follower, *, limit: int | None
    ) -> Restored:
        """Returns what the server says, with what the directory made of it."""
        with self._local.compared(moved.before, moved.after) as (_, found):
            here = (change for change in found if change.key not in follower.spared)
            files = collect_changes(here, limit=limit, counts=True)
        return replace(
            follower.outcome(done, moved.kept_id),
            changes=_joined(files, done.changes).first(limit),
            was_missing=self._local.was_made,
        )

    def _check_drift(self, drift: Drift) -> None:
        if drift == "refuse":
            known = self._pair.memo.now.files
            with self._local.compared(known, None, keeps_unread=False) as (_, found):
                changes = collect_changes(found, limit=SHOWN, counts=False)
                names = [change.name for change in changes]
            if names:
                raise DriftFound(names, reason="changes are in no snapshot", cause="refused")


def _joined(files: Changes, told: Changes) -> Changes:
    """Returns what changed of the files here, with what a server tells of all other planes."""
    items = [*files, *(change for change in told if change.plane is not Plane.FILES)]
    if told.truncated and told.unlisted is None:
        return Changes(items, truncated=True)
    beside = {each: n for each, n in (told.unlisted or {}).items() if each[0] is not Plane.FILES}
    return counted(items, {**(files.unlisted or {}), **beside})
