"""A new namespace with the same roots: constant time, whatever it holds.

Nothing is copied. The fork starts its own timeline with one snapshot, and remembers where it
came from so that it can be merged back.
"""

from functools import partial

import msgspec
from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.coverage import lacking_in
from holdfast.engine.core.lineage import FORKED_TO
from holdfast.engine.journal.actions import place_of, trace_of, trace_of_namespace
from holdfast.engine.journal.chain import append
from holdfast.engine.journal.forgetting import SETTING
from holdfast.engine.pending.fold import Folded, lacking_at
from holdfast.engine.planes.handle import Handle, as_it_is
from holdfast.engine.planes.writers import came_here
from holdfast.engine.timeline.additions import detail_of
from holdfast.engine.timeline.head import Mark, Move, advance, safety, to_snapshot
from holdfast.engine.timeline.room import check_rows
from holdfast.errors import NamespaceExists
from holdfast.model.basics import EMPTY_MAP, Head, Kind, Plane, SnapshotInfo
from holdfast.model.upkeep import Policy
from holdfast.operations.snapshots import Note


def fork(handle: Handle, new: Handle, *, at: SnapshotInfo | None = None) -> None:
    """Forks a namespace at a snapshot, or as it stands."""

    def plan(transaction: Transaction, folded: Folded) -> Move[None]:
        head = folded.head
        if new.find_head(transaction) is not None:
            raise NamespaceExists(new.name)
        origin = at and as_it_is(transaction, at)
        kept = None if origin else _kept(handle, transaction, folded, new)
        shown = at
        if not (at or kept) and head.position is not None:
            shown = transaction.find_snapshot(head.namespace_id, head.position)
        mark = Mark(
            id=handle.context.ids.snapshot(),
            kind=Kind.FORK,
            root=origin.root if origin else folded.root_id,
            size=origin.size if origin else folded.size,
            parent=None,
            target=at.id if at else (kept.id if kept else head.position),
            note=Note(
                reason=f"forked from {handle.name}", metadata=shown.metadata if shown else None
            ),
            detail={"forked_from": handle.name},
            lacking=lacking_in(at) if at else lacking_at(folded),
        )
        return Move(
            marks=[kept] if kept else [],
            position=kept.id if kept else head.position,
            redo=() if kept else head.redo,
            result=None,
            needs=[at.id] if at else [],
            also=partial(_create, new, mark),
        )

    advance(handle, plan)


def check_free(new: Handle) -> None:
    """Raises `NamespaceExists` if there is a namespace of that name."""
    with new.context.catalog.read() as transaction:
        if new.find_head(transaction) is not None:
            raise NamespaceExists(new.name)


def _kept(handle: Handle, transaction: Transaction, folded: Folded, new: Handle) -> Mark | None:
    """Returns the snapshot that a fork goes on from, if what is there is in none yet."""
    return safety(
        handle,
        transaction,
        folded,
        reason=f"before forking {new.name}",
        detail={FORKED_TO: new.name},
    )


def _create(new: Handle, mark: Mark, transaction: Transaction, origin: Head) -> None:
    """Adds the fork's namespace, with its first snapshot."""
    row = replace(
        new.empty_head(),
        generation=1,
        root=mark.root,
        position=mark.id,
        size=mark.size,
        quota_bytes=origin.quota_bytes,
        retention=origin.retention,
        fork_of=origin.namespace_id,
        fork_root=mark.root,
        writer=came_here(origin, new),
    )
    added = transaction.add_namespace(row)
    if added is None:
        raise NamespaceExists(new.name)
    detail = detail_of(0, ()) if new.context.adds_only else {}
    snapshot = to_snapshot(new, added.namespace_id, mark, number=1, detail=detail)
    text_bytes = transaction.add_snapshot(snapshot)
    # The head and its snapshot are rows by now, and counted; their texts are not yet.
    check_rows(transaction, new, rows=0, text_bytes=text_bytes)
    transaction.count_in(added.namespace_id, row_bytes=text_bytes)
    append(transaction, new.context, added, trace_of([snapshot]), told=place_of(snapshot))
    if origin.retention is not None:
        # The trace of who set it is the origin's, and goes with that.
        terms = msgspec.structs.asdict(msgspec.json.decode(origin.retention, type=Policy))
        told = trace_of_namespace(SETTING, new.name, forked_from=origin.name, **terms)
        append(transaction, new.context, added, told)
    root = new.objects_in(transaction).get_root(mark.root)
    if root.plane(Plane.SESSIONS) != EMPTY_MAP:
        transaction.add_lagging(added.namespace_id)
    if root.plane(Plane.MEMORIES) != EMPTY_MAP:
        transaction.add_lagging_memories(added.namespace_id)
