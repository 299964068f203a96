"""Moves a timeline and the directory that is attached to it together.

Whatever is done (restore, undo, import), the steps are these:

0. Agree: what was written through the namespace comes into the directory (`agreeing.py`).
1. Keep: what is in the directory and in no snapshot becomes one (`snapshot.py`).
2. Choose: the timeline says where it goes, and stores what it needs for that
   (`timeline/head.py`). What leads the directory there are the steps; what would be in their way
   and is in no snapshot is named, before anything is touched.
3. Journal: it says that the directory is about to change, and under which snapshot's name.
4. Write: the steps are carried out (`holdfast.workspace.writing`). If that fails half-way, what was
   done is taken back.
5. Prove: what was written is read again. The answer says whether it is what was asked for.
6. Commit: the timeline moves. If it does not, the directory turns back; if nobody can say whether
   it did, for the connection is lost and there is no other, it stays as it is, with the journal.
7. Arrive: the journal learns of it.

A crash between 3 and 7 leaves the journal. Whoever comes next brings the directory back to what
the catalog says; what it finds there it keeps as a snapshot before (`recovery.py`).
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from holdfast.engine.capturing.capture import Rereading
from holdfast.engine.core.paths import to_bytes
from holdfast.engine.directory.agreeing import agree
from holdfast.engine.directory.directory import Directory
from holdfast.engine.directory.snapshot import keep
from holdfast.engine.directory.writer import Follower
from holdfast.engine.files.retrieval import MapGoal
from holdfast.engine.namespace import Namespace
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.planes.handle import Handle
from holdfast.errors import Busy, Damaged, DriftFound, HoldfastError, OutcomeUnknown
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import Kind, Plane, SnapshotInfo
from holdfast.operations.snapshots import Note
from holdfast.progress import Progress, no_progress
from holdfast.workspace.ignoring import IGNORE_FILE

MOST_BEHIND: Final = 20
"""Times that a move begins anew because somebody wrote through the namespace: each is some
milliseconds, in which others write as well."""

T = TypeVar("T")

Act = Callable[[Handle, SnapshotId | None], T]
"""What moves the timeline; told where the head stood, if what was in the way was kept first."""


@dataclass(frozen=True, slots=True)
class Attached:
    """One namespace and its directory, in the hands of whoever holds the directory's lock."""

    handle: Handle
    directory: Directory

    @property
    def namespace(self) -> Namespace:
        """The timeline and all that belongs to it."""
        return Namespace(self.handle)

    def source(self) -> StagedObjects:
        """Returns the objects of the vault."""
        return StagedObjects(self.handle.objects)

    def files_of(self, snapshot: SnapshotInfo) -> ObjectId:
        """Returns the files map of a snapshot."""
        return self.handle.objects.get_root(snapshot.root).plane(Plane.FILES)

    def lead(
        self, act: Act[T], follower: Follower, *, reason: str, keeps_redo: bool = False
    ) -> tuple[T, SnapshotId | None]:
        """Keeps what is there, and moves; returns also the id of what was kept."""
        kept, including, origin, behind = None, frozenset[bytes](), None, 0
        while True:
            with self.directory.going_back(self.earlier_rules):
                agree(self.handle, self.directory)
            taken = self.keep_drift(
                reason,
                keeps_redo=keeps_redo,
                including=including,
                progress=follower.progress,
            )
            kept = kept if taken is None else taken.id
            try:
                return self.move(act, follower, origin=origin), kept
            except Damaged:
                if self.directory.is_sound:
                    raise
                # What is in the directory may be what went bad: read anew, it is stored anew.
                self.directory.forget_index()
            except DriftFound as exc:
                if exc.cause == "behind":
                    # Somebody wrote through the namespace since: that comes in first.
                    behind += 1
                    if behind == MOST_BEHIND:
                        message = f"{self.handle.name} is written to all the time"
                        raise Busy(message) from exc
                    continue
                if origin is not None:
                    raise
                # What the rules leave out is in no snapshot: it becomes one before it is replaced.
                if follower.force and exc.cause == "unreadable":
                    self.directory.open_up(exc.paths)
                including = frozenset(to_bytes(path) for path in exc.paths)
                origin = self.namespace.get_snapshot("@").id
                follower.gives_up = follower.force

    def move(self, act: Act[T], follower: Follower, *, origin: SnapshotId | None = None) -> T:
        """Moves, once all that is there is kept; if the timeline stays, the directory goes back."""
        with self.directory.going_back(self.earlier_rules):
            try:
                following = replace(
                    self.handle,
                    before_commit=follower.follow,
                    directory=self.directory.attaching,
                )
                done = act(following, origin)
            except OutcomeUnknown:
                # Whoever comes next finds out, and brings the directory to where the timeline is.
                raise
            except HoldfastError:
                follower.turn_back(self.source())
                raise
            follower.arrive()
            return done

    def keep_drift(
        self,
        reason: str,
        *,
        keeps_redo: bool = False,
        including: frozenset[bytes] = frozenset(),
        litter: re.Pattern[bytes] | None = None,
        rereading: Rereading = Rereading.ALL,
        is_alone: bool = False,
        progress: Progress = no_progress,
    ) -> SnapshotInfo | None:
        """Takes a snapshot of what is in the directory and in none; None if all of it is.

        Something is about to take its place: unless told otherwise, all that is unsure is read.
        """
        with self.directory.going_back(self.earlier_rules):
            taken, _ = keep(
                self.handle,
                self.directory,
                Note(reason=reason),
                kind=Kind.SAFETY,
                only_if_changed=True,
                keeps_redo=keeps_redo,
                including=including,
                litter=litter,
                rereading=rereading,
                is_alone=is_alone,
                progress=progress,
            )
        return taken

    def earlier_rules(self) -> bytes:
        """Returns the rules that are in what the timeline stands on; none if there is nothing."""
        with suppress(HoldfastError):
            files = self.files_of(self.namespace.get_snapshot("@"))
            return MapGoal(self.source(), files).read(IGNORE_FILE)
        return b""
