"""Changes some entries of a tree, and gives back the new tree's root and new nodes.

Promise: the root is the one that `build` would give for the changed contents, at a cost of
the number of changes times the height of the tree, whatever the size of the map. (A run that
is larger than one node is read as a whole: see `split.py`.)

How: every level is an ordered map of its own. Level 0 holds the entries; level n + 1 holds
a row per node of level n, named by the node's last key. Changed rows of a level are put into
the runs they fall into, those runs are split into nodes again, and where that makes nodes
come and go, the rows of the level above change. So one procedure climbs from the leaves to
the root. Invariants of each step, which together give the promise:

1. Inside an old node no key closes a node, only its last key may. So a natural boundary is
   looked for at new keys and at the ends of old nodes, nowhere else.
2. A stretch of rows that is split again begins after a natural boundary, and ends after one
   that is in both the old and the new level (or where the level ends). So whatever lies
   outside of it is split as it was.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping

import msgspec

from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP
from holdfast.tree.build import Rows, build, build_upwards, pack
from holdfast.tree.diff import Edit
from holdfast.tree.node import NodeSource, decode_node, get_children, get_root
from holdfast.tree.paths import Paths, Spot
from holdfast.tree.split import closes_node


class Applied(msgspec.Struct, frozen=True):
    """A changed tree: its root, its nodes that the old one did not have, and what changed.

    `edits` are the real changes, ascending: what was so before is not among them.
    """

    root: ObjectId
    nodes: dict[ObjectId, bytes]
    edits: list[Edit]
    count: int


def apply(source: NodeSource, root: ObjectId, changes: Mapping[bytes, bytes | None]) -> Applied:
    """Returns the tree with these values put, and the keys with None deleted.

    Deleting a missing key, or putting the value that is there, changes nothing.
    """
    if root == EMPTY_MAP:
        return _apply_to_nothing(changes)
    top = get_root(source, root)
    paths = Paths(source, root, top)
    paths.descend(sorted(changes))
    nodes: dict[ObjectId, bytes] = {}
    edits, rows = _rewrite_level(paths, 0, _Changes(dict(changes)), nodes)
    if not edits:
        return Applied(root, {}, [], top.total)
    for level in range(1, top.level + 1):
        _, rows = _rewrite_level(paths, level, rows, nodes)
    new_root = _close(source, top.level, rows, nodes)
    grown = sum(edit.old is None for edit in edits) - sum(edit.new is None for edit in edits)
    return Applied(new_root, nodes, edits, top.total + grown)


def _apply_to_nothing(changes: Mapping[bytes, bytes | None]) -> Applied:
    items = sorted((key, value) for key, value in changes.items() if value is not None)
    built = build(items)
    edits = [Edit(key, None, value) for key, value in items]
    return Applied(built.root, built.nodes, edits, built.count)


class _Changes(msgspec.Struct, frozen=True):
    """Rows to put into a level, and keys to delete from it (None).

    Above the leaves `counts` says how many entries each row that is put stands for.
    """

    values: dict[bytes, bytes | None] = msgspec.field(default_factory=dict[bytes, bytes | None])
    counts: dict[bytes, int] = msgspec.field(default_factory=dict[bytes, int])


def _rewrite_level(
    paths: Paths, level: int, changes: _Changes, nodes: dict[ObjectId, bytes]
) -> tuple[list[Edit], _Changes]:
    """Applies changes to the rows of a level.

    Adds new nodes to `nodes`. Returns the edits, and the changes for the level above.
    """
    edits: list[Edit] = []
    above = _Changes()
    last_keys, spots = paths.sorted_spots(level)
    keys = sorted(changes.values)
    at = 0
    while at < len(keys):
        # A key beyond the last one belongs to the last node, which `descend` has loaded.
        nearest = min(bisect_left(last_keys, keys[at]), len(last_keys) - 1)
        spot = spots[last_keys[nearest]]
        while spot.after is not None and not closes_node(spot.after, level):
            spot = paths.step(spot, -1)
        stretch = _Stretch(level)
        while True:
            end = len(keys) if spot.is_last else bisect_right(keys, spot.last_key, at)
            is_whole = stretch.take(spot, keys[at:end], changes)
            at = end
            if is_whole:
                break
            spot = paths.step(spot, 1)
        if stretch.edits:
            edits += stretch.edits
            stretch.finish(nodes, above)
    return edits, above


class _Stretch:
    """The new rows in place of some neighbouring old nodes, until they are split again."""

    def __init__(self, level: int) -> None:
        self.edits: list[Edit] = []
        self._level = level
        self._values: dict[bytes, bytes] = {}
        self._counts: dict[bytes, int] = {}
        self._closing: set[bytes] = set()
        self._replaced: list[Spot] = []
        self._end: bytes | None = None  # the greatest key so far

    def take(self, spot: Spot, keys: list[bytes], changes: _Changes) -> bool:
        """Adds an old node's rows, with the changes of these keys.

        Returns whether the stretch may end here.
        """
        node, values, counts = spot.node, self._values, self._counts
        self._replaced.append(spot)
        values.update(zip(node.keys, node.values, strict=True))
        is_boundary = closes_node(spot.last_key, self._level)
        if is_boundary:
            self._closing.add(spot.last_key)
        edits = self._change(keys, changes.values)
        self.edits += edits
        if self._level:
            counts.update(zip(node.keys, node.counts, strict=True))
            counts.update((key, changes.counts[key]) for key in keys if key in changes.counts)
        candidates = (spot.last_key,) if spot.last_key in values else (*node.keys, *keys)
        self._end = max((key for key in candidates if key in values), default=self._end)
        # Invariant 2: the boundary was there before, and one is there still.
        return spot.is_last or (is_boundary and (self._end is None or self._end in self._closing))

    def _change(self, keys: list[bytes], news: Mapping[bytes, bytes | None]) -> list[Edit]:
        """Changes the rows of these keys, where that is a change; returns the edits."""
        values, level = self._values, self._level
        changed = [key for key in keys if values.get(key) != news[key]]
        edits = [Edit(key, values.get(key), news[key]) for key in changed]
        for edit in edits:
            if edit.new is None:
                del values[edit.key]
                continue
            values[edit.key] = edit.new
            # Invariant 1: a key that was there needs no second look.
            if edit.old is None and closes_node(edit.key, level):
                self._closing.add(edit.key)
        return edits

    def finish(self, nodes: dict[ObjectId, bytes], above: _Changes) -> None:
        """Splits the rows into nodes, and adds the changes that makes for the level above."""
        keys = sorted(self._values)
        values = [self._values[key] for key in keys]
        counts = [self._counts[key] for key in keys] if self._level else [1] * len(keys)
        ends = sorted(bisect_right(keys, key) for key in self._closing if key in self._values)
        made = pack(Rows(self._level, keys, values, counts), ends, nodes)
        for spot in self._replaced:
            above.values[spot.last_key] = None
            # A node that came out as it was, in a large run or at the old end, is not new.
            nodes.pop(spot.node_id, None)
        above.values.update(zip(made.keys, made.values, strict=True))
        above.counts.update(zip(made.keys, made.counts, strict=True))


def _close(source: NodeSource, level: int, put: _Changes, nodes: dict[ObjectId, bytes]) -> ObjectId:
    """Returns the root of a tree whose level of the old root consists of the nodes put."""
    keys = sorted(put.counts)
    values = [value for key in keys if (value := put.values[key]) is not None]
    if not keys:
        return EMPTY_MAP
    if len(keys) > 1:
        rows = Rows(level + 1, keys, values, [put.counts[key] for key in keys])
        return build_upwards(rows, nodes)
    # The canonical root is the lowest node that is alone at its level.
    root = ObjectId(values[0])
    while True:
        data = nodes.get(root)
        node = decode_node(data) if data else get_children(source, level, [(keys[0], root)])[0]
        if level == 0 or len(node.keys) > 1:
            return root
        nodes.pop(root, None)
        level, root = level - 1, ObjectId(node.values[0])
