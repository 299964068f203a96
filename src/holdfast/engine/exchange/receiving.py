"""Takes packs of chunks in that somebody sent ahead of a snapshot.

A pack is checked from end to end: every object is hashed, none is believed. What is in it is
stored anew, so that nothing of the sender's packing stays; what the tenant has already is stored
once. When this returns, the objects are durable, and written down as received for the namespace:
a sender whose connection breaks asks what is missing, and goes on from there.
"""

from collections.abc import Sequence
from typing import Final

from holdfast.engine.exchange.reach import Reach
from holdfast.engine.objects.content import FILES
from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.engine.objects.trust import find_in_lost_packs
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.unit import carry_out
from holdfast.errors import Damaged, InvalidValue, TooLarge, VaultTooNew
from holdfast.ids import OBJECT_ID_BYTES, ObjectId
from holdfast.model.basics import Plane
from holdfast.packs import ObjectKind, cut, read_block
from holdfast.packs.reader import load_index, ranges_of

MAX_PACK_BYTES: Final = 8 << 20
"""A pack as it is sent."""

MAX_CONTENT_BYTES: Final = 32 << 20
"""What a pack holds, unpacked. Senders close one at a fraction of it; more is an attack."""

MAX_ASKED: Final = 100_000
"""Objects that one question may name."""

MAX_INDEX_BYTES: Final = MAX_PACK_BYTES * 3 // 2
"""Its index, unpacked: ids do not compress, so that an honest one has no more. One of empty blocks
does, ten-thousandfold."""

_PACK: Final = "that was sent"
"""Stands for the pack's name in errors."""


def split_ids(data: bytes) -> list[ObjectId]:
    """Returns the names of objects that stand back to back; raises `InvalidValue`."""
    if len(data) % OBJECT_ID_BYTES:
        message = f"names of objects have {OBJECT_ID_BYTES} bytes each"
        raise InvalidValue(message)
    if len(data) > MAX_ASKED * OBJECT_ID_BYTES:
        message = f"{MAX_ASKED} objects can be asked about at a time"
        raise TooLarge(message)
    starts = range(0, len(data), OBJECT_ID_BYTES)
    return [ObjectId(data[at : at + OBJECT_ID_BYTES]) for at in starts]


def missing(handle: Handle, object_ids: Sequence[ObjectId], *, is_shared: bool) -> list[ObjectId]:
    """Returns which of these objects would have to be sent, in the order asked for."""
    with handle.context.catalog.read() as transaction:
        head = handle.head_or_empty(transaction)
        source = StagedObjects(handle.objects_in(transaction))
        reach = Reach(
            handle,
            transaction,
            head.namespace_id,
            source=source,
            files=source.get_root(head.root).plane(Plane.FILES),
            is_shared=is_shared,
        )
        found = reach.find(dict.fromkeys(object_ids))
    lost = find_in_lost_packs(handle.context, handle.tenant_id, list(found))
    # The sender has the bytes in hand: what is known to be lost is asked for again.
    there = found.keys() - lost
    return [object_id for object_id in dict.fromkeys(object_ids) if object_id not in there]


def receive(handle: Handle, data: bytes) -> list[ObjectId]:
    """Stores the objects of a pack for a namespace; returns which those are."""
    objects = unpack(data)

    def write(stage: Stage) -> list[ObjectId]:
        for part in objects.values():
            stage.add(part, ObjectKind.CHUNK)
        stage.seal()
        with handle.context.work() as transaction:
            # Nobody waits for who sends something ahead, but for the first who does.
            head = handle.find_head(transaction) or handle.lock_or_create(transaction)
            stage.record(transaction)
            now = handle.context.clock()
            transaction.add_received(head.namespace_id, list(objects), now=now)
        return list(objects)

    return carry_out(handle, write)


def unpack(data: bytes) -> dict[ObjectId, bytes]:
    """Returns the objects of a pack that somebody sent, each proven; raises `InvalidValue`."""
    if len(data) > MAX_PACK_BYTES:
        message = f"a pack may have {MAX_PACK_BYTES} bytes; this one has {len(data)}"
        raise TooLarge(message)
    try:
        return _unpack(data)
    except (Damaged, VaultTooNew) as exc:
        # It is not ours that is damaged: nothing of it was stored.
        message = f"the pack cannot be used: {exc}"
        raise InvalidValue(message) from exc


def _unpack(data: bytes) -> dict[ObjectId, bytes]:
    index = load_index(ranges_of(data), size=len(data), pack=_PACK, most=MAX_INDEX_BYTES)
    # Both: rows of an index may cut the same bytes of a block again and again.
    plain = sum(block.plain_size for block in index.blocks)
    if max(plain, sum(row.size for row in index.objects)) > MAX_CONTENT_BYTES:
        message = f"a pack may hold {MAX_CONTENT_BYTES} bytes; this one holds more"
        raise TooLarge(message)
    if any(not 0 < row.size <= FILES.max_bytes for row in index.objects):
        message = f"an object has 1 to {FILES.max_bytes} bytes"
        raise InvalidValue(message)
    found: dict[ObjectId, bytes] = {}
    by_block = sorted(index.objects, key=lambda row: row.block)
    at, block = -1, b""
    for row in by_block:
        if row.block != at:
            at, place = row.block, index.blocks[row.block]
            block = read_block(data[place.offset : place.offset + place.stored_size], pack=_PACK)
            if len(block) != place.plain_size:
                raise InvalidValue("the pack cannot be used: a block has another size than it says")
        found[ObjectId(row.object_id)] = cut(block, index.placement(row), pack=_PACK)
    return found
