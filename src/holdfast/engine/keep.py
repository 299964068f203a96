"""Keeps what is in an attached directory as a snapshot of its namespace.

The directory is read first, outside of any transaction: that may take seconds. Then one plan
folds what changed into the files map and appends the snapshot (`advance.py`). What was written
through the namespace's own files meanwhile is not the directory's: it becomes a snapshot of its
own before the directory's state takes its place.
"""

import re
from typing import Final

from holdfast.catalog.port import Transaction
from holdfast.engine.advance import Folded, Mark, Move, Note, advance, safety, size_of
from holdfast.engine.capture import Captured
from holdfast.engine.collect import Progress
from holdfast.engine.directory import Directory, combine
from holdfast.engine.handle import Handle
from holdfast.engine.limits import check_quota
from holdfast.engine.stage import Stage, Withdrawn
from holdfast.errors import Busy, ObjectMissing, PackMissing
from holdfast.ids import ObjectId
from holdfast.model import Head, Kind, Plane, Size, SnapshotInfo
from holdfast.packs import ObjectKind
from holdfast.tree import apply

ATTEMPTS: Final = 3
"""Times the directory is read, should the collector take something that was to be used again."""


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
    progress: Progress,
) -> tuple[SnapshotInfo | None, Captured]:
    """Takes a snapshot of the directory; with `only_if_changed`, None if nothing differs.

    `keeps_redo` leaves the way forward open: the snapshot is taken on the way to a redo.
    """
    handle.ensure()
    attempts_left = ATTEMPTS
    while True:
        attempts_left -= 1
        with Stage(handle.context, handle.tenant_id) as stage:
            captured = directory.look(stage, including=including, litter=litter, progress=progress)
            taking = _Taking(handle, captured, stage, note, kind)
            taking.only_if_changed, taking.keeps_redo = only_if_changed, keeps_redo
            try:
                done = advance(handle, taking.plan)
            except _Overtaken:
                if not attempts_left:
                    raise
                continue
            except (ObjectMissing, PackMissing):
                # What the index stands for was forgotten and collected: read all of it anew.
                if not attempts_left or captured.known.index.find(b"") is None:
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
        self.root = ObjectId(b"")
        if self._is_sealed:
            stage.seal()

    def plan(self, transaction: Transaction, folded: Folded) -> Move:
        """Returns the snapshots to append: the directory's, and before it what it replaces."""
        head, before = folded.head, folded.root.plane(Plane.FILES)
        if not self._is_sealed:
            self._stage.pour_into(folded.stage)
        applied = apply(folded.source, before, combine(folded.source, self._captured, before))
        folded.stage.add_nodes(applied.nodes)
        self.root = applied.root
        if self.only_if_changed and not applied.edits:
            return Move(position=head.position, redo=head.redo)
        more = size_of(applied.edits)
        check_quota(head, Size(0, more.bytes))
        marks: list[Mark] = []
        if applied.edits and folded.is_dirty and before != self._captured.known.root:
            kept = safety(self._handle, transaction, folded, reason="before the directory's files")
            marks += [kept] if kept is not None else []
        root = folded.root.replacing(files=applied.root)
        root_id = folded.root_id
        if applied.edits:
            root_id = folded.stage.add(root.encode(), ObjectKind.NODE)
        marks.append(
            Mark(
                id=self._id,
                kind=self._kind,
                root=root_id,
                size=folded.size + more,
                parent=marks[0].id if marks else head.position,
                note=self._note,
                detail=self._captured.coverage.to_detail(),
            )
        )
        is_changed = bool(applied.edits) or folded.is_dirty
        redo = () if is_changed and not self.keeps_redo else head.redo
        return Move(
            marks=marks,
            position=self._id,
            redo=redo,
            # A file that is written meanwhile is kept first, and not left on top.
            exact=bool(applied.edits),
            also=self._record,
        )

    def _record(self, transaction: Transaction, _head: Head) -> None:
        if not self._is_sealed:
            return
        try:
            self._stage.record(transaction)
        except Withdrawn as exc:
            # Not passed on as it is: making the plan again would not read anything again.
            raise _Overtaken(str(exc)) from exc
