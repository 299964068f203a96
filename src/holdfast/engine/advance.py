"""Moves a namespace's head: the one way in which a timeline grows.

Snapshot, restore, undo, fork and merge differ in what they want the head to become, not in
how it gets there. Each is a plan over the folded head; this carries plans out:

1. Read the head and its pending rows in one transaction, fold them into the maps in memory.
2. Ask the plan which snapshots to append and where the head shall stand.
3. Put all new bytes on disk; let an attached directory become what the head will show.
4. In one write transaction: check that the head has not moved, name the new objects, append
   the snapshots, move the head, drop the rows that were folded in.

A crash before 4 has committed leaves the old state and objects that nothing names; after it,
the new state. If another writer was first, the plan is made again on what that one left; after
a few such rounds it is made inside the write transaction, where nobody can be first.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine import marking, memoryplane
from holdfast.engine.actions import told_by
from holdfast.engine.adding import ADDED, Look, let_go, look_back
from holdfast.engine.attached import Moving
from holdfast.engine.chain import append, new_id
from holdfast.engine.coverage import LACKS_NOTHING, Lacking, lacking_in
from holdfast.engine.following import follow
from holdfast.engine.handle import Handle, check_text, dated, term_of
from holdfast.engine.owning import note_move
from holdfast.engine.sessions.overlays import settle_session
from holdfast.engine.stage import Stage, StagedObjects, Withdrawn
from holdfast.errors import (
    Busy,
    Damaged,
    HeadMoved,
    InvalidValue,
    ObjectMissing,
    PackMissing,
    SnapshotNotFound,
)
from holdfast.ids import NamespaceId, ObjectId, SnapshotId
from holdfast.model import EMPTY_MAP, UNSTORED_ROOTS, Head, Kind, Plane, Root, Size, SnapshotInfo
from holdfast.packs import ObjectKind
from holdfast.tree import apply

ROUNDS: Final = 4
"""Optimistic attempts before the plan is made under the lock."""

MAX_LABEL_CHARS: Final = 128
MAX_TEXT_CHARS: Final = 4096
LONGEST: Final = timedelta(days=365_000)
"""How long a snapshot may be kept without a pin: calendars end in the year 9999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Who takes a snapshot, why, and how long it shall stay."""

    label: str | None = None
    reason: str | None = None
    actor: str | None = None
    task_id: str | None = None
    trace_id: str | None = None
    pin: bool = False
    expires_in: timedelta | None = None

    def __post_init__(self) -> None:
        check_text("label", self.label, max_chars=MAX_LABEL_CHARS)
        for name in ("reason", "actor", "task_id", "trace_id"):
            check_text(name, getattr(self, name), max_chars=MAX_TEXT_CHARS)
        if self.expires_in is not None and not timedelta(0) < self.expires_in <= LONGEST:
            raise InvalidValue("expires_in is longer than no time at all, and at most 1000 years")


@dataclass(frozen=True, slots=True)
class Folded:
    """A head with its pending rows folded into the maps, not yet stored."""

    head: Head
    root_id: ObjectId
    root: Root
    size: Size
    is_dirty: bool
    source: StagedObjects
    stage: Stage
    pending: Sequence[bytes] = ()
    """The entries of the rows that were folded in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A snapshot to append."""

    id: SnapshotId
    kind: Kind
    root: ObjectId
    size: Size
    parent: SnapshotId | None
    target: SnapshotId | None = None
    note: Note = Note()
    detail: Mapping[str, Any] = field(default_factory=dict[str, Any])
    lacking: Lacking = LACKS_NOTHING
    """What the snapshot that it comes from does not vouch for: nor does it."""


def nothing_more(*_: object) -> None:
    """Does nothing besides moving the head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What a plan wants: snapshots to append, in order, and where the head shall stand.

    `needs` are snapshots that must still be there when the move commits. An `exact` move
    applies only to the very head that was folded: a row that became pending since spoils it.
    `also` is done in the same transaction. It is a change of the tasks `within`: else the door's.
    """

    marks: Sequence[Mark] = ()
    position: SnapshotId | None
    redo: Sequence[SnapshotId] = ()
    needs: Sequence[SnapshotId] = ()
    exact: bool = False
    also: Callable[[Transaction, Head], None] = nothing_more
    within: Sequence[str] | None = None


Plan = Callable[[Transaction, Folded], Move]

StandIn = Callable[[Transaction, StagedObjects, Head], Root]
"""Returns a root in place of the head's, where that cannot be read."""


def advance(
    handle: Handle,
    plan: Plan,
    *,
    expected: SnapshotId | None = None,
    stand_in: StandIn | None = None,
) -> list[SnapshotInfo]:
    """Carries a plan out and returns the snapshots it appended.

    With `expected`, raises `HeadMoved` if the head no longer shows that snapshot. Raises
    `NamespaceNotFound` if there is no head to move.
    """
    for attempt in range(ROUNDS):
        if attempt:
            time.sleep(0.002 * attempt)
        try:
            done = _try(handle, plan, expected, stand_in)
        except (Withdrawn, Busy, ObjectMissing, PackMissing):
            # The collector was faster: what we saw a moment ago has moved, or is gone. Real
            # damage is still there when the plan is made under the lock, and raised then.
            continue
        if done is not None:
            return done
    try:
        return _under_lock(handle, plan, expected, stand_in)
    except Withdrawn as exc:
        raise Busy(str(exc)) from exc


def fold(
    transaction: Transaction,
    handle: Handle,
    head: Head,
    stage: Stage,
    *,
    stand_in: StandIn | None = None,
) -> Folded:
    """Folds what is pending into the maps; new nodes go to the stage."""
    source = stage.source(handle.objects.bound(transaction))
    pending = transaction.all_pending(head.namespace_id)
    try:
        root, base = source.get_root(head.root), head.root
    except Damaged:
        if stand_in is None:
            raise
        root = stand_in(transaction, source, head)
        base = stage.add(root.encode(), ObjectKind.NODE)
        if not root.holds(Plane.MEMORIES):
            pending = [row for row in pending if row[0] is not Plane.MEMORIES]
            pending += memoryplane.all_pending(transaction, head.namespace_id)
    changed: dict[str, bytes] = {}
    for plane in Plane:
        changes = {key: entry for of, key, entry in pending if of is plane}
        if not changes:
            continue
        if plane is Plane.MEMORIES:
            changes = memoryplane.settled(transaction, stage, head.namespace_id, changes)
        if plane is Plane.SESSIONS:
            changes = {
                key: entry if entry is None else settle_session(stage, source, entry)
                for key, entry in changes.items()
            }
        applied = apply(source, root.plane(plane), changes)
        stage.add_nodes(applied.nodes)
        changed[plane.value] = applied.root
    if not root.holds(Plane.MEMORIES) and not changed.get(Plane.MEMORIES.value):
        # Of a namespace from before they were a plane all that there are were pending.
        changed[Plane.MEMORIES.value] = EMPTY_MAP
    root = root.replacing(**changed)
    root_id = stage.add(root.encode(), ObjectKind.NODE) if changed else base
    # The head's size counts what is pending, so it is the size of what was just folded.
    entries = [entry for _, _, entry in pending if entry is not None]
    return Folded(head, root_id, root, head.size, bool(pending), source, stage, entries)


def lacking_at(transaction: Transaction, folded: Folded) -> Lacking:
    """Returns what the head does not vouch for, as the snapshot that it stands on does not."""
    head = folded.head
    if head.position is None:
        return LACKS_NOTHING
    at = transaction.find_snapshot(head.namespace_id, head.position)
    if at is None:
        return LACKS_NOTHING
    lacking = lacking_in(at).beyond(folded.source, folded.root.plane(Plane.FILES))
    # What is pending may have taken the place of what was in motion.
    return msgspec.structs.replace(lacking, in_motion=()) if folded.is_dirty else lacking


def safety(
    handle: Handle,
    transaction: Transaction,
    folded: Folded,
    *,
    reason: str,
    detail: Mapping[str, Any] | None = None,
) -> Mark | None:
    """Returns the snapshot that keeps what is there before an operation replaces it.

    None if nothing is pending and a snapshot that is not about to go holds it already.
    """
    if not folded.is_dirty and _is_held(handle, transaction, folded.head):
        return None
    return Mark(
        id=handle.context.ids.snapshot(),
        kind=Kind.SAFETY,
        root=folded.root_id,
        size=folded.size,
        parent=folded.head.position,
        note=Note(reason=reason),
        detail=detail or {},
        lacking=lacking_at(transaction, folded),
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
) -> list[Mark]:
    """Returns the snapshots of an operation that puts another state in place of what is there.

    The last one shows the new state. Before it stands, where needed, the one that keeps the
    old state; `reason` is what that one says. `lacking` is what the new state does not vouch for.
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
        note=note or Note(),
        detail=detail or {},
        lacking=lacking,
    )
    return [kept, mark] if kept else [mark]


def _try(
    handle: Handle, plan: Plan, expected: SnapshotId | None, stand_in: StandIn | None
) -> list[SnapshotInfo] | None:
    context = handle.context
    with Stage(context, handle.tenant_id) as stage:
        with context.catalog.read() as transaction:
            head = handle.get_head(transaction)
            _check_expected(head, expected)
            folded = fold(transaction, handle, head, stage, stand_in=stand_in)
            move = plan(transaction, folded)
            look = look_back(transaction, handle, head, roots=[mark.root for mark in move.marks])
        if not move.marks and move.also is nothing_more:
            return []
        stage.seal()
        move = _follow(handle, folded.source.unbound(), folded, move)
        with context.work() as transaction:
            now = handle.lock(transaction)
            if now.namespace_id != head.namespace_id or now.generation != head.generation:
                return None
            if now.sequence != head.sequence:
                if move.exact:
                    return None
                _hold_on(transaction, handle, folded)
            folded = replace(folded, head=replace(now, sequence=head.sequence))
            done = _commit(transaction, handle, folded, move, look)
        stage.keep()
        return done


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


def _under_lock(
    handle: Handle, plan: Plan, expected: SnapshotId | None, stand_in: StandIn | None
) -> list[SnapshotInfo]:
    context = handle.context
    with context.catalog.read() as transaction:
        look = look_back(transaction, handle, handle.get_head(transaction), roots=None)
    with Stage(context, handle.tenant_id) as stage, context.work() as transaction:
        head = handle.lock(transaction)
        _check_expected(head, expected)
        folded = fold(transaction, handle, head, stage, stand_in=stand_in)
        move = plan(transaction, folded)
        stage.seal(transaction)
        move = _follow(handle, folded.source, folded, move, transaction)
        return _commit(transaction, handle, folded, move, look)


def _follow(
    handle: Handle,
    source: StagedObjects,
    folded: Folded,
    move: Move,
    transaction: Transaction | None = None,
) -> Move:
    """Lets an attached directory become what the head is about to show.

    Returns the move, to where the directory really went.
    """
    if handle.attached is None or not move.marks:
        return move
    last, stage = move.marks[-1], folded.stage
    became = handle.attached.follow(
        stage,
        source,
        folded.root,
        source.get_root(last.root),
        move=Moving(folded.head.position, last.id),
    )
    if became is None:
        return move
    stage.add_nodes(became.nodes)
    root_id = stage.add(became.root.encode(), ObjectKind.NODE)
    stage.seal(transaction)
    amended = replace(
        last,
        root=root_id,
        size=last.size + became.more,
        lacking=last.lacking.beyond(source, became.root.plane(Plane.FILES)),
    )
    return replace(move, marks=[*move.marks[:-1], amended])


def _commit(
    transaction: Transaction, handle: Handle, folded: Folded, move: Move, look: Look | None
) -> list[SnapshotInfo]:
    head = folded.head
    for snapshot_id in move.needs:
        # What is still on the timeline is out of the collector's reach, whatever its age.
        if transaction.find_snapshot(head.namespace_id, snapshot_id) is None:
            raise SnapshotNotFound(snapshot_id)
    folded.stage.record(transaction)
    done, left = list[SnapshotInfo](), list[SnapshotId]()
    if move.marks and handle.context.adds_only:
        roots, still = [mark.root for mark in move.marks], (move.position, *move.redo)
        left += let_go(transaction, handle, head, roots=roots, still=still, look=look)
    for mark in move.marks:
        number = head.generation + len(done) + 1
        snapshot = to_snapshot(handle, head.namespace_id, mark, number=number, let_go=left)
        transaction.add_snapshot(snapshot)
        done.append(snapshot)
    if done:
        last, was = done[-1], folded.size
        if not transaction.move_head(
            head,
            root=last.root,
            generation=last.number,
            position=move.position,
            redo=move.redo,
            more=Size(last.size.entries - was.entries, last.size.bytes - was.bytes),
        ):
            raise HeadMoved(head.name, expected=head.position, actual="another snapshot")
        if folded.is_dirty:
            transaction.drop_pending(head.namespace_id, upto=head.sequence)
    move.also(transaction, head)
    if done and done[-1].root != folded.root_id:
        note_move(transaction, handle, head, move.within, old=folded.root, new=done[-1].root)
    if done:
        # After the above, which may name objects: those of an import, for one.
        trace_id = new_id(handle.context, done[-1].created_at)
        shown = (folded.root_id, folded.root)
        follow(transaction, handle, folded.head, shown, done[-1], trace_id=trace_id)
        told = _told(transaction, handle, done[-1])
        append(transaction, handle.context, head, told_by(done), trace_id=trace_id, told=told)
    return [dated(handle.context, head, snapshot) for snapshot in done]


def _told(transaction: Transaction, handle: Handle, last: SnapshotInfo) -> dict[str, Any]:
    """Returns what an event says of a snapshot beyond its trace."""
    told: dict[str, Any] = {"kind": last.kind.value, "size_bytes": last.size.bytes}
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
    let_go: Sequence[SnapshotId] = (),
) -> SnapshotInfo:
    """Returns the snapshot row of a mark."""
    now = handle.context.clock()
    added = {ADDED: [*let_go]} if handle.context.adds_only else {}
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
        label=mark.note.label,
        reason=mark.note.reason,
        actor=mark.note.actor or handle.context.actor,
        task_id=mark.note.task_id,
        trace_id=mark.note.trace_id,
        pinned=mark.note.pin,
        expires_at=None if mark.note.expires_in is None else now + mark.note.expires_in,
        detail={**mark.detail, **mark.lacking.to_detail(), **added},
    )


def _is_held(handle: Handle, transaction: Transaction, head: Head) -> bool:
    """Says whether the newest snapshot holds the base root, for longer than the grace period.

    It may be past its time and there only because the head stands on it: a restore would let
    go of it, and there would be nothing to undo to.
    """
    newest = transaction.timeline(head.namespace_id, before=None, most=1)
    if not newest:
        return head.root in UNSTORED_ROOTS
    snapshot = newest[0]
    if snapshot.root != head.root or snapshot.deleted_at is not None:
        return False
    context = handle.context
    term = term_of(context, head, snapshot)
    return term is None or term > context.clock() + context.limits.grace


def _check_expected(head: Head, expected: SnapshotId | None) -> None:
    if expected is not None and head.position != expected:
        raise HeadMoved(head.name, expected=expected, actual=head.position)
