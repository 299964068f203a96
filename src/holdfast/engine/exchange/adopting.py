"""Makes what somebody told of a files map a snapshot: all of it in one transaction, or nothing.

Both sides of an exchange do this. A server keeps the directory that a client pushed (`commit`); a
client lets its own timeline, and the directory that is attached to it, become what the server
shows (`adopt`). The map is built here, from what was there and the edits; it has to have the very
root that the other side names. Every chunk has to be there, and is stamped in the transaction
that moves the head (`docs/adr/0003-epochs-make-collection-safe.md`).

A commit names the map that its edits begin with. Should the namespace show another by now, that is
a conflict, unless the caller says that the directory wins: then what was there is a snapshot first.
A commit that is repeated is recognised by the name that the client gave it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.coverage import Lacking
from holdfast.engine.core.growth import size_of
from holdfast.engine.core.limits import check_quota
from holdfast.engine.exchange.edits import (
    MAX_EDITS_BYTES,
    Edits,
    check_blob,
    decode_edits,
)
from holdfast.engine.exchange.reach import Reach, Survey
from holdfast.engine.exchange.receiving import unpack
from holdfast.engine.files.fitting import check_tree
from holdfast.engine.objects import content
from holdfast.engine.pending.fold import Folded
from holdfast.engine.planes.handle import Handle, dated
from holdfast.engine.timeline.counting import count_folded
from holdfast.engine.timeline.head import Mark, Move, advance, replacing, safety
from holdfast.engine.timeline.snapshots import back_from, check_size
from holdfast.entries import Blob, decode_entry
from holdfast.errors import HeadMoved, InvalidValue, TooLarge
from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP, Head, Kind, Plane, Size, SnapshotInfo
from holdfast.model.changes import Committed
from holdfast.operations.snapshots import Note
from holdfast.packs import ObjectKind
from holdfast.tree import Applied, Edit, apply, diff

COMMIT_KEY: Final = "commit"
"""In a snapshot's detail: the name that a client gave to what made it."""

RECENT: Final = 8
"""Snapshots among which a commit that is repeated is looked for: it is so within a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A directory as a client saw it: what to change in which map, and what that leads to."""

    name: str
    """Chosen by the client, anew for each commit: a repeated one is done once."""
    base: ObjectId
    """The files map that the edits begin with: the one that is there, or the empty one."""
    root: ObjectId
    """The files map that they lead to."""
    edits: bytes = b""
    listed: Blob | None = None
    """The edits, if they are many: content that was sent before."""
    pack: bytes = b""
    """Chunks that come along, if they are few."""
    seen: str | None = None
    """The snapshot that the client believes to be the last, for the message of a conflict."""
    overwrite: bool = False
    """Whether the directory wins, whatever the namespace shows."""
    aside: bool = False
    """Whether it is only kept: the namespace goes on to show what it shows."""
    keeps_redo: bool = False
    """Whether the way forward stays open: it is made on the way to a redo."""
    kind: Kind = Kind.SNAPSHOT
    note: Note = field(default_factory=Note)
    detail: Mapping[str, Any] = field(default_factory=dict[str, Any])


def commit(handle: Handle, told: Commit, *, is_shared: bool) -> Committed:
    """Makes a snapshot of what a client tells of its directory."""
    committing = _Committing(handle, told, is_shared=is_shared)
    done, found = advance(handle, committing.plan, creates=True)
    snapshot = next((each for each in done if each.id == committing.id), found)
    if snapshot is None:
        raise InvalidValue("no snapshot was made")
    return Committed(snapshot=snapshot, replaced=snapshot.parent)


def adopt(
    handle: Handle, edits: Edits, *, base: ObjectId, root: ObjectId, note: Note, lacking: Lacking
) -> SnapshotInfo | None:
    """Lets a namespace, and its directory, become what another side shows; None if it is so.

    `base` is a map that both sides know; the edits lead from it to `root`. What is there and in
    no snapshot is kept first. `lacking` is what the other side's snapshot does not vouch for.
    """

    def plan(transaction: Transaction, folded: Folded) -> Move[None]:
        current = folded.root.plane(Plane.FILES)
        if current == root:
            return Move(position=folded.head.position, redo=folded.head.redo, result=None)
        built = _Built.of(handle, transaction, folded, edits, base=base, root=root)
        changed = list(diff(folded.source, current, root))
        marks = replacing(
            handle,
            transaction,
            folded,
            kind=Kind.IMPORT,
            root=folded.stage.add(folded.root.replacing(files=root).encode(), ObjectKind.NODE),
            size=folded.size + size_of(changed),
            reason="before following the server",
            note=note,
            lacking=lacking,
        )
        at = marks[-1].id
        return Move(marks=marks, position=at, result=None, exact=True, also=built.release)

    done, _ = advance(handle, plan, creates=True)
    return done[-1] if done else None


class _Built:
    """A map that was built from edits, with all that it needs in the stage."""

    def __init__(self, applied: Applied, needed: set[ObjectId]) -> None:
        self.applied, self._needed = applied, needed

    @classmethod
    def of(
        cls,
        handle: Handle,
        transaction: Transaction,
        folded: Folded,
        edits: Edits,
        *,
        base: ObjectId,
        root: ObjectId,
        fresh: Mapping[ObjectId, bytes] | None = None,
        is_shared: bool = True,
    ) -> "_Built":
        """Builds the map; raises unless it has the root that was named, and all its chunks."""
        source, stage, pack = folded.source, folded.stage, fresh or {}
        check_tree(source, base, edits)
        applied = apply(source, base, edits)
        if applied.root != root:
            raise InvalidValue("the changes do not lead to the root that was named")
        reach = Reach(
            handle,
            transaction,
            folded.head.namespace_id,
            source=source,
            files=folded.root.plane(Plane.FILES),
            is_shared=is_shared,
        )
        reach.look_near(edits)
        for data in pack.values():
            stage.add(data, ObjectKind.CHUNK)
        survey = Survey(reach, source, {name: len(data) for name, data in pack.items()})
        entries = [decode_entry(entry) for entry in edits.values() if entry is not None]
        survey.check([entry for entry in entries if isinstance(entry, Blob)])
        stage.add_nodes(applied.nodes)
        stage.reuse(survey.needed)
        return cls(applied, survey.needed)

    def release(
        self, transaction: Transaction, head: Head, also: Collection[ObjectId] = ()
    ) -> None:
        """Forgets that objects were sent: the snapshot keeps them, or they have served."""
        sent = transaction.find_received(head.namespace_id, [*self._needed, *also])
        transaction.drop_received(head.namespace_id, list(sent))


class _Committing:
    """The plan of one commit."""

    def __init__(self, handle: Handle, told: Commit, *, is_shared: bool) -> None:
        self._handle, self._told, self._is_shared = handle, told, is_shared
        self._fresh = unpack(told.pack) if told.pack else {}
        self._edits = None if told.listed else decode_edits(told.edits, handle.context.limits)
        self.id = handle.context.ids.snapshot()

    def plan(self, transaction: Transaction, folded: Folded) -> Move[SnapshotInfo | None]:
        """Returns the snapshots to append: what is told, and before it what it replaces."""
        head, told = folded.head, self._told
        found = self._find(transaction, head)
        if found is not None:
            return Move(position=head.position, redo=head.redo, result=found)
        current = folded.root.plane(Plane.FILES)
        base = self._base(folded, current)
        edits: Edits = {}
        listing: Collection[ObjectId] = ()
        if base is not None:
            edits, listing = self._decoded(transaction, folded)
        built = _Built.of(
            self._handle,
            transaction,
            folded,
            edits,
            base=current if base is None else base,
            root=told.root,
            fresh=self._fresh,
            is_shared=self._is_shared,
        )
        changed = built.applied.edits
        if base not in (None, current):
            changed = list(diff(folded.source, current, told.root))
        marks = self._marks(transaction, folded, changed, replaces=base not in (None, current))
        is_new = (bool(changed) or folded.is_changed) and not (told.keeps_redo or told.aside)
        redo = () if is_new else head.redo

        def release(writing: Transaction, head: Head) -> None:
            built.release(writing, head, listing)

        return Move(
            marks=marks,
            position=marks[-1].id,
            redo=redo,
            result=None,
            # A file that is written meanwhile is a conflict, and not something on top.
            exact=bool(changed),
            also=release,
        )

    def _find(self, transaction: Transaction, head: Head) -> SnapshotInfo | None:
        """Returns the snapshot that this very commit has made before."""
        newest = transaction.timeline(head.namespace_id, before=None, most=RECENT)
        for snapshot in newest:
            if snapshot.detail.get(COMMIT_KEY) == self._told.name:
                return dated(self._handle.context, head, snapshot)
        return None

    def _base(self, folded: Folded, current: ObjectId) -> ObjectId | None:
        """Returns the map that the edits are applied to; None if there is nothing to do."""
        told = self._told
        if current == told.root:
            return None
        if current == told.base or ((told.overwrite or told.aside) and told.base == EMPTY_MAP):
            return told.base
        head, since = folded.head, " and changed since" if folded.is_changed else ""
        raise HeadMoved(head.name, expected=told.seen, actual=f"{head.position}{since}")

    def _decoded(
        self, transaction: Transaction, folded: Folded
    ) -> tuple[Edits, Collection[ObjectId]]:
        """Returns the edits, and the objects that they were sent in."""
        if self._edits is not None:
            return self._edits, ()
        listed, limits = self._told.listed or Blob(0, 0, b""), self._handle.context.limits
        check_blob(b"changes", listed, limits)
        if listed.size > MAX_EDITS_BYTES:
            message = f"changes may have {MAX_EDITS_BYTES} bytes together"
            raise TooLarge(message)
        reach = Reach(
            self._handle,
            transaction,
            folded.head.namespace_id,
            source=folded.source,
            files=EMPTY_MAP,
            is_shared=self._is_shared,
        )
        survey = Survey(reach, folded.source, {})
        survey.check([listed])
        return decode_edits(content.read(folded.source, listed), limits), survey.needed

    def _marks(
        self, transaction: Transaction, folded: Folded, changed: list[Edit], *, replaces: bool
    ) -> list[Mark]:
        head, told, root_id = folded.head, self._told, folded.root_id
        more = size_of(changed)
        check_quota(head, Size(0, more.bytes))
        if changed:
            root = folded.root.replacing(files=told.root)
            root_id = folded.stage.add(root.encode(), ObjectKind.NODE)
        marks: list[Mark] = []
        if replaces:
            kept = safety(self._handle, transaction, folded, reason="before a directory's files")
            marks += [kept] if kept is not None else []
        mark = Mark(
            id=self.id,
            kind=told.kind,
            root=root_id,
            size=folded.size + more,
            parent=marks[0].id if marks else head.position,
            note=told.note,
            detail={**told.detail, COMMIT_KEY: told.name},
            counts=None if marks else count_folded(folded, then=changed, files=told.root),
        )
        check_size(self._handle, transaction, folded.source, root_id, size=mark.size)
        marks.append(mark)
        if told.aside and root_id != folded.root_id:
            reason = "after a directory was set aside"
            marks.append(back_from(self._handle, folded, mark, reason=reason))
        return marks
