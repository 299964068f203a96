"""An attached directory as its namespace, for doors that know namespaces alone.

Whoever looks at what is there now is shown the directory, with what is in no snapshot yet; whoever
goes back, or takes a snapshot, moves the directory, with all that `Workspace` promises. Everything
else is the namespace's own, and what is written there comes into the directory with the next look.

A directory that is missing is shown as it was last captured, and made anew by who goes back.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.engine.directory.attachments import Attachment
from holdfast.engine.directory.present import Glance
from holdfast.engine.directory.snapshot import keep
from holdfast.engine.files.editing import Files
from holdfast.engine.namespace import Namespace
from holdfast.engine.objects.reader import Objects
from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.view import View
from holdfast.engine.timeline import snapshots
from holdfast.engine.timeline.comparison import Comparing, Place
from holdfast.engine.timeline.expecting import Expected
from holdfast.engine.timeline.fork import check_free
from holdfast.engine.timeline.restore import folded_head
from holdfast.engine.timeline.selection import select
from holdfast.engine.workspace import Workspace
from holdfast.errors import DirectoryMissing, InvalidValue, TooLarge
from holdfast.ids import ObjectId
from holdfast.jsontext import legible
from holdfast.model.basics import Plane, Root, Size, SnapshotInfo, SnapshotLike, Standing
from holdfast.model.changes import History, MergeResult, Patch, Restored, TextsPage
from holdfast.model.names import Name, to_name
from holdfast.operations.operation import does, takes
from holdfast.operations.snapshots import RestoreOfDirectory, RestoreSnapshot, TakeSnapshot, note_of
from holdfast.operations.timeline import (
    ForkNamespace,
    GetStatus,
    GetTextDiff,
    GetTextDiffs,
    Historic,
    Merge,
    RedoChange,
    TextDiffs,
    UndoChange,
    UndoOfDirectory,
    called,
)
from holdfast.progress import no_progress
from holdfast.tree import Node

RESTS: Final = 10
"""How many times as long as a look took it stands for how things are: whoever asks every few
seconds has a large directory looked at for a tenth of the time at the most."""


class _Seen(msgspec.Struct):
    """What the last look has found, for all who ask."""

    beside: Standing | None = None
    """What the namespace itself said then."""
    dirty: bool = False
    size: Size = Size()
    until: datetime | None = None


class Attended(Workspace):
    """A directory that a process has open for whoever asks by the name of its namespace."""

    def __init__(self, handle: Handle, attachment: Attachment) -> None:
        super().__init__(handle, attachment)
        self._seen = _Seen()

    @property
    def attachment(self) -> Attachment:
        """What is attached to what."""
        return self._attachment

    def through(self, agent: Namespace) -> "NamespaceOfDirectory":
        """Returns the namespace with the directory, for whoever it is that holds the namespace."""
        return NamespaceOfDirectory(self, agent)

    def standing_on(self, handle: Handle) -> "Attended":
        """Returns the same directory, whose changes are made by whoever has this handle."""
        same = copy(self)
        same._stand_on(handle)  # noqa: SLF001 - of this class
        return same

    @contextmanager
    def looked_at(self, *, only_names: bool) -> Generator[Handle]:
        """Opens the namespace with the directory for its head, as long as the block lasts."""
        with ExitStack() as stack:
            handle = self._plain
            try:
                stack.enter_context(self._exclusive(only_looks=True))
                glance = Glance(self._directory, only_names=only_names, keeps_unread=True)
                handle = glance.at(handle)
            except DirectoryMissing:
                pass  # It is shown as it was last captured.
            yield handle

    @contextmanager
    def opened(self) -> Generator[View]:
        """Opens the files that are in the directory."""
        with self.looked_at(only_names=False) as handle, folded_head(handle) as (_, folded):

            def begun() -> datetime:
                return folded.head.created_at

            objects = DirectoryObjects(handle, folded.source, folded.stage)
            yield View(objects, folded.root.plane(Plane.FILES), begun=begun)

    def standing(self) -> Standing:
        """Says where the namespace stands, and how the directory does."""
        beside, clock, seen = snapshots.standing(self._plain), self._plain.context.clock, self._seen
        begun = clock()
        if seen.until is None or begun >= seen.until or seen.beside != beside:
            with self.looked_at(only_names=True) as handle, folded_head(handle) as (_, folded):
                seen.beside, seen.size = beside, folded.size
                seen.dirty = (
                    folded.has_rows or folded.is_changed
                )  # As `Namespace.is_dirty` says it.
            ended = clock()
            seen.until = ended + max(ended - begun, timedelta(0)) * RESTS
        path = legible(str(self.path))
        return replace(beside, dirty=seen.dirty, size=seen.size, directory=path)

    def take(self, wanted: TakeSnapshot) -> SnapshotInfo:
        """Takes a snapshot of the directory."""
        expected = snapshots.to_expected(self._plain, wanted.expected)
        with self._exclusive():
            self._check(expected)
            taken, _ = keep(self._plain, self._directory, note_of(wanted), progress=no_progress)
        if taken is None:
            raise InvalidValue("no snapshot was taken")
        return taken

    def go_back(self, wanted: RestoreSnapshot) -> Restored:
        """Brings a snapshot back into the directory, and into the planes beside it."""
        expected = snapshots.to_expected(self._plain, wanted.expected, wanted.expected_root)
        chosen = select(
            planes=wanted.planes, paths=wanted.paths, names=wanted.names, except_=wanted.except_
        )
        asked = RestoreOfDirectory(
            wanted.snapshot,
            paths=wanted.paths,
            names=wanted.names,
            except_=wanted.except_,
            dry_run=wanted.dry_run,
            limit=wanted.limit,
            reason=wanted.reason,
            keep=wanted.keep,
        )
        return self._restore(asked, chosen, partial(self._check, expected))

    def take_back(self, wanted: UndoChange) -> Restored:
        """Takes a change back in the directory, and in the planes beside it."""
        expected = snapshots.to_expected(self._plain, wanted.expected, wanted.expected_root)
        asked = UndoOfDirectory(
            wanted.operation,
            task=wanted.task,
            keep_mine=wanted.keep_mine,
            dry_run=wanted.dry_run,
            limit=wanted.limit,
        )
        return self._undo(asked, partial(self._check, expected))

    def _check(self, expected: Expected) -> None:
        """Raises `HeadMoved` if something else is there, once the directory is ours."""
        with self._plain.context.catalog.read() as transaction:
            expected.check_head(self._plain.head_or_empty(transaction))
        if expected.root is not None:
            shown = Glance(self._directory, only_names=True).at(self._plain)
            rules = self._attached.earlier_rules
            with self._directory.going_back(rules), folded_head(shown) as (_, folded):
                expected.check_folded(folded)


class NamespaceOfDirectory(Namespace):
    """A namespace whose files are those of a real directory."""

    def __init__(self, directory: Attended, agent: Namespace) -> None:
        super().__init__(agent._handle)  # noqa: SLF001 - of this class
        self._directory = directory.standing_on(self._handle)
        self.comparing = ComparingDirectory(self._directory, self._handle)

    files = cached_property(lambda self: Files(self._handle, self._directory.opened))

    def acting_as(self, actor: str) -> Namespace:
        """Returns the same namespace, whose changes are told as made by somebody else."""
        return self._directory.through(super().acting_as(actor))

    @does(GetStatus)
    def status(self, _wanted: GetStatus) -> Standing:
        return self._directory.standing()

    def is_dirty(self) -> bool:
        """Says whether there are changes that no snapshot holds yet."""
        return self._directory.standing().dirty

    def size(self) -> Size:
        """Returns how much there is: entries over all planes, and their bytes."""
        return self._directory.standing().size

    def find_current(self) -> SnapshotInfo | None:
        """Returns the snapshot that holds everything as it is now, or None if none does."""
        return None if self.is_dirty() else super().find_current()

    @does(TakeSnapshot)
    def snapshot(self, wanted: TakeSnapshot) -> SnapshotInfo:
        return self._directory.take(wanted)

    @does(RestoreSnapshot)
    def restore(self, wanted: RestoreSnapshot) -> Restored:
        return self._directory.go_back(wanted)

    @does(UndoChange)
    def undo(self, wanted: UndoChange) -> Restored:
        return self._directory.take_back(wanted)

    @does(RedoChange)
    def redo(self, wanted: RedoChange) -> Restored:
        return self._directory.redo(limit=wanted.limit)

    @takes(Merge)
    def merge(self, wanted: Merge) -> MergeResult:
        """Brings in what a fork of this namespace (or its origin) has changed."""
        return self._directory.merge(called(wanted.other), prefer=wanted.prefer)

    @takes(ForkNamespace)
    def fork(self, wanted: ForkNamespace) -> Namespace:
        """Makes a new namespace with the same content, as it is now or was at a snapshot.

        What is in the directory and in no snapshot is one first, and part of it.
        """
        if wanted.at is None:
            check_free(self._sibling(wanted.name))
            self._directory.snapshot_if_changed(reason=f"before forking {wanted.name}")
        return super().fork(wanted.name, at=wanted.at)

    @takes(Historic)
    def history(self, wanted: Historic) -> History:
        """Returns what happened to one thing, newest first: a path, or what a `Name` names."""
        name, limit, before = to_name(wanted.name), wanted.limit, wanted.before
        return self._directory.history(name, limit=limit, before=before)


class ComparingDirectory(Comparing):
    """Two moments of a namespace, of which the present one is a directory."""

    def __init__(self, directory: Attended, handle: Handle) -> None:
        super().__init__(handle)
        self._directory = directory
        self._only_names = True
        """Whether nobody reads the content of what differs."""

    @contextmanager
    def roots(
        self, old: SnapshotLike | None, new: SnapshotLike | None
    ) -> Generator[tuple[StagedObjects, Root, Root]]:
        """Opens the roots of two moments, with what is needed to read below them."""
        if new is not None:
            with super().roots(old, new) as found:
                yield found
            return
        with (
            self._directory.looked_at(only_names=self._only_names) as handle,
            Comparing(handle).roots(old, None) as found,
        ):
            yield found

    def page_of_history(self, name: Name, *, limit: int, before: int | None) -> History:
        """Returns as much of what happened to one thing as can be told quickly."""
        if before is not None:
            return super().page_of_history(name, limit=limit, before=before)
        with self._directory.looked_at(only_names=True) as handle:
            return Comparing(handle).page_of_history(name, limit=limit, before=None)

    def text(self, wanted: GetTextDiff, *, is_over: Callable[[], bool] = lambda: False) -> str:
        """Returns the unified diff of one file; empty if nothing differs."""
        self._only_names = False
        return super().text(wanted, is_over=is_over)

    def patches(self, wanted: TextDiffs) -> list[Patch]:
        """Returns every change between two moments with what it takes to do it again."""
        self._only_names = False
        return super().patches(wanted)

    def page_of_texts(
        self,
        wanted: GetTextDiffs,
        *,
        after: Place | None,
        most: int,
        is_over: Callable[[], bool] = lambda: False,
    ) -> TextsPage:
        """Returns a part of the changes with their unified diffs."""
        self._only_names = False
        return super().page_of_texts(wanted, after=after, most=most, is_over=is_over)


class DirectoryObjects(Objects):
    """The objects of a vault, and those of a directory that are in no snapshot yet."""

    def __init__(self, handle: Handle, source: StagedObjects, stage: Stage) -> None:
        super().__init__(handle.context, handle.tenant_id)
        self._handle, self._source, self._stage = handle, source, stage

    def unbound(self) -> Objects:
        """Returns the same objects, for longer than the directory is looked at.

        Raises `TooLarge` where they are not in memory: they are let go of then.
        """
        if self._stage.has_spilled:
            message = f"too much in {self._handle.name} is in no snapshot yet to be sent"
            raise TooLarge(message).with_hint("Take a snapshot, and ask for it there.")
        return DirectoryObjects(self._handle, self._source.unbound(), self._stage)

    def ahead(self, object_ids: Sequence[ObjectId]) -> Objects:
        """Returns the same objects, of which these will be read soon, in this order."""
        return DirectoryObjects(self._handle, self._source.ahead(object_ids), self._stage)

    def get_root(self, root_id: ObjectId) -> Root:
        """Returns the roots of all planes that one root names."""
        return self._source.get_root(root_id)

    def get(self, object_id: ObjectId) -> bytes:
        """Returns one object's bytes."""
        return self.get_many([object_id])[object_id]

    def get_many(self, object_ids: Sequence[ObjectId]) -> dict[ObjectId, bytes]:
        """Returns the bytes of each object."""
        return self._source.get_many(object_ids)

    get_short = get_many

    def get_nodes(self, ids: Sequence[ObjectId], /) -> list[Node]:
        """Returns map nodes in the order asked for."""
        return self._source.get_nodes(ids)
