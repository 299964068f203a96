"""Notes how a snapshot has left a head, for whoever writes next (`core/recent.py`).

A snapshot changes no value: what this process knew of the head before, it knows still. That is for
those who have the database compare the head with what is believed; where it is told that nobody
has committed anything since, the next writer looks.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.engine.pending.fold import Folded
from holdfast.engine.planes.handle import Handle
from holdfast.ids import SnapshotId
from holdfast.model.basics import SnapshotInfo


def note_left(
    handle: Handle,
    folded: Folded,
    last: SnapshotInfo,
    *,
    position: SnapshotId | None,
    redo: Sequence[SnapshotId],
) -> None:
    """Notes how a head was left by a snapshot of all that is there, if nobody else wrote."""
    lately, head = handle.context.lately, folded.head
    left = lately.find_written(handle.tenant_id, handle.name)
    if left is None or left.commit is not None or not handle.context.is_committed_at_once:
        return
    is_all = (last.root, last.size) == (folded.root_id, folded.size)
    was = (left.head.namespace_id, left.head.generation, left.head.sequence)
    if not is_all or was != (head.namespace_id, head.generation, head.sequence):
        return
    moved = replace(
        head,
        root=last.root,
        generation=last.number,
        position=position,
        redo=tuple(redo),
        unfolded=0,
    )
    lately.note_written(replace(left, head=moved))
