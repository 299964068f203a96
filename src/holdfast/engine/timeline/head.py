"""Moves a namespace's head: the one way in which a timeline grows.

Snapshot, restore, undo, fork and merge differ in what they want the head to become, not in
how it gets there. Each is a plan over the folded head; this carries plans out:

1. Read the head and its pending rows in one transaction, fold them into the maps in memory.
2. Ask the plan which snapshots to append and where the head shall stand.
3. Put all new bytes on disk; let an attached directory become what the head will show.
4. In one write transaction: check that the head has not moved, name the new objects, append
   the snapshots, move the head, drop the rows that were folded in.

A crash before 4 has committed leaves the old state and objects that nothing names; after it, the
new state. If another was first, the plan is made again on what that one left (`planes/unit.py`);
the last time it is made inside the write transaction, where nobody can be first.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast import fetching
from holdfast.catalog.namespaces import Agreement
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.coverage import LACKS_NOTHING, Lacking
from holdfast.engine.journal.actions import place_of, places_of, trace_of
from holdfast.engine.journal.chain import append, new_id
from holdfast.engine.objects import reachable as marking
from holdfast.engine.objects.stage import Stage, StagedObjects, Withdrawn
from holdfast.engine.objects.trust import look_ahead
from holdfast.engine.pending.fold import Folded, StandIn, fold, lacking_at
from holdfast.engine.planes.attached import Moving
from holdfast.engine.planes.handle import Handle, dated, term_of
from holdfast.engine.planes.ownership import note_move
from holdfast.engine.planes.unit import carry_out
from holdfast.engine.planes.writers import all_folded
from holdfast.engine.timeline.additions import Look, detail_of, let_go, look_back, takes_part
from holdfast.engine.timeline.counting import count_changes, count_folded
from holdfast.engine.timeline.expecting import ANYTHING, Expected
from holdfast.engine.timeline.leaving import note_left
from holdfast.engine.timeline.room import are_bounded, check_marks
from holdfast.engine.timeline.rows import follow
from holdfast.errors import (
    HoldfastError,
    ObjectMissing,
    OutcomeUnknown,
    PackMissing,
    SnapshotNotFound,
    Unavailable,
)
from holdfast.ids import NamespaceId, ObjectId, SnapshotId
from holdfast.model.basics import UNSTORED_ROOTS, Head, Kind, Plane, Size, SnapshotInfo
from holdfast.model.changes import Changes
from holdfast.operations.snapshots import NOTHING_SAID, Note, said_of
from holdfast.packs import ObjectKind


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot to append."""

    id: SnapshotId
    kind: Kind
    root: ObjectId
    size: Size
    parent: SnapshotId | None
    target: SnapshotId | None = None
    note: Note = NOTHING_SAID
    detail: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    lacking: Lacking = LACKS_NOTHING
    """What the snapshot that it comes from does not vouch for: nor does it."""
    is_asked: bool = True
    """Whether somebody asked for it: else it is there since something had changed."""
    counts: str | None = None
    """How much it changes, as its row keeps it; None if that is not in hand."""
    is_bounded: bool = True
    """Whether a full quota refuses it, as `room` says: not, where it ends what was let begin."""


T = TypeVar("T")


class Move(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """What a plan wants: snapshots to append, in order, and where the head shall stand.

    `result` is what its caller is told. `needs` are snapshots that must still be there when the
    move commits. An `exact` move applies only to the very head that was folded: a row that became
    pending since spoils it. `also` is done in the same transaction. It is a change of the tasks
    `within`: else the door's. What was staged is stored if there are snapshots or `also` something
    else to write, or it `stores` anyway.
    """

    marks: Sequence[Mark] = ()
    position: SnapshotId | None
    redo: Sequence[SnapshotId] = ()
    result: T
    needs: Sequence[SnapshotId] = ()
    exact: bool = False
    also: Callable[[Transaction, Head], None] | None = None
    within: Sequence[str] | None = None
    stores: bool = False
    of_directory: ObjectId | None = None
    """The files map that holds the handle's directory from then on."""


Plan = Callable[[Transaction, Folded], Move[T]]


def advance(
    handle: Handle,
    plan: Plan[T],
    *,
    expected: Expected = ANYTHING,
    creates: bool = False,
    stand_in: StandIn | None = None,
    ahead: Stage | None = None,
) -> tuple[list[SnapshotInfo], T]:
    """Carries a plan out; returns the snapshots that it appended, and its result.

    Raises `HeadMoved` if something else is there than is `expected`. Unless it `creates` one,
    raises `NamespaceNotFound` if there is no head to move. `ahead` is a batch of the caller's unit
    that was sealed before, and is named in the same transaction.
    """
    look_ahead(handle.context, handle.tenant_id)
    moving = _Moving(handle, plan, expected, creates, stand_in, ahead)
    return carry_out(handle, moving.beside_others, last=moving.under_lock)


def safety(
    handle: Handle,
    transaction: Transaction,
    folded: Folded,
    *,
    reason: str,
    detail: Mapping[str, Any] | None = None,
) -> Mark | None:
    """Returns the snapshot that keeps what is there before an operation replaces it.

    None if a snapshot that is not about to go holds it already: what is pending changes nothing.
    """
    if not folded.is_changed and _is_held(handle, transaction, folded):
        return None
    return Mark(
        id=handle.context.ids.snapshot(),
        kind=Kind.SAFETY,
        root=folded.root_id,
        size=folded.size,
        parent=folded.head.position,
        note=Note(reason=reason),
        detail=detail or {},
        lacking=lacking_at(folded),
        is_asked=False,
        counts=count_folded(folded),
    )


def replacing(
    handle: Handle,
    transaction: Transaction,
    folded: Folded,
    *,
    kind: Kind,
    root: ObjectId,
    size: Size,
    reason: str,
    target: SnapshotId | None = None,
    note: Note | None = None,
    detail: Mapping[str, Any] | None = None,
    lacking: Lacking = LACKS_NOTHING,
    changes: Changes | None = None,
) -> list[Mark]:
    """Returns the snapshots of an operation that puts another state in place of what is there.

    The last one shows the new state. Before it stands, where needed, the one that keeps the
    old state; `reason` is what that one says. `lacking` is what the new state does not vouch for.
    `changes` lead to it from all that is there.
    """
    if target is not None and transaction.is_heard():
        # Counted now, beside all writers, and remembered for when it is told while they wait; of a
        # part, what is new is counted then.
        files = folded.source.get_root(root).plane(Plane.FILES)
        with suppress(ObjectMissing):
            handle.objects_in(transaction).count_files(files)
    kept = safety(handle, transaction, folded, reason=reason)
    mark = Mark(
        id=handle.context.ids.snapshot(),
        kind=kind,
        root=root,
        size=size,
        parent=kept.id if kept else folded.head.position,
        target=target,
        note=note or NOTHING_SAID,
        detail=detail or {},
        lacking=lacking,
        counts=count_changes(changes),
    )
    return [kept, mark] if kept else [mark]


@dataclass(frozen=True, slots=True)
class _Moving(Generic[T]):
    """One call of `advance`."""

    handle: Handle
    plan: Plan[T]
    expected: Expected
    creates: bool
    stand_in: StandIn | None
    ahead: Stage | None

    def beside_others(self, stage: Stage) -> tuple[list[SnapshotInfo], T]:
        """Plans without keeping anybody waiting; raises `Withdrawn` if another was faster."""
        handle = self.handle
        try:
            with handle.context.catalog.read() as transaction:
                folded, move = self._planned(transaction, self._head(transaction), stage)
                roots = [mark.root for mark in move.marks]
                look = look_back(transaction, handle, folded.head, roots=roots)
            if not (move.marks or move.also or move.stores):
                return [], move.result
            stage.seal()
            move = _follow(handle, folded.source.unbound(), folded, move)
            done: list[SnapshotInfo] = []
            with self._certain(done), handle.context.work() as transaction:
                self._ask_ahead(transaction, folded, move)
                now, head = self._lock(transaction), folded.head
                is_same = now.namespace_id == head.namespace_id or not head.namespace_id
                if not is_same or now.generation != head.generation:
                    raise Withdrawn(f"others keep changing {head.name!r}")
                if now.sequence != head.sequence:
                    if move.exact:
                        raise Withdrawn(f"others keep changing {head.name!r}")
                    _hold_on(transaction, handle, folded)
                else:
                    now = replace(now, writer=all_folded(now))
                folded = replace(folded, head=replace(now, sequence=head.sequence))
                done += self._commit(transaction, folded, move, look)
            if done and now.sequence == head.sequence and move.also is None:
                note_left(handle, folded, done[-1], position=move.position, redo=move.redo)
        except (ObjectMissing, PackMissing) as exc:
            # The collector was faster: what we saw a moment ago has moved, or is gone. Real
            # damage is still there when the plan is made under the lock, and raised then.
            raise Withdrawn(str(exc)) from exc
        return done, move.result

    def under_lock(self, stage: Stage) -> tuple[list[SnapshotInfo], T]:
        """Plans where nobody can be faster."""
        handle = self.handle
        with handle.context.catalog.read() as transaction:
            look = look_back(transaction, handle, self._head(transaction), roots=None)
        done: list[SnapshotInfo] = []
        with self._certain(done), handle.context.work() as transaction:
            folded, move = self._planned(transaction, self._lock(transaction), stage)
            stage.seal(transaction)
            move = _follow(handle, folded.source, folded, move, transaction)
            folded = replace(folded, head=replace(folded.head, writer=all_folded(folded.head)))
            done += self._commit(transaction, folded, move, look)
        return done, move.result

    @contextmanager
    def _certain(self, done: Sequence[SnapshotInfo]) -> Generator[None]:
        """Looks whether a commit whose answer was lost has happened; raises if it has not.

        With the head locked: a server that has yet to find out that nobody listens holds it.
        """
        try:
            yield
        except OutcomeUnknown as unknown:
            if not done:
                raise  # It appends no snapshot by which it could be known.
            is_there: bool | None = None
            with suppress(HoldfastError), self.handle.context.catalog.write() as transaction:
                head = self._lock(transaction)
                is_there = transaction.find_snapshot(head.namespace_id, done[-1].id) is not None
                if not is_there:
                    raise  # So that what had to be made for the lock is not there, either.
            if is_there is None:
                raise
            if not is_there:
                raise Unavailable(f"nothing was changed: {unknown}") from unknown

    def _head(self, transaction: Transaction) -> Head:
        handle = self.handle
        return (handle.head_or_empty if self.creates else handle.get_head)(transaction)

    def _lock(self, transaction: Transaction) -> Head:
        handle = self.handle
        return (handle.lock_or_create if self.creates else handle.lock)(transaction)

    def _ask_ahead(self, transaction: Transaction, folded: Folded, move: Move[T]) -> None:
        """Asks all that does not depend on what the head is found to be together with it."""
        self.handle.lock_ahead(transaction)
        for snapshot_id in move.needs:
            transaction.ahead(Transaction.find_snapshot, folded.head.namespace_id, snapshot_id)
        if not folded.stage.join_ahead(transaction) and are_bounded(move.marks):
            transaction.ahead(Transaction.get_tenant, self.handle.tenant_id)
        if move.marks and move.marks[-1].target is not None:
            transaction.ahead(Transaction.is_heard)

    def _planned(
        self, transaction: Transaction, head: Head, stage: Stage
    ) -> tuple[Folded, Move[T]]:
        self.expected.check_head(head)
        folded = fold(transaction, self.handle, head, stage, stand_in=self.stand_in)
        self.expected.check_folded(folded)
        if self.ahead is not None:
            # What is about to be named there is read by the plan, and by a directory that follows.
            folded = replace(folded, source=self.ahead.source(folded.source))
        move = self.plan(transaction, folded)
        # What is pending counted when it was written; a directory's content is new.
        stage.counts = bool(self.handle.directory) or not move.marks or are_bounded(move.marks)
        return folded, move

    def _commit(
        self, transaction: Transaction, folded: Folded, move: Move[T], look: Look | None
    ) -> list[SnapshotInfo]:
        handle, head = self.handle, folded.head
        for snapshot_id in move.needs:
            # What is still on the timeline is out of the collector's reach, whatever its age.
            if transaction.find_snapshot(head.namespace_id, snapshot_id) is None:
                raise SnapshotNotFound(snapshot_id)
        joined = folded.stage.record(transaction)
        done: list[SnapshotInfo] = []
        left, text_bytes = list[SnapshotId](), 0
        added = [
            takes_part(handle.context, folded.authors, is_asked=mark.is_asked)
            for mark in move.marks
        ]
        if any(added):
            roots, still = [mark.root for mark in move.marks], (move.position, *move.redo)
            left += let_go(transaction, handle, head, roots=roots, still=still, look=look)
        for mark, is_added in zip(move.marks, added, strict=True):
            number = head.generation + len(done) + 1
            # What was pending is in the first.
            detail = detail_of(0 if done else folded.authors, left) if is_added else {}
            done.append(to_snapshot(handle, head.namespace_id, mark, number=number, detail=detail))
            text_bytes += transaction.add_snapshot(done[-1])
        check_marks(transaction, handle, move.marks, joined, text_bytes=text_bytes)
        if done:
            _move_head(transaction, folded, move, done[-1], text_bytes)
            if handle.directory is not None and move.of_directory is not None:
                # In one step with the snapshot: whoever sees that knows it as the directory's.
                agreement = Agreement(done[-1].id, move.of_directory)
                transaction.set_agreement(head.namespace_id, handle.directory, agreement)
        if self.ahead is not None:
            self.ahead.record(transaction)
        if move.also is not None:
            move.also(transaction, head)
        if done:
            # After the above, which may name objects: those of an import, for one.
            _tell(transaction, handle, folded, move, done)
        return [dated(handle.context, head, snapshot) for snapshot in done]


def _hold_on(transaction: Transaction, handle: Handle, folded: Folded) -> None:
    """Keeps the collector away from content that no pending row names any more.

    Rows have been replaced since they were folded, and with them went what kept their content
    alive; from here on the new snapshot needs it.
    """
    # First: whoever deletes branches has done so before, and is seen, or looks at what we commit.
    transaction.join_epoch(handle.tenant_id)
    for branch in marking.branches_of(folded.pending):
        if transaction.find_branch(handle.tenant_id, branch) is None:
            raise Withdrawn("a conversation was collected while it was to be kept")
    try:
        needed = marking.mark(handle.objects.bound(transaction), [], folded.pending)
    except (ObjectMissing, PackMissing) as exc:
        raise Withdrawn("content was collected while it was to be kept") from exc
    folded.stage.reuse(needed)


def _follow(
    handle: Handle,
    source: StagedObjects,
    folded: Folded,
    move: Move[T],
    transaction: Transaction | None = None,
) -> Move[T]:
    """Lets an attached directory become what the head shows next; returns where it really went."""
    if handle.before_commit is None or not move.marks:
        return move
    last, stage = move.marks[-1], folded.stage
    goal = source.get_root(last.root)
    moving = Moving(folded.root, goal, folded.head.position, last.id)
    # A directory is not written to twice: from here on a bucket is asked where it is needed.
    fetching.done()
    became = handle.before_commit(stage, source, moving)
    if became is None:
        return replace(move, of_directory=goal.plane(Plane.FILES))
    stage.add_nodes(became.nodes)
    root_id = stage.add(became.root.encode(), ObjectKind.NODE)
    stage.seal(transaction)
    files, size = became.root.plane(Plane.FILES), last.size + became.more
    lacking = last.lacking.beyond(source, files)
    amended = replace(last, root=root_id, size=size, lacking=lacking, counts=None)
    return replace(move, marks=[*move.marks[:-1], amended], of_directory=files)


def _move_head(
    transaction: Transaction, folded: Folded, move: Move[T], last: SnapshotInfo, row_bytes: int
) -> None:
    head, was = folded.head, folded.size
    transaction.move_head(
        head,
        root=last.root,
        generation=last.number,
        position=move.position,
        redo=move.redo,
        more=Size(last.size.entries - was.entries, last.size.bytes - was.bytes),
        row_bytes=row_bytes,
    )
    if folded.has_rows:
        transaction.drop_pending(head.namespace_id, upto=head.sequence)


def _tell(
    transaction: Transaction,
    handle: Handle,
    folded: Folded,
    move: Move[T],
    done: Sequence[SnapshotInfo],
) -> None:
    """Brings all that goes by the root to where it is now, and tells of it."""
    head, last = folded.head, done[-1]
    if last.root != folded.root_id:
        note_move(transaction, handle, head, move.within, old=folded.root, new=last.root)
    trace_id = new_id(handle.context, last.created_at)
    follow(transaction, handle, head, (folded.root_id, folded.root), last, trace_id=trace_id)
    append(
        transaction,
        handle.context,
        head,
        trace_of(done),
        door=handle.door,
        trace_id=trace_id,
        told=_told(transaction, handle, last),
        each=places_of(done) if len(done) > 1 else None,
    )


def _told(transaction: Transaction, handle: Handle, last: SnapshotInfo) -> dict[str, Any]:
    """Returns what an event says of a snapshot beyond its trace."""
    told = {**place_of(last), "kind": last.kind.value, "size_bytes": last.size.bytes}
    if last.target is not None and transaction.is_heard():
        source = handle.objects_in(transaction)
        told["files_restored"] = source.count_files(source.get_root(last.root).plane(Plane.FILES))
    return told


def to_snapshot(
    handle: Handle,
    namespace_id: NamespaceId,
    mark: Mark,
    *,
    number: int,
    detail: Mapping[str, object],
) -> SnapshotInfo:
    """Returns the snapshot row of a mark."""
    now = handle.context.clock()
    return SnapshotInfo(
        id=mark.id,
        namespace_id=namespace_id,
        number=number,
        kind=mark.kind,
        root=mark.root,
        parent=mark.parent,
        target=mark.target,
        created_at=now,
        size=mark.size,
        **said_of(mark.note),
        actor=handle.context.actor,
        pinned=mark.note.pin,
        expires_at=None if mark.note.expires_in is None else now + mark.note.expires_in,
        detail={**mark.detail, **mark.lacking.to_detail(), **detail},
        counts=mark.counts,
    )


def _is_held(handle: Handle, transaction: Transaction, folded: Folded) -> bool:
    """Says whether the newest snapshot holds the base root, for longer than the grace period.

    One past its time is there only since the head stands on it: a restore would let go of it.
    """
    head, snapshot = folded.head, folded.at()
    if snapshot is None or snapshot.number != head.generation:
        newest = transaction.timeline(head.namespace_id, before=None, most=1)
        if not newest:
            return head.root in UNSTORED_ROOTS
        snapshot = newest[0]
    if snapshot.root != head.root or snapshot.deleted_at is not None:
        return False
    term = term_of(context := handle.context, head, snapshot)
    return term is None or term > context.clock() + context.limits.grace
