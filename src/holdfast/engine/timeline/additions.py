"""What a caller who only adds leaves as it was: all of the history.

Such a caller writes, takes snapshots, restores and undoes. What takes away for good raises
`AddOnly` (`Context.check_takes_away`), whichever door it came through. Two things are left that
would let go of a snapshot without anybody asking for it, and both are met here:

1. A policy counts snapshots, so new ones push old ones out. Those that such a caller made say so,
   and are counted for themselves: they take no place of anybody else's. So do those that nobody
   asked for, which were taken because such a caller had written: by a schedule, before a task or
   another operation. Those that hold work of others, too, are counted among such.
2. What the head stands on, and what one undo or any redo needs, stays whatever its age; who moves
   the head on lets go of that. What such a caller's snapshot has let go of it names, and while the
   snapshot is younger than a full term, neither of them goes.

What such a caller leaves of sessions, their terms and what was said, says `sessions/terms.py`.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from holdfast.catalog.port import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.core.lineage import Stored, needed, one_back
from holdfast.engine.planes.handle import Handle, is_over, term_of
from holdfast.engine.planes.writers import ADDERS, OTHERS, WERE_HERE, mark_of
from holdfast.errors import Busy
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import Head, SnapshotInfo

NEAR: Final = 1000
"""So many snapshots are looked at while writers wait: some 20 ms."""

ADDED: Final = "add_only"
"""What the detail of a snapshot calls those that its maker, who only adds, let go of."""


SHARED: Final = "add_only_shared"
"""Stands in the detail of such a snapshot if it holds what others have written, too."""


def takes_part(context: Context, authors: int, *, is_asked: bool) -> bool:
    """Says whether a snapshot is there since a caller who only adds took it, or had written."""
    return context.adds_only or (not is_asked and bool(authors & ADDERS))


def detail_of(authors: int, let_go: Sequence[SnapshotId]) -> dict[str, object]:
    """Returns what the detail of such a snapshot says of it."""
    return {ADDED: [*let_go], **({SHARED: True} if authors & OTHERS else {})}


def is_shared(snapshot: SnapshotInfo) -> bool:
    """Says whether such a snapshot holds what others have written, too."""
    return SHARED in snapshot.detail


def is_added(snapshot: SnapshotInfo) -> bool:
    """Says whether it is there because of a caller who only adds."""
    return ADDED in snapshot.detail


class Look(NamedTuple):
    """Where one undo leads, as it was found beside all writers."""

    position: SnapshotId | None
    root: ObjectId
    back: SnapshotId | None


def look_back(
    transaction: Transaction, handle: Handle, head: Head, *, roots: Sequence[ObjectId] | None
) -> Look | None:
    """Looks where one undo leads from a head; None if it will lead there with these roots, too.

    Past all that is equal to it, however much that is: in a transaction that reads, as writers
    would wait for it.
    """
    leads_there = roots is not None and {*roots} <= {head.root}
    authors = mark_of(head).authors
    if leads_there or not (handle.context.adds_only or authors & (ADDERS | WERE_HERE)):
        return None
    back = one_back(head, Stored(transaction, head.namespace_id))
    return Look(head.position, head.root, back and back.id)


def let_go(
    transaction: Transaction,
    handle: Handle,
    head: Head,
    *,
    roots: Sequence[ObjectId],
    still: Iterable[SnapshotId | None],
    look: Look | None,
) -> Sequence[SnapshotId]:
    """Returns what a head needs and, but for `still`, will not once it has led to these roots.

    What had no more than the head to stay for gets a full term from now. Raises `Busy` where it is
    far to one step back, and the `look` was at another head.
    """
    context = handle.context
    now, full = context.clock(), context.limits.retention
    # With no other root in between, one step back leads to where it has led before.
    back = None if {*roots} <= {head.root} else _back(transaction, head, look)
    gone = sorted(needed(head, Stored(transaction, head.namespace_id), back=back) - {*still})
    for snapshot_id in gone:
        found = transaction.find_snapshot(head.namespace_id, snapshot_id)
        if found is None or found.deleted_at is not None:
            continue
        term = term_of(context, head, found)
        # Its own ones end when it says, unless they are all that there is.
        is_brief = is_added(found) and found.expires_at and not is_over(context, head, found)
        if term is not None and term < now + full and not is_brief:
            transaction.set_pinned(
                head.namespace_id, snapshot_id, pinned=False, expires_at=now + full
            )
    return gone


class _Near(Stored):
    """Snapshots as a transaction sees them in which writers wait: only so many of them."""

    _left = NEAR

    def find(self, snapshot_id: SnapshotId) -> SnapshotInfo | None:
        """Returns a snapshot, or None; raises `Busy` for one too many."""
        self._left -= 1
        if self._left < 0:
            raise Busy("others change this namespace all the time, and its history is long")
        return super().find(snapshot_id)


def _back(transaction: Transaction, head: Head, look: Look | None) -> SnapshotInfo | None:
    """Returns where one undo leads: as somebody has seen it, if that is still so."""
    near = _Near(transaction, head.namespace_id)
    if look is not None and (look.position, look.root) == (head.position, head.root):
        found = None if look.back is None else near.find(look.back)
        if look.back is None or (found is not None and found.deleted_at is None):
            return found
    return one_back(head, near)


def spared(context: Context, timeline: Iterable[SnapshotInfo]) -> set[SnapshotId]:
    """Returns what neither age nor a policy takes yet, since a caller who only adds was there."""
    found = set[SnapshotId]()
    for snapshot in timeline:
        if is_added(snapshot) and snapshot.created_at + context.limits.retention > context.clock():
            found |= {snapshot.id, *snapshot.detail[ADDED]}
    return found
