"""Moves a timeline and the directory attached to it together.

Whatever is done (restore, undo, import), the order is the same: what is in the directory and in
no snapshot becomes one; then the timeline moves, and takes the directory with it; if it does not
get there, the directory goes back.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from holdfast.engine.advance import Note
from holdfast.engine.capture import Rereading
from holdfast.engine.directory import Directory
from holdfast.engine.follower import Follower
from holdfast.engine.handle import Handle
from holdfast.engine.keep import keep
from holdfast.engine.namespace import Namespace
from holdfast.engine.paths import to_bytes, to_text
from holdfast.engine.retrieval import MapGoal
from holdfast.engine.stage import StagedObjects
from holdfast.errors import Damaged, DriftFound, HoldfastError
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model import Kind, Plane, SnapshotInfo
from holdfast.model_changes import Restored
from holdfast.workspace.ignoring import IGNORE_FILE

T = TypeVar("T")

Act = Callable[[Handle, SnapshotId | None], T]
"""What moves the timeline; told where the head stood, if what was in the way was kept first."""


class Mover:
    """One namespace and its directory, in the hands of whoever holds the directory's lock."""

    def __init__(self, handle: Handle, directory: Directory) -> None:
        self.handle = handle
        self.directory = directory
        self.namespace = Namespace(handle)

    def attached(self, follower: Follower) -> Handle:
        """Returns the namespace with the directory for its head."""
        return replace(self.handle, attached=follower)

    def seen(self, *, only_names: bool = False) -> Namespace:
        """Returns the namespace, whose head is the directory as it is now."""
        return Namespace(self.attached(Follower(self.directory, only_names=only_names)))

    def source(self) -> StagedObjects:
        """Returns the objects of the vault."""
        return StagedObjects(self.handle.objects)

    def files_of(self, snapshot: SnapshotInfo) -> ObjectId:
        """Returns the files map of a snapshot."""
        return self.handle.objects.get_root(snapshot.root).plane(Plane.FILES)

    def go(
        self, act: Act[Restored], follower: Follower, *, reason: str, keeps_redo: bool = False
    ) -> Restored:
        """Does what `move` does, and says in the answer what the directory made of it."""
        done, kept = self.move(act, follower, reason=reason, keeps_redo=keeps_redo)
        return replace(
            done,
            changes=done.changes.without(follower.spared),
            safety_id=done.safety_id or kept,
            verified=done.verified and follower.is_verified,
            in_motion=follower.with_in_motion(done.in_motion),
            kept=[to_text(path) for path in follower.kept],
        )

    def move(
        self, act: Act[T], follower: Follower, *, reason: str, keeps_redo: bool = False
    ) -> tuple[T, SnapshotId | None]:
        """Keeps what is there, then lets the timeline and the directory move together."""
        kept = self.keep_drift(reason, follower, keeps_redo=keeps_redo)
        try:
            try:
                done = self.act(lambda handle: act(handle, None), follower)
            except Damaged:
                if self.directory.is_sound:
                    raise
                # What is in the directory may be what went bad: read anew, it is stored anew.
                self.directory.forget_index()
                again = self.keep_drift(reason, follower, keeps_redo=keeps_redo)
                kept = again or kept
                done = self.act(lambda handle: act(handle, None), follower)
        except DriftFound as exc:
            origin = self.namespace.get_snapshot("@").id
            # What the rules leave out is in no snapshot: it becomes one before it is replaced.
            including = frozenset(to_bytes(path) for path in exc.paths)
            again = self.keep_drift(reason, follower, keeps_redo=keeps_redo, including=including)
            if again is None and not follower.force:
                raise
            kept, follower.gives_up = again or kept, follower.force
            done = self.act(lambda handle: act(handle, origin), follower)
        return done, kept.id if kept else None

    def act(self, act: Callable[[Handle], T], follower: Follower) -> T:
        """Lets the timeline and the directory move; if the one stays, the other goes back."""
        with self.directory.going_back(self.earlier_rules):
            try:
                done = act(self.attached(follower))
            except HoldfastError:
                follower.turn_back(self.source())
                raise
            follower.arrive()
            return done

    def keep_drift(
        self,
        reason: str,
        follower: Follower,
        *,
        keeps_redo: bool = False,
        including: frozenset[bytes] = frozenset(),
        litter: re.Pattern[bytes] | None = None,
        rereading: Rereading = Rereading.ALL,
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
                progress=follower.progress,
            )
        return taken

    def earlier_rules(self) -> bytes:
        """Returns the rules that are in what the timeline stands on; none if there is nothing."""
        with suppress(HoldfastError):
            files = self.files_of(self.namespace.get_snapshot("@"))
            return MapGoal(self.source(), files).read(IGNORE_FILE)
        return b""
