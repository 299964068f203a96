"""What two namespaces last had in common: the base of a merge.

It belongs to the state, not to the namespace: a merge that was undone, or that a restore went
back behind, has not happened for what the head shows now. So it is looked for from where each
head stands, back through the states it came from, to the last merge with the other side.
"""

from typing import Final

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.lineage import Stored, previous
from holdfast.errors import InvalidValue
from holdfast.ids import ObjectId
from holdfast.model.basics import Head, Kind, SnapshotInfo

MERGED_ROOT: Final = "their_root"
"""In a merge's detail: the root of the other side that was merged. It is kept as long."""


def common_root(transaction: Transaction, ours: Head, theirs: Head) -> ObjectId:
    """Returns the root that both have come from; raises if neither is a fork of the other."""
    sides = ((theirs, ours), (ours, theirs))
    fork = next((head for head, other in sides if head.fork_of == other.namespace_id), None)
    if fork is None or fork.fork_root is None:
        message = f"neither {ours.name!r} nor {theirs.name!r} is a fork of the other"
        raise InvalidValue(message)
    merges = [
        merge
        for head, other in sides
        if (merge := _last_merge(transaction, head, other)) is not None
    ]
    if not merges:
        return fork.fork_root
    last = max(merges, key=lambda merge: merge.created_at)
    return merged_root(last) or fork.fork_root


def merged_root(snapshot: SnapshotInfo) -> ObjectId | None:
    """Returns the root of the other side that a merge brought in; None if it is no merge."""
    text = snapshot.detail.get(MERGED_ROOT)
    return ObjectId(bytes.fromhex(text)) if isinstance(text, str) else None


def _last_merge(transaction: Transaction, head: Head, other: Head) -> SnapshotInfo | None:
    """Returns the last merge of the other side that the state of a head contains."""
    snapshots = Stored(transaction, head.namespace_id)
    at = None if head.position is None else snapshots.find(head.position)
    while at is not None:
        if at.kind is Kind.MERGE and at.detail.get("merged_id") == other.namespace_id:
            return at
        # A whole restore shows what its target showed; anything else adds to what was there.
        is_whole = at.kind is Kind.RESTORE and not at.detail
        target = snapshots.find(at.target) if is_whole and at.target else None
        at = target or previous(snapshots, at)
    return None
