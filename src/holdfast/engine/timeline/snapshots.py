"""Takes snapshots, and answers questions about a timeline.

A snapshot folds what is pending into the maps and writes one row: its cost follows what
changed since the last one, never what is there.

Says whether a snapshot is too large to be taken: by what it takes up, compressed.

What content takes up in packs is never more than a little above its own size, so most snapshots
are known to be small enough by that alone. Only where it is above the limit are the blocks looked
up that hold it: each counts once, whole, also where it holds something of others.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final

from holdfast.catalog.snapshots import Called
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.lineage import Stored, previous
from holdfast.engine.journal.actions import (
    place_of,
    places_of,
    trace_of_snapshot,
    trace_of_snapshots,
)
from holdfast.engine.journal.chain import append
from holdfast.engine.objects.reachable import Source, mark
from holdfast.engine.objects.trust import check_packs
from holdfast.engine.pending.fold import Folded, lacking_at
from holdfast.engine.planes.handle import Handle, check_text, dated, is_expired, is_over
from holdfast.engine.timeline.counting import count_folded
from holdfast.engine.timeline.expecting import ANYTHING, Expected
from holdfast.engine.timeline.head import Mark, Move, advance
from holdfast.errors import Conflict, NotFound, SnapshotNotFound, TooLarge, shorten
from holdfast.ids import ObjectId, SnapshotId, is_snapshot_id
from holdfast.model.basics import Head, Kind, Size, SnapshotInfo, SnapshotLike, Standing
from holdfast.operations.snapshots import MAX_LABEL_CHARS, Note, TakeSnapshot


def take(
    handle: Handle,
    note: Note,
    *,
    expected: Expected = ANYTHING,
    creates: bool = True,
    is_asked: bool = True,
    is_bounded: bool = True,
    also: Callable[[SnapshotId, Transaction, Head], None] | None = None,
) -> SnapshotInfo:
    """Takes a snapshot of all planes; makes the namespace if it is not there yet.

    Unless it `creates`: then raises `NamespaceNotFound`. `also` is done in the same transaction:
    where it raises, there is no snapshot. `is_asked` and `is_bounded`, as `Mark` has them.
    """
    snapshot_id = handle.context.ids.snapshot()

    def plan(transaction: Transaction, folded: Folded) -> Move[None]:
        head, context = folded.head, handle.context
        check_size(handle, transaction, folded.source, folded.root_id, size=folded.size)
        check_packs(context, transaction, handle.tenant_id, folded.source, folded.root_id)
        mark = Mark(
            id=snapshot_id,
            kind=Kind.SNAPSHOT,
            root=folded.root_id,
            size=folded.size,
            parent=head.position,
            note=note,
            lacking=lacking_at(folded),
            is_asked=is_asked,
            counts=count_folded(folded),
            is_bounded=is_bounded,
        )
        # A snapshot of what an undo has just shown does not take the way forward.
        redo = () if folded.is_changed else head.redo
        return Move(
            marks=[mark],
            position=mark.id,
            redo=redo,
            result=None,
            also=None if also is None else partial(also, snapshot_id),
        )

    done, _ = advance(handle, plan, expected=expected, creates=creates)
    handle.context.lately.note_moved(handle.tenant_id, handle.name, generation=done[0].number)
    return done[0]


def back_from(handle: Handle, folded: Folded, mark: Mark, *, reason: str) -> Mark:
    """Returns the snapshot that follows one that is set aside: it shows what was there before."""
    return Mark(
        id=handle.context.ids.snapshot(),
        kind=Kind.SNAPSHOT if mark.parent is None else Kind.RESTORE,
        root=folded.root_id,
        size=folded.size,
        parent=mark.id,
        target=mark.parent,
        note=Note(reason=reason),
        lacking=lacking_at(folded),
    )


def taken(handle: Handle, wanted: TakeSnapshot) -> SnapshotInfo:
    """Takes a snapshot, as somebody asks for it."""
    return take(handle, wanted, expected=to_expected(handle, wanted.expected))


def resolve(handle: Handle, snapshot: SnapshotLike) -> SnapshotInfo:
    """Returns a snapshot as it is on the timeline now."""
    name = snapshot.id if isinstance(snapshot, SnapshotInfo) else snapshot
    return find(handle, name, near=snapshot if isinstance(snapshot, SnapshotInfo) else None)


def to_target(handle: Handle, snapshot: SnapshotLike) -> SnapshotInfo | SnapshotId:
    """Returns a snapshot by what somebody calls it: a whole id is left to who opens the head."""
    name = snapshot.id if isinstance(snapshot, SnapshotInfo) else snapshot
    return SnapshotId(name) if is_snapshot_id(name) else resolve(handle, name)


def to_expected(
    handle: Handle, snapshot: SnapshotLike | None, root: ObjectId | None = None
) -> Expected:
    """Returns what somebody expects: a snapshot that the head shows, and all that is there."""
    # One at hand is compared by its id: it may be past its time and still the head's.
    if snapshot is None or isinstance(snapshot, SnapshotInfo):
        return Expected(None if snapshot is None else snapshot.id, root)
    return Expected(resolve(handle, snapshot).id, root)


def find(handle: Handle, name: str, *, near: SnapshotInfo | None = None) -> SnapshotInfo:
    """Returns a snapshot by its id, a unique beginning of it, `latest`, `@` or `@-n`.

    `latest` is the newest on the timeline; `@` is the one whose state the head shows, `@-n`
    the n-th before it. `near` is how somebody knows it, and says where to look.
    """
    with handle.context.catalog.read() as transaction:
        if near is not None:
            transaction.ahead(Transaction.find_snapshot, near.namespace_id, near.id)
        head = handle.find_head(transaction)
        if head is None:
            raise SnapshotNotFound(name)
        if name == "latest":
            return _newest(handle, transaction, head, name)
        if name == "@" or (name.startswith("@-") and name[2:].isdecimal()):
            # No timeline is that long; and Python refuses to read thousands of digits.
            return _nth_before(handle, transaction, name, int(name[2:20] or 0))
        found = _find_named(transaction, head, name)
        if found is None:
            raise SnapshotNotFound(name)
        return handle.usable(head, found)


def _find_named(transaction: Transaction, head: Head, name: str) -> SnapshotInfo | None:
    """Returns a snapshot by its id or a unique beginning of it; by its id also a deleted one."""
    # Nothing else begins with a whole id, and what begins with a text takes the whole timeline.
    if is_snapshot_id(name):
        return transaction.find_snapshot(head.namespace_id, SnapshotId(name))
    matches = list[SnapshotInfo]()
    if name:
        matches = transaction.find_snapshots_by_prefix(head.namespace_id, name)
        matches = matches or transaction.find_snapshots_by_prefix(head.namespace_id, f"snap-{name}")
    if matches and (len(matches) == 1 or matches[0].id == name):
        return matches[0]
    if matches:
        some = " and ".join(each.id for each in matches)
        message = f"more than one snapshot begins with {shorten(name)}, such as {some}"
        raise Conflict(message).with_hint("Give more of the id.")
    return None


def find_current(handle: Handle) -> SnapshotInfo | None:
    """Returns the snapshot that holds everything as it is, and goes on to; None if none does."""
    with handle.context.catalog.read() as transaction:
        head = handle.find_head(transaction)
        return None if head is None else current_of(transaction, handle, head)


def current_of(transaction: Transaction, handle: Handle, head: Head) -> SnapshotInfo | None:
    """Returns the snapshot that holds all that a head shows, and is kept for its own sake."""
    if head.position is None or transaction.count_pending(head.namespace_id) > 0:
        return None
    found = transaction.find_snapshot(head.namespace_id, head.position)
    if found is None or found.deleted_at is not None or is_over(handle.context, head, found):
        return None
    return dated(handle.context, head, found)


def standing(handle: Handle) -> Standing:
    """Says where a namespace stands; one that does not exist is empty."""
    with handle.context.catalog.read() as transaction:
        head = handle.find_head(transaction)
        if head is None:
            return Standing(
                namespace=handle.name, exists=False, dirty=False, size=Size(), position=None
            )
        dirty = transaction.count_pending(head.namespace_id) > 0
        found = None
        if head.position is not None:
            with suppress(NotFound):
                found = handle.get_snapshot(transaction, head, head.position).id
    return Standing(namespace=handle.name, exists=True, dirty=dirty, size=head.size, position=found)


def pin(handle: Handle, snapshot_id: SnapshotId, *, pinned: bool) -> SnapshotInfo:
    """Keeps a snapshot out of retention's reach, or lets it in again with a full term."""
    context = handle.context
    if not pinned:
        context.check_takes_away("unpin a snapshot")
    with context.work() as transaction:
        # Locked, as `forget` does: a snapshot is pinned, or it is gone, and never both.
        head = handle.lock(transaction)
        snapshot = handle.get_snapshot(transaction, head, snapshot_id)
        is_open = pinned or head.retention is not None
        expires_at = None if is_open else context.clock() + context.limits.retention
        transaction.set_pinned(head.namespace_id, snapshot_id, pinned=pinned, expires_at=expires_at)
        action = "snapshot.pinned" if pinned else "snapshot.unpinned"
        told = trace_of_snapshot(action, snapshot)
        append(transaction, context, head, told, door=handle.door, told=place_of(snapshot))
        return handle.get_snapshot(transaction, head, snapshot_id)


def set_label(handle: Handle, snapshot_id: SnapshotId, label: str | None) -> SnapshotInfo:
    """Gives a snapshot another label, or none."""
    check_text("label", label, max_chars=MAX_LABEL_CHARS)
    handle.context.check_takes_away("change the label of a snapshot")
    with handle.context.work() as transaction:
        head = handle.lock(transaction)
        handle.get_snapshot(transaction, head, snapshot_id)
        transaction.set_label(head.namespace_id, snapshot_id, label)
        changed = handle.get_snapshot(transaction, head, snapshot_id)
        told = trace_of_snapshot("snapshot.labelled", changed)
        append(transaction, handle.context, head, told, door=handle.door, told=place_of(changed))
        return changed


def delete(handle: Handle, snapshot_id: SnapshotId) -> None:
    """Takes a snapshot off the timeline; it can be recovered until the grace period ends."""
    handle.context.check_takes_away("delete a snapshot")
    handle.context.catalog.make_room()
    with handle.context.work() as transaction:
        head = handle.lock(transaction)
        snapshot = handle.get_snapshot(transaction, head, snapshot_id)
        transaction.delete_snapshot(head.namespace_id, snapshot_id, now=handle.context.clock())
        told = trace_of_snapshot("snapshot.deleted", snapshot)
        append(transaction, handle.context, head, told, door=handle.door, told=place_of(snapshot))


def delete_all(handle: Handle) -> None:
    """Takes every snapshot off the timeline, as `delete` does.

    But for those that are pinned, and the one that the head stands on.
    """
    handle.context.check_takes_away("delete snapshots")
    handle.context.catalog.make_room()
    with handle.context.catalog.write() as transaction:
        # Locked, as `pin` does: a snapshot is pinned, or it is gone, and never both.
        head = handle.find_and_lock(transaction)
        if head is None:
            return
        now, gone = handle.context.clock(), list[SnapshotInfo]()
        for snapshot in transaction.timeline(head.namespace_id, before=None, most=2**31):
            if snapshot.deleted_at or snapshot.pinned or snapshot.id == head.position:
                continue
            transaction.delete_snapshot(head.namespace_id, snapshot.id, now=now)
            gone.append(snapshot)
        if gone:
            told = trace_of_snapshots("snapshot.deleted", head.name, gone)
            append(transaction, handle.context, head, told, door=handle.door, each=places_of(gone))


def deleted(handle: Handle) -> list[SnapshotInfo]:
    """Returns the deleted snapshots that `recover` brings back, newest first."""
    context = handle.context
    with context.catalog.read() as transaction:
        head = handle.get_head(transaction)
        timeline = transaction.timeline(head.namespace_id, before=None, most=2**31)
    earliest = context.clock() - context.limits.grace
    return [
        dated(context, head, snapshot)
        for snapshot in timeline
        if snapshot.deleted_at is not None and snapshot.deleted_at > earliest
    ]


def recover(handle: Handle, snapshot_id: SnapshotId) -> SnapshotInfo:
    """Brings a deleted snapshot back, if the grace period has not ended."""
    with handle.context.work() as transaction:
        head = handle.lock(transaction)
        if not transaction.recover_snapshot(head.namespace_id, snapshot_id):
            raise SnapshotNotFound(snapshot_id)
        found = handle.get_snapshot(transaction, head, snapshot_id)
        told = trace_of_snapshot("snapshot.recovered", found)
        append(transaction, handle.context, head, told, door=handle.door, told=place_of(found))
        return found


def _newest(handle: Handle, transaction: Transaction, head: Head, name: str) -> SnapshotInfo:
    for snapshot in iter_usable(handle, transaction, head):
        return snapshot
    raise SnapshotNotFound(name)


def iter_usable(
    handle: Handle, transaction: Transaction, head: Head, before: int | None = None
) -> Iterator[SnapshotInfo]:
    """Yields the usable snapshots, newest first."""
    for snapshot in iter_rows(transaction, head, before):
        if snapshot.deleted_at is None and not is_expired(handle.context, head, snapshot):
            yield dated(handle.context, head, snapshot)


def iter_rows(
    transaction: Transaction,
    head: Head,
    before: int | None = None,
    *,
    called: tuple[Called, str] | None = None,
) -> Iterator[SnapshotInfo]:
    """Yields all snapshots, or those `called` something, usable or not, newest first.

    Pages grow as more are asked for.
    """
    most = 16
    while page := transaction.timeline(head.namespace_id, before=before, most=most, called=called):
        yield from page
        before, most = page[-1].number, min(most * 4, 1024)


def _nth_before(handle: Handle, transaction: Transaction, name: str, steps: int) -> SnapshotInfo:
    head = handle.get_head(transaction)
    stored = Stored(transaction, head.namespace_id)
    at = None if head.position is None else stored.find(head.position)
    for _ in range(steps):
        at = None if at is None else previous(stored, at)
        if at is None:
            break
    if at is None:
        raise SnapshotNotFound(name)
    return handle.get_snapshot(transaction, head, at.id)


_BATCH: Final = 1000
"""Objects looked up together."""


def check_size(
    handle: Handle, transaction: Transaction, source: Source, root_id: ObjectId, *, size: Size
) -> None:
    """Raises `TooLarge` if what a root leads to takes more than a snapshot may, compressed."""
    most = handle.context.limits.snapshot_bytes
    if most is None or size.bytes <= most:
        return
    if _is_heavier(handle, transaction, source, root_id, most):
        message = (
            f"a snapshot may take {most} bytes, compressed; "
            f"this one, of {size.bytes} before that, would take more"
        )
        raise TooLarge(message)


def _is_heavier(
    handle: Handle, transaction: Transaction, source: Source, root_id: ObjectId, most: int
) -> bool:
    needed, blocks, weight = iter(mark(source, [root_id], ())), set[tuple[str, int]](), 0
    while batch := list(islice(needed, _BATCH)):
        located = transaction.locate(handle.tenant_id, batch)
        for found in located.values():
            place = (found.pack, found.placement.block_offset)
            if place not in blocks:
                blocks.add(place)
                weight += found.placement.block_size
        # What is new with this snapshot is in no pack yet.
        fresh = [object_id for object_id in batch if object_id not in located]
        weight += sum(map(len, source.get_many(fresh).values())) if fresh else 0
        if weight > most:
            return True
    return False
