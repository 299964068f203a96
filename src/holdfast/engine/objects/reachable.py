"""Finds every object that something still needs.

Starts from the heads, pending rows, snapshots and fork points of a tenant, and walks maps and
entries. Each node is visited once, however many snapshots share it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.lineage import merged_root
from holdfast.engine.objects.content import Source, list_refs
from holdfast.engine.objects.packing import decode_state
from holdfast.entries import (
    MEMORY_TAG,
    OVERLAY_TAG,
    Overlay,
    Session,
    Submap,
    blobs_of,
    decode_entry,
)
from holdfast.ids import ObjectId, TenantId
from holdfast.model.basics import EMPTY_MAP, UNSTORED_ROOTS, Plane

BATCH: Final = 256
"""Nodes fetched together."""


def root_ids(transaction: Transaction, tenant_id: TenantId) -> set[ObjectId]:
    """Returns every root that a tenant's rows name."""
    snapshots = transaction.iter_snapshots(tenant_id)
    roots = {snapshot.root for snapshot in snapshots}
    roots.update(root for snapshot in snapshots if (root := merged_root(snapshot)) is not None)
    for head in transaction.iter_heads(tenant_id):
        roots.add(head.root)
        if head.fork_root is not None:
            roots.add(head.fork_root)
    return roots


def pending_entries(transaction: Transaction, tenant_id: TenantId) -> Iterator[bytes]:
    """Yields the entries of all pending rows of a tenant, and the states of all versions.

    And what was there before tasks changed it: they can be taken back.
    """
    for head in transaction.iter_heads(tenant_id):
        for _, _, entry in transaction.all_pending(head.namespace_id):
            if entry is not None:
                yield entry
    yield from transaction.iter_version_states(tenant_id)
    for _, _, entry in transaction.iter_task_entries(tenant_id):
        yield entry


def referring(entries: Iterable[bytes]) -> set[bytes]:
    """Returns those of some entries that name objects, each once."""
    return {data for data in entries if data[1] in _REFERRING}


def branches_of(entries: Iterable[bytes]) -> Iterator[str]:
    """Yields the branches that the sessions among some entries name."""
    for data in entries:
        if data[1] == _SESSION:
            entry = decode_entry(data)
            if isinstance(entry, Session) and entry.turns:
                yield entry.branch


def mark(source: Source, roots: Iterable[ObjectId], entries: Iterable[bytes]) -> set[ObjectId]:
    """Returns every object that these roots and entries need."""
    # Apart: a file may hold the very bytes of a node or root. Marked as its chunk, the node
    # would pass for visited, and all that it leads to would be lost.
    top = {root_id for root_id in roots if root_id not in UNSTORED_ROOTS}
    nodes, chunks = set[ObjectId](), set[ObjectId]()
    for root_id in top:
        root = source.get_root(root_id)
        mark_maps(source, [root.plane(plane) for plane in Plane], nodes, chunks)
    mark_maps(source, mark_entries(source, entries, chunks), nodes, chunks)
    return top | nodes | chunks


def mark_maps(
    source: Source, maps: Sequence[ObjectId], nodes: set[ObjectId], chunks: set[ObjectId]
) -> None:
    """Adds all that some maps need: their nodes, and the chunks of their entries."""
    todo = [root for root in maps if root != EMPTY_MAP]
    while todo:
        batch, todo = todo[-BATCH:], todo[:-BATCH]
        batch = [object_id for object_id in dict.fromkeys(batch) if object_id not in nodes]
        nodes.update(batch)
        for node in source.get_nodes(batch):
            if node.level:
                todo += [ObjectId(v) for v in node.values if v not in nodes]
            else:
                todo += mark_entries(source, node.values, chunks)


def iter_entries(
    source: Source, maps: Iterable[ObjectId], seen: set[ObjectId] | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and entries of some maps; each node that is not `seen` is looked at once."""
    todo, seen = [*maps], {EMPTY_MAP} if seen is None else seen
    while todo:
        batch, todo = todo[-BATCH:], todo[:-BATCH]
        batch = [node_id for node_id in dict.fromkeys(batch) if node_id not in seen]
        seen.update(batch)
        for node in source.get_nodes(batch):
            if node.level:
                todo += [ObjectId(value) for value in node.values]
            else:
                yield from zip(node.keys, node.values, strict=True)


def mark_entries(source: Source, entries: Iterable[bytes], chunks: set[ObjectId]) -> list[ObjectId]:
    """Adds the chunks that entries need; returns the maps that they name."""
    maps: list[ObjectId] = []
    for data in entries:
        # The tag of an entry is its second byte: most entries need no decoding at all.
        if data[1] in _REFERRING:
            entry = decode_state(data) if data[1] == OVERLAY_TAG else decode_entry(data)
            if blobs := blobs_of(entry):
                chunks.update(i for blob in blobs for i in list_refs(source, blob))
                continue
            if isinstance(entry, Session):
                entry = decode_state(entry.state)
            if isinstance(entry, Submap | Overlay) and entry.root != EMPTY_MAP:
                maps.append(ObjectId(entry.root))
    return maps


_SESSION: Final = 7
_REFERRING: Final = frozenset({1, 4, 6, _SESSION, OVERLAY_TAG, MEMORY_TAG})
"""The tags of `Blob`, `Submap`, `BlobTwin`, `Session`, `Overlay`, `Memory`: what names objects."""
