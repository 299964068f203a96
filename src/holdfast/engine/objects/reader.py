"""Reads objects by their name, and proves each one on the way.

An object is found through the index, read with its block from a pack, cut out and re-hashed:
bytes that do not hash to their name are an error, never an answer. Nodes are cached decoded,
because a snapshot or a diff looks at the upper ones again and again; short objects as they are.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Final

from holdfast.catalog.packs import Located
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.entries import DIRECTORY_TAG, tag_of
from holdfast.errors import Damaged, ObjectDamaged, ObjectMissing, PackDamaged, PackMissing
from holdfast.fetching import Away, can_wait
from holdfast.ids import ObjectId, TenantId
from holdfast.model.basics import EMPTY_MAP, UNSTORED_ROOTS, Root
from holdfast.packs import cut, read_block
from holdfast.tree import Node, count, decode_node

_NODES: Final = 256
"""Nodes that are looked at together."""

_COUNT_BYTES: Final = 200
"""What a count takes in memory, with its key."""

_AT_ONCE: Final = 8
"""Blocks of a bucket that are asked for together."""

SHORT_BYTES: Final = 16 << 10
"""Objects up to here are kept as they are, once they were read by themselves."""


class Objects:
    """One tenant's objects, to read.

    Bound to a transaction, it looks things up there and needs no second connection; unbound,
    it opens a short transaction for each batch, so that a slow reader holds none open.
    """

    def __init__(
        self,
        context: Context,
        tenant_id: TenantId,
        transaction: Transaction | None = None,
        *,
        places: Mapping[ObjectId, Located] = MappingProxyType({}),
    ) -> None:
        self._context = context
        self._tenant_id = tenant_id
        self._transaction = transaction
        self._places = places
        """Where some of them were found already."""

    @property
    def limits(self) -> Limits:
        """What the engine that they belong to accepts."""
        return self._context.limits

    def bound(self, transaction: Transaction) -> "Objects":
        """Returns the same objects, looked up in this transaction."""
        return Objects(self._context, self._tenant_id, transaction)

    @property
    def is_bound(self) -> bool:
        """Says whether they belong to a transaction, and so to its thread."""
        return self._transaction is not None

    def unbound(self) -> "Objects":
        """Returns the same objects, looked up as they are when they are asked for."""
        return Objects(self._context, self._tenant_id)

    def ahead(self, object_ids: Sequence[ObjectId]) -> "Objects":
        """Returns the same objects, of which these will be read soon, in this order.

        Their places are looked up together, now, and a bucket hears of them. What is missing is
        said to who reads it.
        """
        found = {place.placement.object_id: place for place in self._locate(object_ids)}
        self._expect(found[i] for i in object_ids if i in found)
        return Objects(self._context, self._tenant_id, self._transaction, places=found)

    def get_root(self, root_id: ObjectId) -> Root:
        """Returns the roots of all planes that one root names."""
        if (known := UNSTORED_ROOTS.get(root_id)) is not None:
            return known
        cache, key = self._context.roots, (self._tenant_id, root_id)
        root = cache.find(key)
        if root is None:
            data = self.get(root_id)
            root = Root.decode(data)
            # Decoded, it is an object with four ids.
            cache.put(key, root, size=3 * len(data))
        return root

    def get(self, object_id: ObjectId) -> bytes:
        """Returns one object's bytes."""
        return self._fetch([object_id])[object_id]

    def get_many(self, object_ids: Sequence[ObjectId]) -> dict[ObjectId, bytes]:
        """Returns the bytes of each object; raises for one that is missing or damaged.

        A short one that was read by itself may come from memory, whatever became of it since.
        """
        if len(object_ids) > 1:
            return self._fetch(object_ids)
        # A short file is one object, and read more often than written.
        return self.get_short(object_ids)

    def get_short(self, object_ids: Sequence[ObjectId]) -> dict[ObjectId, bytes]:
        """Returns the same of objects each of which is all of a file or value.

        Where they are short, they may come from memory, whatever became of them since.
        """
        cache, tenant_id = self._context.shorts, self._tenant_id
        found: dict[ObjectId, bytes] = {}
        missing: list[ObjectId] = []
        for object_id in object_ids:
            data = cache.find((tenant_id, object_id))
            if data is None:
                missing.append(object_id)
            else:
                found[object_id] = data
        for object_id, data in (self._fetch(missing) if missing else {}).items():
            found[object_id] = data
            if len(data) <= SHORT_BYTES:
                cache.put((tenant_id, object_id), data, size=len(data) + _COUNT_BYTES)
        return found

    def _fetch(self, object_ids: Sequence[ObjectId]) -> dict[ObjectId, bytes]:
        places = [*self._locate(object_ids)]
        self._check_at_hand(places)
        if len(places) > 1:
            self._expect(places)
        found = {located.placement.object_id: self.read(located) for located in places}
        for object_id in object_ids:
            if object_id not in found:
                raise ObjectMissing(object_id)
        return found

    def _check_at_hand(self, places: Iterable[Located]) -> None:
        """Raises `Away` if a block has yet to come from a bucket, and a transaction is open."""
        if self._transaction is None or not self._context.blobs.is_remote or not can_wait():
            return
        if away := self._away(places):
            raise BlocksAway(self._context, away)

    def _expect(self, places: Iterable[Located]) -> None:
        """Has a bucket hear which blocks will be asked for."""
        blobs = self._context.blobs
        if blobs.is_remote and (away := self._away(places)):
            wanted = ((each.pack, each.placement) for each in away)
            blobs.expect((pack, at.block_offset, at.block_size) for pack, at in wanted)

    def _away(self, places: Iterable[Located]) -> list[Located]:
        """Returns of each block that is not in memory one place in it."""
        blocks = self._context.blocks
        keys = {
            (place.pack, place.placement.block_offset): place
            for place in places
            if place.block is None
        }
        return [place for key, place in keys.items() if blocks.find(key) is None]

    def check_stored(self, object_ids: Sequence[ObjectId]) -> None:
        """Raises for an object that is missing or damaged where it is stored; no cache is asked."""
        blocks: defaultdict[tuple[str, int], list[Located]] = defaultdict(list)
        for at in range(0, len(object_ids), _NODES):
            batch = object_ids[at : at + _NODES]
            located = {found.placement.object_id: found for found in self._locate(batch)}
            for object_id in batch:
                if object_id not in located:
                    raise ObjectMissing(object_id)
                found = located[object_id]
                blocks[found.pack, found.placement.block_offset].append(found)
        for same in blocks.values():
            try:
                block = fetch_block(self._context, same[0], is_afresh=True)
            except PackMissing:
                for found in same:
                    # Which the collector may have moved since we looked; not what a cache has.
                    moved = self._relocated(found)
                    block = fetch_block(self._context, moved, is_afresh=True)
                    cut(block, moved.placement, pack=moved.pack)
                continue
            for found in same:
                cut(block, found.placement, pack=found.pack)

    def get_nodes(self, ids: Sequence[ObjectId], /) -> list[Node]:
        """Returns map nodes in the order asked for."""
        cache, tenant_id = self._context.nodes, self._tenant_id
        if len(ids) == 1 and (cached := cache.find((tenant_id, ids[0]))) is not None:
            return [cached]  # Most reads are: on the way to one key it saves 0.5 µs a level.
        nodes = {i: cache.find((tenant_id, i)) for i in ids}
        missing = [i for i, node in nodes.items() if node is None]
        if missing:
            for object_id, data in self._fetch(missing).items():
                node = nodes[object_id] = decode_node(data)
                # Decoded, a node takes about three times its encoded bytes.
                cache.put((tenant_id, object_id), node, size=3 * len(data))
        return [node for i in ids if (node := nodes[i]) is not None]

    def count_files(self, root: ObjectId) -> int:
        """Returns how many files and links a files map holds, which is what listings show of it.

        How many entries there are the tree knows; which of them are directories is looked at
        once for each node, since none ever changes. Where one cannot be read directories count,
        too: a number keeps nobody from going back, and whoever reads the node is told.
        """
        if root == EMPTY_MAP:
            return 0
        total = count(self, root)
        with suppress(Damaged):
            total -= self._count_directories([root])
        return total

    def _count_directories(self, ids: Sequence[ObjectId]) -> int:
        cache, tenant_id = self._context.directories, self._tenant_id
        known = {i: cache.find((tenant_id, i)) for i in ids}
        missing = [i for i, found in known.items() if found is None]
        for at in range(0, len(missing), _NODES):
            batch = missing[at : at + _NODES]
            for node_id, node in zip(batch, self.get_nodes(batch), strict=True):
                if node.level:
                    found = self._count_directories([ObjectId(value) for value in node.values])
                else:
                    found = sum(tag_of(value) == DIRECTORY_TAG for value in node.values)
                cache.put((tenant_id, node_id), found, size=_COUNT_BYTES)
                known[node_id] = found
        return sum(known[i] or 0 for i in ids)

    def _locate(self, object_ids: Sequence[ObjectId]) -> Iterable[Located]:
        found = [self._places[i] for i in object_ids if i in self._places]
        missing = [i for i in object_ids if i not in self._places]
        return [*found, *self._look_up(missing)] if missing else found

    def _look_up(self, object_ids: Sequence[ObjectId]) -> Iterable[Located]:
        if self._transaction is not None:
            return self._transaction.locate(self._tenant_id, object_ids).values()
        with self._context.catalog.read() as transaction:
            return transaction.locate(self._tenant_id, object_ids).values()

    def read(self, located: Located) -> bytes:
        """Returns the bytes of an object whose place is known."""
        try:
            return self._cut(located)
        except PackMissing:
            # The collector may have moved the object to another pack since we looked.
            return self._cut(self._relocated(located))

    def _cut(self, located: Located) -> bytes:
        key = (located.pack, located.placement.block_offset)
        cached = self._context.blocks.find(key)
        if cached is not None:
            # One that is damaged in the cache may since have been repaired on the disk.
            with suppress(Damaged):
                return cut(cached, located.placement, pack=located.pack)
        try:
            block = fetch_block(self._context, located)
            data = cut(block, located.placement, pack=located.pack)
        except (ObjectDamaged, PackDamaged):
            if not self._context.blobs.is_remote:
                raise
            # What is kept of a bucket may be what is damaged: asked for once more, it is not.
            self._context.blobs.forget(located.pack)
            block = fetch_block(self._context, located)
            data = cut(block, located.placement, pack=located.pack)
        self._context.blocks.put(key, block, size=len(block))
        return data

    def _relocated(self, located: Located) -> Located:
        object_id = located.placement.object_id
        with self._context.catalog.read() as transaction:
            again = transaction.locate(self._tenant_id, [object_id]).get(object_id)
        if again is None or again.pack == located.pack:
            seen = self._context.looked.get(self._tenant_id)
            if seen is not None and located.pack not in seen.lost:
                # Whoever is about to promise something looks anew whether all packs are there.
                self._context.looked.pop(self._tenant_id, None)
            raise PackMissing(located.pack)
        return again


class BlocksAway(Away):
    """Blocks have to come from a bucket first."""

    def __init__(self, context: Context, places: Sequence[Located]) -> None:
        super().__init__(partial(_bring_all, context, places))
        self.places = places


def _bring_all(context: Context, places: Sequence[Located]) -> int:
    sizes = bring_blocks(context, places)
    return sum(sizes) if all(sizes) else 0


def bring_blocks(context: Context, places: Sequence[Located]) -> list[int]:
    """Fetches blocks of a bucket into memory, several at a time; returns how many bytes each has.

    0 for one that memory does not keep, or that is not as it was.
    """
    bring = partial(_bring_block, context)
    if len(places) == 1:
        return [bring(places[0])]
    # Loaded by who has a bucket.
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - see above

    with ThreadPoolExecutor(min(_AT_ONCE, len(places))) as pool:
        return [*pool.map(bring, places)]


def _bring_block(context: Context, place: Located) -> int:
    try:
        block = fetch_block(context, place)
    except Damaged:
        return 0  # A collector may have moved it: who looks it up anew knows.
    key = (place.pack, place.placement.block_offset)
    context.blocks.put(key, block, size=len(block))
    return len(block) if context.blocks.find(key) is not None else 0


def fetch_block(context: Context, located: Located, *, is_afresh: bool = False) -> bytes:
    """Returns the plain block that an object lies in, from where it is stored.

    What a machine keeps of a bucket answers, too, unless the block has to be read `is_afresh`.
    """
    placement, stored = located.placement, located.block
    if stored is None:
        if placement.block_offset < 0 or placement.block_size < 0:
            raise PackDamaged(located.pack, reason="the index points outside of it")
        blobs = context.blobs.uncached() if is_afresh else context.blobs
        stored = blobs.get(located.pack, start=placement.block_offset, length=placement.block_size)
    return read_block(stored, pack=located.pack)
