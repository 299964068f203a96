"""Takes keys out of maps that snapshots hold: each root that has one is made anew without it.

A root is the hash of what it holds, so what is erased can go in no other way: what is left has
another root, the very one that it would have if nothing else had ever been there. A snapshot keeps
its id, its place on the timeline and all else that it says.
"""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.growth import size_of
from holdfast.engine.core.lineage import MERGED_ROOT, merged_root
from holdfast.engine.objects.reachable import iter_entries
from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP, UNSTORED_ROOTS, Head, Plane, Size, SnapshotInfo
from holdfast.packs import ObjectKind
from holdfast.tree import apply, get_many

ALL: Final = 2**31
"""Snapshots: more than any timeline has."""

Keys = Mapping[Plane, AbstractSet[bytes]]

Takes = Callable[[Plane, bytes, bytes], bool]
"""Says whether the entry that a key has goes: the key may be another's, too."""


class Timeline:
    """All roots that the rows of a namespace name, whose head is locked."""

    def __init__(self, transaction: Transaction, head: Head) -> None:
        self._transaction, self._head = transaction, head
        self.snapshots = transaction.timeline(head.namespace_id, before=None, most=ALL)

    def maps(self, source: StagedObjects, plane: Plane) -> set[ObjectId]:
        """Returns the maps that its roots have for a plane."""
        roots = {each.root for each in self.snapshots} | {self._head.root}
        roots.update(root for each in self.snapshots if (root := merged_root(each)) is not None)
        if self._head.fork_root is not None:
            roots.add(self._head.fork_root)
        found = {source.get_root(root).plane(plane) for root in roots if root not in UNSTORED_ROOTS}
        return found - {EMPTY_MAP}

    def iterate(self, source: StagedObjects, plane: Plane) -> Iterator[tuple[bytes, bytes]]:
        """Yields what all roots hold in a plane; what several hold, once."""
        return iter_entries(source, self.maps(source, plane))

    def erase_names(self, gone: Mapping[Plane, AbstractSet[str]]) -> int:
        """Takes names out of what snapshots say that a restore has chosen; returns of how many."""
        count = 0
        for at, snapshot in enumerate(self.snapshots):
            detail = _without_names(snapshot.detail, gone)
            if detail != snapshot.detail:
                self.snapshots[at] = replace(snapshot, detail=detail)
                self._transaction.rewrite_snapshot(self.snapshots[at])
                count += 1
        return count

    def rewrite(
        self, source: StagedObjects, stage: Stage, gone: Keys, *, takes: Takes, more: Size
    ) -> int:
        """Writes roots without these keys in the place of those with them; stores what is new.

        Of a key, those entries go that this takes.

        `more` is by how much the head, with what is pending, grows or shrinks. Returns how many
        snapshots have another root now.
        """
        new, changed, count = _Without(source, stage, gone, takes), list[SnapshotInfo](), 0
        moved = {each.number for each in self.snapshots if new.root(each.root)[0] != each.root}
        for snapshot in self.snapshots:
            root, size = new.root(snapshot.root)
            detail, theirs = snapshot.detail, merged_root(snapshot)
            if theirs is not None:
                detail = {**detail, MERGED_ROOT: new.root(theirs)[0].hex()}
            # What is gone was among what was counted, in this one or in the one before it.
            is_counted_anew = not moved.isdisjoint((snapshot.number, snapshot.number - 1))
            counts = None if is_counted_anew else snapshot.counts
            other = replace(
                snapshot, root=root, size=snapshot.size + size, detail=detail, counts=counts
            )
            count += other != snapshot
            if other != snapshot or counts != snapshot.counts:
                changed.append(other)
        head, fork_root = self._head, self._head.fork_root
        root, _ = new.root(head.root)
        if fork_root is not None:
            head = replace(head, fork_root=new.root(fork_root)[0])
        stage.seal(self._transaction)
        stage.record(self._transaction)
        for other in changed:
            self._transaction.rewrite_snapshot(other)
        self._transaction.rewrite_head(head, root=root, more=more)
        return count


def _without_names(
    detail: Mapping[str, Any], gone: Mapping[Plane, AbstractSet[str]]
) -> dict[str, Any]:
    """Returns what is said of a restore without some names; how many there were still counts."""
    ids = {(plane.value, name) for plane, names in gone.items() for name in names}
    kept = {
        kind: [each for each in detail[kind] if (each.get("plane"), each.get("name")) not in ids]
        for kind in ("names", "except")
        if kind in detail
    }
    return {**detail, **kept}


class _Without:
    """Roots and maps without some keys; each is made once, however many snapshots share it."""

    def __init__(self, source: StagedObjects, stage: Stage, gone: Keys, takes: Takes) -> None:
        self._source, self._stage, self._gone, self._takes = source, stage, gone, takes
        self._roots = dict[ObjectId, tuple[ObjectId, Size]]()
        self._maps = dict[tuple[Plane, ObjectId], tuple[ObjectId, Size]]()

    def root(self, root_id: ObjectId) -> tuple[ObjectId, Size]:
        """Returns a root without the keys, and how much less it holds, as a negative size."""
        if root_id not in self._roots:
            root, more, planes = self._source.get_root(root_id), Size(), dict[str, ObjectId]()
            for plane in self._gone:
                at, size = self._map(plane, root.plane(plane))
                if at != root.plane(plane):
                    planes[plane.value] = at
                    more += size
            data = root.replacing(**planes).encode()
            new = self._stage.add(data, ObjectKind.NODE) if planes else root_id
            self._roots[root_id] = new, more
        return self._roots[root_id]

    def _map(self, plane: Plane, at: ObjectId) -> tuple[ObjectId, Size]:
        if at == EMPTY_MAP:
            return at, Size()
        if (plane, at) not in self._maps:
            found = get_many(self._source, at, sorted(self._gone[plane]))
            wanted = [key for key, entry in found.items() if self._takes(plane, key, entry)]
            applied = apply(self._source, at, dict.fromkeys(wanted))
            self._stage.add_nodes(applied.nodes)
            self._maps[plane, at] = applied.root, size_of(applied.edits)
        return self._maps[plane, at]
