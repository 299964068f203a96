"""A real directory with an undo button: what people hold in their hands.

    with holdfast.open("~/.local/share/holdfast") as hf:
        project = hf.workspace("./project")
        before = project.snapshot("before the refactoring")
        ...
        project.restore(before)

Every method takes the directory's lock, ends what a crash interrupted, does its work, and lets
go. What is in the directory and in no snapshot becomes one before anything is replaced.
"""

import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Self, TypeVar

from msgspec.structs import replace as changed

from holdfast.engine.archives.checkout import checkout
from holdfast.engine.core.paths import to_text
from holdfast.engine.directory.agreeing import Agreed, agree
from holdfast.engine.directory.attachments import Attachment, check, make_anew, take_over, unmake
from holdfast.engine.directory.directory import Directory
from holdfast.engine.directory.entering import enter
from holdfast.engine.directory.move import Act, Attached
from holdfast.engine.directory.preview import preview, preview_undo
from holdfast.engine.directory.recovery import recover
from holdfast.engine.directory.snapshot import keep
from holdfast.engine.directory.writer import Follower
from holdfast.engine.namespace import Namespace
from holdfast.engine.planes.handle import Handle
from holdfast.engine.takesback import Check, TakesBack
from holdfast.engine.tasks.contexts import Tasks
from holdfast.engine.tasks.life import TaskLife
from holdfast.engine.tasks.prompts import Prompts
from holdfast.engine.timeline import restore as restoring
from holdfast.engine.timeline import undo
from holdfast.engine.timeline.selection import Selection, select
from holdfast.engine.timeline.takeback import check_choice
from holdfast.errors import (
    Damaged,
    DriftFound,
    HoldfastError,
    InvalidValue,
    LimitExceeded,
    Unavailable,
)
from holdfast.model.archives import Imported, ImportedFiles
from holdfast.model.basics import SnapshotInfo, SnapshotLike
from holdfast.model.changes import Changes, Merged, Restored
from holdfast.operations.checks import checked
from holdfast.operations.choices import SHOWN
from holdfast.operations.operation import takes
from holdfast.operations.snapshots import Drift, Note, RestoreOfDirectory, TakeOfDirectory
from holdfast.operations.timeline import Prefer, UndoOfDirectory
from holdfast.progress import Progress, no_progress

B = TypeVar("B", Imported, ImportedFiles)


@checked
class Workspace(TakesBack):
    """A directory that is attached to a namespace. Any number of threads may use it."""

    def __init__(self, handle: Handle, attachment: Attachment, rules: bytes | None = None) -> None:
        """Holds one; `rules` that are told count instead of its own `.holdfastignore`."""
        self._attachment, path, state = attachment, attachment.path, attachment.state
        self._directory = Directory(handle.context, path, state, rules=rules)
        self._guard = threading.RLock()
        self._recovered = self._waiting = None
        self._just_recovered: str | None = None
        self._was_made = False
        self.on_recovery: Callable[[str], None] | None = None
        """Is told at once what was put right, whatever becomes of the call that did it."""
        self._agreed = None
        self.on_agreement: Callable[[Agreed], None] | None = None
        """Is told at once what was taken in of what was written through the namespace."""
        self._stand_on(handle)

    def _stand_on(self, handle: Handle) -> None:
        self._plain, self._attached = handle, Attached(handle, self._directory)
        self.namespace = Namespace(handle)
        """The timeline and all that belongs to it; its files are those last captured."""
        self.runs = TaskLife(handle)
        """Where tasks are noted whose snapshots somebody takes by hand."""
        self.prompts = Prompts(handle, self)
        """What coding agents were asked to do here, prompt by prompt."""

    @property
    def path(self) -> Path:
        """Where the directory is."""
        return self._attachment.path

    @property
    def moved_from(self) -> Path | None:
        """Where the directory was until it was opened here; None if it was not moved."""
        return self._attachment.moved_from

    @property
    def is_half_way(self) -> bool:
        """Whether a restore of the directory was interrupted, or is under way just now."""
        record = self._directory.journal.find()
        return record is not None and record.state == "applying"

    def __repr__(self) -> str:
        return f"Workspace({str(self.path)!r}, namespace={self.namespace.name!r})"

    def acting_as(self, actor: str) -> "Workspace":
        """Returns the same directory, whose changes are told as made by somebody else."""
        same = copy(self)
        same._stand_on(self._plain.acting_as(actor))  # noqa: SLF001 - of this class
        return same

    # Capturing

    @takes(TakeOfDirectory)
    def snapshot(self, wanted: TakeOfDirectory) -> SnapshotInfo:
        """Captures the directory as it is now, and the namespace's other planes with it.

        With `rules`, by those instead of what `.holdfastignore` says now.
        """
        with self._exclusive(), self._directory.judged_by(wanted.rules):
            taken, _ = keep(self._plain, self._directory, wanted, progress=wanted.progress)
        if taken is None:
            raise InvalidValue("no snapshot was taken")
        return taken

    def task(self, name: str, *, rollback_on_failure: bool = False) -> Tasks:
        """Returns a task on this directory; see `Namespace.task`."""
        ids = self._plain.context.ids
        return Tasks(
            self,
            name,
            ids=ids,
            rollback_on_failure=rollback_on_failure,
            directory=self,
            runs=self.runs,
        )

    def take_over(self) -> None:
        """Takes what stands in the directory's place for it, be it what it may.

        For whoever knows who made it. One that was moved is not given up: then this does nothing.
        """
        with self._guard, self._attachment.locked():
            take_over(self._attachment)

    def read_rules(self) -> bytes:
        """Returns what `.holdfastignore` says now; empty if there is none."""
        with self._exclusive(only_looks=True):
            return self._directory.rules_text()

    def agree(self) -> Agreed | None:
        """Brings in what was written through the namespace; None if all of it was in.

        Every other method does so first. This is for whoever has the directory read, or something
        run in it, without asking here; it raises where the directory cannot be written.
        """
        with self._exclusive():
            if self._agreed is not None and self._agreed.failed is not None:
                raise Unavailable(self._agreed.failed)
            return self._agreed

    def find_current(self) -> SnapshotInfo | None:
        """Returns the snapshot that holds the directory as it is now, or None if none does."""
        return None if self.is_dirty() else self.namespace.find_current()

    @takes(Note)
    def snapshot_if_changed(self, wanted: Note) -> SnapshotInfo | None:
        """Captures the directory if it differs from what the timeline stands on."""
        with self._exclusive():
            taken, _ = keep(
                self._plain, self._directory, wanted, only_if_changed=True, progress=no_progress
            )
        return taken

    # Going back, and forth

    @takes(RestoreOfDirectory)
    def restore(self, wanted: RestoreOfDirectory) -> Restored:
        """Brings a snapshot back into the directory: all, or what matches some paths or is named.

        Of all that, nothing that is in `except_`. What is there and in no snapshot becomes one
        first, by `rules` if they are told; with `drift="refuse"` it is an error instead. What
        cannot be captured and would be lost is an error unless `force`.
        """
        chosen = select(paths=wanted.paths, names=wanted.names, except_=wanted.except_)
        return self._restore(wanted, chosen, lambda: self._check_drift(wanted.drift))

    def _restore(self, wanted: RestoreOfDirectory, selection: Selection, check: Check) -> Restored:
        if wanted.keep is not None:
            return self._restore_beside(wanted, check)
        note, limit, dry_run = Note(reason=wanted.reason), wanted.limit, wanted.dry_run
        holds = self._exclusive(makes_anew=not dry_run, only_looks=dry_run)
        with holds, self._directory.judged_by(wanted.rules):
            target = self.namespace.get_snapshot(wanted.snapshot)
            if dry_run or selection.is_literal or selection.sought:
                # A choice that cannot be is refused before anything is kept.
                seen = preview(self._attached, target, selection=selection, limit=limit)
                if dry_run:
                    return seen
            check()
            force, progress = wanted.force, wanted.progress
            follower = Follower(self._directory, force=force, target=target, progress=progress)
            return self._led(
                lambda handle, _: restoring.restore(
                    handle, target, selection=selection, limit=limit, note=note
                ),
                follower,
                reason=f"before restoring {target.id}",
            )

    def enter(
        self, target: SnapshotInfo, *, left: SnapshotInfo, limit: int | None, progress: Progress
    ) -> Restored | None:
        """Lets a directory that holds what it `left` show what its timeline stands on; or None."""
        with self._exclusive():
            return enter(self._attached, target, left=left, limit=limit, progress=progress)

    @takes(UndoOfDirectory)
    def undo(self, wanted: UndoOfDirectory) -> Restored:
        """Takes the last change back; with an operation or a task, what that one changed.

        Of a task, see `Namespace.undo`. At most `limit` changes are listed, None lists all.
        """
        return self._undo(wanted, lambda: None)

    def _undo(self, wanted: UndoOfDirectory, check: Check) -> Restored:
        operation, limit = wanted.operation, wanted.limit
        is_last = operation is None and wanted.task is None
        check_choice(wanted, dry_run=wanted.dry_run and not is_last)
        if is_last and wanted.dry_run:
            with self._exclusive(only_looks=True):
                return preview_undo(self._attached, limit=limit)
        if wanted.task is not None:
            return self._undo_task(wanted, wanted.task, check)
        with self._exclusive(makes_anew=True):
            check()
            chosen = None if operation is None else self.namespace.get_snapshot(operation)
            follower = Follower(self._directory, force=wanted.force, progress=wanted.progress)
            return self._led(
                lambda handle, origin: (
                    undo.revert(handle, chosen, limit=limit, leave=follower.leave)
                    if chosen
                    else undo.undo(handle, origin=origin, limit=limit, towards=follower.protect)
                ),
                follower,
                reason="before undo",
            )

    def redo(
        self, *, force: bool = False, limit: int | None = SHOWN, progress: Progress = no_progress
    ) -> Restored:
        """Takes the last undo back."""
        with self._exclusive(makes_anew=True):
            follower = Follower(self._directory, force=force, progress=progress)
            return self._led(
                lambda handle, _: undo.redo(handle, limit=limit, towards=follower.protect),
                follower,
                reason="before redo",
                keeps_redo=True,
            )

    def checkout(
        self,
        snapshot: SnapshotLike,
        target: str | os.PathLike[str],
        *,
        progress: Progress = no_progress,
    ) -> Restored:
        """Puts a whole snapshot into another directory, which is new or empty."""
        chosen = self.namespace.get_snapshot(snapshot)
        return checkout(self._plain, chosen, Path(target).expanduser(), progress=progress)

    def import_(
        self,
        source: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Progress = no_progress,
    ) -> Imported:
        """Replaces the directory's content by that of an exported file, which is not trusted."""
        from holdfast.engine.archives.transfer import surveyed  # noqa: PLC0415 - see `Namespace`

        follower = Follower(self._directory, force=force, progress=progress)
        with surveyed(self._plain, source, progress=progress) as bring:
            return self._brought_in(
                lambda handle, _: bring(handle), follower, reason="before importing an archive"
            )

    def import_files(
        self,
        source: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Progress = no_progress,
    ) -> ImportedFiles:
        """Makes the directory exactly what a plain tar file or another folder holds."""
        from holdfast.engine.archives.plainfiles import surveyed  # noqa: PLC0415 - as above

        follower = Follower(self._directory, force=force, is_exact=True, progress=progress)
        with surveyed(self._plain, source, progress=progress) as bring:
            done = self._brought_in(
                lambda handle, _: bring(handle), follower, reason="before importing files"
            )
        return changed(done, left_out=[to_text(path) for path in follower.left_out])

    def merge(
        self,
        other: str,
        *,
        prefer: Prefer | None = None,
        force: bool = False,
        progress: Progress = no_progress,
    ) -> Merged:
        """Brings in what a fork of the namespace (or its origin) has changed.

        See `Namespace.merge`. What is in the directory and in no snapshot becomes one first.
        """
        follower = Follower(self._directory, force=force, progress=progress)
        with self._exclusive(makes_anew=True):
            done, kept = self._attached.lead(
                lambda handle, _: Namespace(handle).merge(other, prefer=prefer),
                follower,
                reason=f"before merging {other}",
            )
        return Merged(
            snapshot=done.snapshot,
            changes=done.changes.without(follower.spared),
            safety_id=kept,
            verified=follower.is_verified,
        )

    # Opening and closing

    def watch(self) -> None:
        """Looks, from now on, only where something has happened; raises where that cannot be."""
        with self._exclusive():
            self._directory.watch()

    def wait_for_changes(self, timeout_s: float) -> bool:
        """Waits until something happens in a watched directory; says whether it did."""
        return self._directory.wait(timeout_s)

    def look_ahead(self) -> bool:
        """Does some of the next look's work in a watched directory; says whether there is more."""
        with self._exclusive():
            return self._directory.ask()

    def recover(self) -> str | None:
        """Puts right what an interrupted restore has left; says what was done, if anything."""
        with self._exclusive():
            return self._recovered

    def close(self) -> None:
        """Keeps what is known for the next time, and lets go of the directory."""
        try:
            with self._guard:
                if self._directory.is_saved:
                    # Somebody else may have the directory for long, who is not waited for.
                    self._directory.forget()
                    return
                with self._attachment.locked():
                    self._directory.close()
        except Unavailable:
            # Detached meanwhile, or moved: there is nothing to keep for.
            self._directory.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Inside

    @contextmanager
    def _exclusive(self, *, makes_anew: bool = False, only_looks: bool = False) -> Generator[None]:
        """Holds the directory; with `makes_anew`, one that is missing is made, to be filled.

        Who `only_looks` can do so while an interrupted restore cannot be put right.
        """
        with self._guard, self._attachment.locked():
            self._was_made = makes_anew and make_anew(self._attachment)
            self._directory.attaching = check(self._attachment, self._plain).attaching
            self._directory.refresh()
            self._put_right(only_looks=only_looks)
            if self._waiting is None:
                self._take_in()
            try:
                yield
            except HoldfastError as exc:
                # Whatever it was, the next snapshot shall not rely on it.
                if isinstance(exc, Damaged) and not self._directory.is_sound:
                    self._directory.forget_index()
                if self._was_made:
                    unmake(self._attachment)
                raise
            finally:
                self._directory.settle()

    def _put_right(self, *, only_looks: bool) -> None:
        """Puts right what an interrupted restore has left, and says so."""
        self._just_recovered = self._waiting = None
        if self._was_made and self.is_half_way:
            # What the restore had left is gone with the directory: that it is, is what differs.
            self._directory.journal.clear()
        try:
            self._just_recovered = recover(self._attached)
        except (Unavailable, LimitExceeded) as exc:
            if not only_looks:
                raise
            self._waiting = f"An interrupted restore is not taken back yet: {exc}"
        self._recovered = self._just_recovered or self._recovered
        said = self._waiting or self._just_recovered
        if said is not None and self.on_recovery is not None:
            self.on_recovery(said)

    def _take_in(self) -> None:
        """Brings in what was written through the namespace, if that can be."""
        try:
            self._agreed = agree(self._plain, self._directory)
        except HoldfastError as exc:
            # Whoever only looks is shown both sides all the same; who moves is told.
            self._agreed = Agreed(brought=Changes([]), failed=str(exc))
        if self._agreed is not None and self.on_agreement is not None:
            self.on_agreement(self._agreed)

    def _led(
        self, act: Act[Restored], follower: Follower, *, reason: str, keeps_redo: bool = False
    ) -> Restored:
        """Moves timeline and directory; returns what was done, and what had to be before."""
        done, kept = self._attached.lead(act, follower, reason=reason, keeps_redo=keeps_redo)
        return replace(
            follower.outcome(done, kept),
            changes=done.changes.without(follower.spared),
            was_missing=self._was_made,
            recovered=self._just_recovered,
        )

    def _brought_in(self, act: Act[B], follower: Follower, *, reason: str) -> B:
        """Lets what comes from outside take the place of what is there."""
        with self._exclusive(makes_anew=True):
            done, kept = self._attached.lead(act, follower, reason=reason)
        return changed(
            done,
            safety_id=done.safety_id or kept,
            verified=done.verified and follower.is_verified,
        )

    def _check_drift(self, drift: Drift) -> None:
        if drift == "refuse" and (names := [each.name for each in self._unkept(limit=SHOWN)]):
            raise DriftFound(names, reason="changes are in no snapshot", cause="refused")
