"""Keeps what is in an attached directory as a snapshot of its namespace.

The directory is read first, outside of any transaction: that may take seconds. Then one plan folds
what changed into the files map and appends the snapshot (`timeline/head.py`). What was written
through the namespace's own files meanwhile is in it as well; where both changed the same path, the
namespace's version is a snapshot of its own before the directory's takes its place, and the new
one names it (`joining.py`).
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from holdfast.catalog.transaction import Transaction
from holdfast.engine.capturing.capture import Rereading
from holdfast.engine.capturing.captured import Captured
from holdfast.engine.core.coverage import Coverage
from holdfast.engine.core.growth import size_of
from holdfast.engine.core.limits import check_quota
from holdfast.engine.core.lineage import FOUND
from holdfast.engine.core.paths import legible, to_text
from holdfast.engine.directory.directory import Directory
from holdfast.engine.directory.filling import Filled, fill
from holdfast.engine.directory.joining import IsTorn, nothing_torn
from holdfast.engine.objects.stage import Stage, StagedObjects, Withdrawn
from holdfast.engine.objects.trust import find_lost_lately
from holdfast.engine.pending.fold import Folded
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.unit import carry_out
from holdfast.engine.timeline.counting import count_files, count_folded
from holdfast.engine.timeline.head import Mark, Move, advance, safety
from holdfast.engine.timeline.snapshots import back_from, check_size
from holdfast.entries import Directory as Folder
from holdfast.entries import decode_entry
from holdfast.errors import Damaged, NamespaceNotFound, Unavailable
from holdfast.ids import NamespaceId, ObjectId, SnapshotId, object_id_of
from holdfast.model.basics import EMPTY_MAP, Head, Kind, Plane, Root, Size, SnapshotInfo
from holdfast.operations.snapshots import Note
from holdfast.packs import ObjectKind
from holdfast.progress import Progress
from holdfast.tree import Edit, build, diff, iterate

OwnFiles = tuple[ObjectId, int]
"""A files map, and the id of the namespace that it was made for; 0 for one that is yet to be."""

MOST_NAMED: Final = 100
"""Paths that a snapshot names of those at which the namespace's version gave way."""

STANDING_IN: Final = 100
"""Snapshots that are looked at to find out what a root that is lost has named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """What is true of a directory that is a copy of ours, lent to somebody who works in it.

    What makes its namespace larger than a snapshot may be is refused with `TooLarge`.
    """

    whose: NamespaceId
    """The namespace. Where that is another by now, it is gone: raises `NamespaceNotFound`."""
    before: str
    """Why the namespace's own state is kept first, where something in it is in no snapshot."""
    aside: str | None = None
    """Why what differs is in a snapshot and not in the head, which then shows what was there
    before: that is the snapshot that `keep` returns."""


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
    is_alone: bool = False,
    is_torn: IsTorn | None = None,
    lent: Lent | None = None,
    progress: Progress,
) -> tuple[SnapshotInfo | None, Captured]:
    """Takes a snapshot of the directory; with `only_if_changed`, None if nothing differs.

    `keeps_redo` leaves the way forward open: the snapshot is taken on the way to a redo. One that
    `is_alone` holds the directory, and nothing that was written through the namespace since both
    last agreed: what the namespace has is a snapshot before. `is_torn` says of what is in the
    directory whether the namespace's own takes its place: without it, what is half-way in raises
    `Unavailable`, and is nobody's version. `lent` is what more is true of a directory that is a
    copy of ours.
    """
    if is_torn is None:
        _check_whole(directory)
    # Files that are believed unread lie in packs: those have to be there.
    directory.distrust(find_lost_lately(handle.context, handle.tenant_id))

    def attempt(stage: Stage) -> tuple[SnapshotInfo | None, Captured]:
        captured = directory.look(
            stage,
            including=including,
            litter=litter,
            stores=True,
            rereading=rereading,
            progress=progress,
        )
        taking = _Taking(
            replace(handle, directory=directory.attaching),
            directory,
            captured,
            stage,
            note,
            kind,
            only_if_changed,
            keeps_redo,
            is_alone,
            is_torn or nothing_torn,
            lent,
        )
        try:
            done, (root, namespace) = taking.advance()
        except Damaged as exc:
            if captured.is_whole:
                raise
            # What the index stands for was collected, or went bad: read all of it anew.
            directory.forget_index()
            raise Withdrawn(str(exc), batch=stage) from exc
        taken = done[-1] if done else None
        whose, at = (namespace, None) if taken is None else (taken.namespace_id, taken.id)
        directory.learn(captured, root, namespace=whose, snapshot=at)
        return taken, captured

    return carry_out(handle, attempt, is_around=True)


def _check_whole(directory: Directory) -> None:
    """Raises `Unavailable` while what was being brought in could not be, nor be taken back."""
    record = directory.journal.find()
    if record is not None and record.state == "bringing":
        message = (
            f"what was written through the namespace is half in {directory.path}, which could not "
            "be written to"
        )
        raise Unavailable(message).with_hint(
            "Make room, or let it be written to, and try again: then it is put right first."
        )


@dataclass(frozen=True, slots=True)
class _Taking:
    """One snapshot of a directory that was read."""

    handle: Handle
    directory: Directory
    captured: Captured
    stage: Stage
    note: Note
    kind: Kind
    only_if_changed: bool
    keeps_redo: bool
    is_alone: bool
    is_torn: IsTorn
    lent: Lent | None

    def advance(self) -> tuple[list[SnapshotInfo], OwnFiles]:
        """Appends it; returns also the files map that holds the directory, and whose it is."""
        stand_in = self.stand_in if self.captured.is_whole else None
        plan = partial(self.plan, self.handle.context.ids.snapshot())
        ahead = None
        if self.stage.has_spilled:
            self.stage.seal()
            ahead = self.stage
        creates = self.lent is None
        return advance(self.handle, plan, creates=creates, stand_in=stand_in, ahead=ahead)

    def plan(
        self, snapshot_id: SnapshotId, transaction: Transaction, folded: Folded
    ) -> Move[OwnFiles]:
        """Returns the snapshots to append: the directory's, and before it what it replaces."""
        head, before = folded.head, folded.root.plane(Plane.FILES)
        if self.lent is not None and self.lent.whose != head.namespace_id:
            raise NamespaceNotFound(self.handle.name)
        self.stage.pour_into(folded.stage)
        whose = head.namespace_id
        filled = fill(
            folded.source,
            self.captured,
            before,
            namespace=whose,
            stood_at=before if self.is_alone else None,
            is_torn=self.is_torn,
        )
        folded.stage.add_nodes(filled.nodes)
        is_edited, result = filled.root != before, (filled.own, whose)
        if self.only_if_changed and not is_edited and not filled.torn:
            # Where all was read, what went bad of it is stored anew all the same.
            stores = self.captured.is_whole or filled.own != self.captured.last.root
            return Move(position=head.position, redo=head.redo, result=result, stores=stores)
        more = self._growth(folded, filled)
        check_quota(head, Size(0, more.bytes))
        marks = self._kept(transaction, folded, filled)
        root = folded.root.replacing(files=filled.root)
        root_id = folded.root_id
        if is_edited:
            root_id = folded.stage.add(root.encode(), ObjectKind.NODE)
        lost = {"lost": [plane.value for plane in folded.lost]} if folded.lost else {}
        marks.append(
            Mark(
                id=snapshot_id,
                kind=self.kind,
                root=root_id,
                size=folded.size + more,
                parent=marks[-1].id if marks else head.position,
                note=self.note,
                detail=self._coverage(filled).to_detail() | lost | _told(filled, marks, head),
                counts=_count(folded, filled, marks),
            )
        )
        if self.lent is not None and more.bytes > 0:
            size = marks[-1].size
            check_size(self.handle, transaction, folded.source, root_id, size=size)
        if self.lent is not None and self.lent.aside is not None and is_edited:
            marks.append(back_from(self.handle, folded, marks[-1], reason=self.lent.aside))
        is_changed = is_edited or folded.is_changed
        return Move(
            marks=marks,
            position=marks[-1].id,
            redo=() if is_changed and not self.keeps_redo else head.redo,
            result=result,
            # A file that is written meanwhile is kept first, and not left on top.
            exact=is_edited,
            of_directory=filled.own,
        )

    def _kept(self, transaction: Transaction, folded: Folded, filled: Filled) -> list[Mark]:
        """Returns what is kept before: the namespace's files, if some of them give way.

        And the directory as it is, where a crash may have left something that gives way itself.
        """
        marks: list[Mark] = []
        if filled.gave_way or filled.is_blind or self.is_alone or self.lent is not None:
            reason = "before the directory's files" if self.lent is None else self.lent.before
            kept = safety(self.handle, transaction, folded, reason=reason)
            marks += [kept] if kept is not None else []
        if filled.torn:
            root = folded.stage.add(
                folded.root.replacing(files=filled.own).encode(), ObjectKind.NODE
            )
            edits = diff(folded.source, folded.root.plane(Plane.FILES), filled.own)
            marks.append(
                Mark(
                    id=self.handle.context.ids.snapshot(),
                    kind=Kind.SAFETY,
                    root=root,
                    size=folded.size + size_of([*edits]),
                    parent=marks[-1].id if marks else folded.head.position,
                    note=Note(reason=FOUND),
                    is_asked=False,
                )
            )
        return marks

    def stand_in(
        self, transaction: Transaction, source: StagedObjects, head: Head
    ) -> tuple[Root, Sequence[Plane]]:
        """Returns a root in place of the head's, which cannot be read.

        Its name proves which planes it named: those of the directory, as it is or was when it was
        last read, and those of another snapshot. If none does, the other planes are those of the
        newest snapshot that can be read, and the new snapshot says so.
        """
        own = {key: entry for key, entry in self.captured.changes.items() if entry is not None}
        files = {build(sorted(own.items())).root, self.captured.last.former or EMPTY_MAP}
        others = [Root(), Root(memories=None)]
        for snapshot in transaction.timeline(head.namespace_id, before=None, most=STANDING_IN):
            with suppress(Damaged):
                others.insert(-2, source.get_root(snapshot.root))
        for other in others:
            for candidate in (other.replacing(files=root) for root in files):
                if object_id_of(candidate.encode()) == head.root:
                    return candidate, ()
        # What is remembered is in rows, too.
        found = others[0].replacing(files=EMPTY_MAP, memories=None)
        return found, (Plane.STORE, Plane.SESSIONS)

    def _coverage(self, filled: Filled) -> Coverage:
        """Returns what it covers, and how much of what the head holds the rules have taken out."""
        with self.directory.excluding() as is_excluded:
            taken = [
                decode_entry(edit.old)
                for edit in filled.edits or ()
                if edit.new is None and edit.old is not None and is_excluded(edit.key)
            ]
        count = sum(not isinstance(entry, Folder) for entry in taken)
        return self.captured.coverage.excluding(count)

    def _growth(self, folded: Folded, filled: Filled) -> Size:
        """Returns by how much the namespace grows; what was there may no longer be readable."""
        if filled.edits is not None and not folded.lost:
            return size_of(filled.edits)
        entries = [entry for entry in self.captured.changes.values() if entry is not None]
        for plane in (Plane.STORE, Plane.SESSIONS, Plane.MEMORIES):
            entries += [entry for _, entry in iterate(folded.source, folded.root.plane(plane))]
        total = size_of([Edit(b"", None, entry) for entry in entries])
        return Size(total.entries - folded.size.entries, total.bytes - folded.size.bytes)


def _count(folded: Folded, filled: Filled, marks: Sequence[Mark]) -> str | None:
    """Returns how much a snapshot changes against what it follows, if that is in hand."""
    if filled.edits is None or filled.torn:
        return None
    if marks:
        maps = folded.root.plane(Plane.FILES), filled.root
        return count_files(folded.source, filled.edits, maps)
    return count_folded(folded, then=filled.edits, files=filled.root)


def _told(filled: Filled, marks: Sequence[Mark], head: Head) -> dict[str, object]:
    """Returns what a snapshot says of the files that gave way, and where they are."""
    if not filled.gave_way and not filled.is_blind:
        return {}
    names = [legible(to_text(key)) for key in filled.gave_way[:MOST_NAMED]]
    where = marks[0].id if marks else head.position
    told: dict[str, object] = {
        "gave_way": names,
        "gave_way_count": len(filled.gave_way),
        "gave_way_in": where,
    }
    return told | ({"gave_way_unread": True} if filled.is_blind else {})
