"""Says whether a snapshot is too large to be taken: by what it takes up, compressed.

What content takes up in packs is never more than a little above its own size, so most snapshots
are known to be small enough by that alone. Only where it is above the limit are the blocks looked
up that hold it: each counts once, whole, also where it holds something of others.
"""

from itertools import islice
from typing import Final

from holdfast.catalog.transaction import Transaction
from holdfast.engine.objects.reachable import Source, mark
from holdfast.engine.planes.handle import Handle
from holdfast.errors import TooLarge
from holdfast.ids import ObjectId
from holdfast.model.basics import Size

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
