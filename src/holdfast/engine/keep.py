"""Keeps what is in an attached directory as a snapshot of its namespace.

The directory is read first, outside of any transaction: that may take seconds. Then one plan
folds what changed into the files map and appends the snapshot (`advance.py`). What was written
through the namespace's own files meanwhile is not the directory's: it becomes a snapshot of its
own before the directory's state takes its place.
"""

import re
from contextlib import suppress
from typing import Final

from holdfast.catalog.transaction import Transaction
from holdfast.engine.advance import (
    Folded,
    Mark,
    Move,
    Note,
    advance,
    nothing_more,
    safety,
)
from holdfast.engine.capture import Captured, Rereading
from holdfast.engine.collect import Progress
from holdfast.engine.directory import Directory, Filled, fill
from holdfast.engine.growth import size_of
from holdfast.engine.handle import Handle
from holdfast.engine.limits import check_quota
from holdfast.engine.stage import Stage, StagedObjects, Withdrawn
from holdfast.engine.trust import find_lost_packs
from holdfast.errors import Busy, Damaged
from holdfast.ids import ObjectId, object_id_of
from holdfast.model import EMPTY_MAP, Head, Kind, Plane, Root, Size, SnapshotInfo
from holdfast.packs import ObjectKind
from holdfast.tree import Edit, build, iterate

ATTEMPTS: Final = 3
"""Times the directory is read, should the collector take something that was to be used again."""


STANDING_IN: Final = 100
"""Snapshots that are looked at to find out what a root that is lost has named."""


class _Overtaken(Busy):
    """The collector took something that the capture was about to use again."""


def keep(
    handle: Handle,
    directory: Directory,
    note: Note,
    *,
    kind: Kind = Kind.SNAPSHOT,
    only_if_changed: bool = False,
    keeps_redo: bool = False,
    including: frozenset[bytes] = frozenset(),
    litter: re.Pattern[bytes] | None = None,
    rereading: Rereading = Rereading.SOME,
    progress: Progress,
) -> tuple[SnapshotInfo | None, Captured]:
    """Takes a snapshot of the directory; with `only_if_changed`, None if nothing differs.

    `keeps_redo` leaves the way forward open: the snapshot is taken on the way to a redo.
    """
    handle.ensure()
    # Files that are believed unread lie in packs: those have to be there.
    directory.distrust(find_lost_packs(handle.context, handle.tenant_id))
    attempts_left = ATTEMPTS
    while True:
        attempts_left -= 1
        with Stage(handle.context, handle.tenant_id) as stage:
            captured = directory.look(
                stage,
                including=including,
                litter=litter,
                stores=True,
                rereading=rereading,
                progress=progress,
            )
            taking = _Taking(handle, captured, stage, note, kind)
            taking.only_if_changed, taking.keeps_redo = only_if_changed, keeps_redo
            try:
                stand_in = taking.stand_in if captured.is_whole else None
                done = advance(handle, taking.plan, stand_in=stand_in)
            except _Overtaken:
                if not attempts_left:
                    raise
                continue
            except Damaged:
                # What the index stands for was collected, or went bad: read all of it anew.
                if not attempts_left or captured.is_whole:
                    raise
                directory.forget_index()
                continue
            stage.keep()
        directory.learn(captured, taking.root)
        return (done[-1] if done else None), captured


class _Taking:
    """The plan of one snapshot of a directory."""

    only_if_changed = False
    keeps_redo = False

    def __init__(
        self, handle: Handle, captured: Captured, stage: Stage, note: Note, kind: Kind
    ) -> None:
        self._handle = handle
        self._captured = captured
        self._stage = stage
        self._note = note
        self._kind = kind
        self._is_sealed = stage.has_spilled
        self._id = handle.context.ids.snapshot()
        self._lost: dict[str, object] = {}
        self.root = ObjectId(b"")
        if self._is_sealed:
            stage.seal()

    def plan(self, transaction: Transaction, folded: Folded) -> Move:
        """Returns the snapshots to append: the directory's, and before it what it replaces."""
        head, before = folded.head, folded.root.plane(Plane.FILES)
        if not self._is_sealed:
            self._stage.pour_into(folded.stage)
        filled = fill(folded.source, self._captured, before)
        folded.stage.add_nodes(filled.nodes)
        self.root, is_edited = filled.root, filled.root != before
        if self.only_if_changed and not is_edited:
            # Where all was read, what went bad of it is stored anew all the same.
            is_whole = self._captured.is_whole
            also = self._record if is_whole else nothing_more
            return Move(position=head.position, redo=head.redo, also=also)
        more = self._growth(folded, filled)
        check_quota(head, Size(0, more.bytes))
        marks: list[Mark] = []
        if is_edited and folded.is_dirty and before != self._captured.known.root:
            kept = safety(self._handle, transaction, folded, reason="before the directory's files")
            marks += [kept] if kept is not None else []
        root = folded.root.replacing(files=filled.root)
        root_id = folded.root_id
        if is_edited:
            root_id = folded.stage.add(root.encode(), ObjectKind.NODE)
        marks.append(
            Mark(
                id=self._id,
                kind=self._kind,
                root=root_id,
                size=folded.size + more,
                parent=marks[0].id if marks else head.position,
                note=self._note,
                detail=self._captured.coverage.to_detail() | self._lost,
            )
        )
        is_changed = is_edited or folded.is_dirty
        redo = () if is_changed and not self.keeps_redo else head.redo
        return Move(
            marks=marks,
            position=self._id,
            redo=redo,
            # A file that is written meanwhile is kept first, and not left on top.
            exact=is_edited,
            also=self._record,
        )

    def stand_in(self, transaction: Transaction, source: StagedObjects, head: Head) -> Root:
        """Returns a root in place of the head's, which cannot be read.

        Its name proves which planes it named: those of the directory, as it is or was when it was
        last read, and those of another snapshot. If none does, the other planes are those of the
        newest snapshot that can be read, and the new snapshot says so.
        """
        held = {key: entry for key, entry in self._captured.changes.items() if entry is not None}
        files = {build(sorted(held.items())).root, self._captured.known.former or EMPTY_MAP}
        others = [Root(), Root(memories=None)]
        for snapshot in transaction.timeline(head.namespace_id, before=None, most=STANDING_IN):
            with suppress(Damaged):
                others.insert(-2, source.get_root(snapshot.root))
        for other in others:
            for candidate in (other.replacing(files=root) for root in files):
                if object_id_of(candidate.encode()) == head.root:
                    return candidate
        self._lost = {"lost": [Plane.STORE.value, Plane.SESSIONS.value]}
        # What is remembered is in rows, too.
        return others[0].replacing(files=EMPTY_MAP, memories=None)

    def _growth(self, folded: Folded, filled: Filled) -> Size:
        """Returns by how much the namespace grows; what was there may no longer be readable."""
        if filled.edits is not None and not self._lost:
            return size_of(filled.edits)
        entries = [entry for entry in self._captured.changes.values() if entry is not None]
        for plane in (Plane.STORE, Plane.SESSIONS, Plane.MEMORIES):
            entries += [entry for _, entry in iterate(folded.source, folded.root.plane(plane))]
        total = size_of([Edit(b"", None, entry) for entry in entries])
        return Size(total.entries - folded.size.entries, total.bytes - folded.size.bytes)

    def _record(self, transaction: Transaction, _head: Head) -> None:
        if not self._is_sealed:
            return
        try:
            self._stage.record(transaction)
        except Withdrawn as exc:
            # Not passed on as it is: making the plan again would not read anything again.
            raise _Overtaken(str(exc)) from exc
