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

The part of an old tree that an edit needs: paths to the changed keys, and neighbours.

Promise: `descend` asks the source once per level, however many keys there are. Neighbours
beyond that are fetched when `step` first meets them, which is rare: a boundary was deleted,
or a large run goes on under another parent.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping

import msgspec

from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP
from holdfast.tree.build import Rows, build, build_upwards, pack
from holdfast.tree.diff import Edit
from holdfast.tree.node import Node, NodeSource, decode_node, get_children, get_root
from holdfast.tree.split import closes_node


class Spot(msgspec.Struct, frozen=True, eq=False):
    """A node and its place in the tree.

    `after` is the last key of the node before it at the same level: every key of this node
    is greater. It is None at the left edge of the tree.
    """

    node: Node
    node_id: ObjectId
    after: bytes | None
    parent: "Spot | None"
    index: int
    is_last: bool

    @property
    def last_key(self) -> bytes:
        """The key that names this node in its parent."""
        return self.node.keys[-1]


class Paths:
    """The loaded spots of one tree, by level and last key."""

    def __init__(self, source: NodeSource, root: ObjectId, node: Node) -> None:
        self._source = source
        self._root = Spot(node, root, after=None, parent=None, index=0, is_last=True)
        self._levels: list[dict[bytes, Spot]] = [{} for _ in range(node.level + 1)]
        self._levels[node.level][self._root.last_key] = self._root

    def descend(self, keys: list[bytes]) -> None:
        """Loads the paths to all these keys, which ascend.

        A key beyond the last one leads to the last leaf. Where a node is part of a larger
        run, the run's other nodes under the same parent are loaded with it: they will be
        split again together.
        """
        ways = [(self._root, 0, len(keys))]
        for level in range(self._root.node.level - 1, -1, -1):
            turns = [turn for spot, start, stop in ways for turn in _turns(spot, keys, start, stop)]
            wanted = dict.fromkeys(
                (spot, at) for spot, index, _, _ in turns for at in _run_around(spot, index)
            )
            self._load(level, list(wanted))
            spots = self._levels[level]
            ways = [
                (spots[spot.node.keys[index]], start, stop) for spot, index, start, stop in turns
            ]

    def sorted_spots(self, level: int) -> tuple[list[bytes], dict[bytes, Spot]]:
        """Returns the last keys of the loaded nodes of a level, ascending, and the spots."""
        return sorted(self._levels[level]), self._levels[level]

    def step(self, spot: Spot, direction: int) -> Spot:
        """Returns the next spot of the level (direction 1) or the one before it (-1).

        The caller knows that there is one, from `is_last` or `after`.
        """
        parent, index = spot.parent, spot.index + direction
        if parent is None:
            message = "a root has no neighbours"
            raise ValueError(message)
        if not 0 <= index < len(parent.node.keys):
            parent = self.step(parent, direction)
            index = 0 if direction > 0 else len(parent.node.keys) - 1
        level, siblings = spot.node.level, parent.node.keys
        spots = self._levels[level]
        if siblings[index] not in spots:
            # The caller wants all of the run, one after the other.
            run = _run_around(parent, index)
            self._load(level, [(parent, at) for at in run if siblings[at] not in spots])
        return spots[siblings[index]]

    def _load(self, level: int, places: list[tuple[Spot, int]]) -> None:
        rows = [(parent.node.keys[at], parent.node.values[at]) for parent, at in places]
        spots = self._levels[level]
        for node, (parent, at) in zip(get_children(self._source, level, rows), places, strict=True):
            siblings = parent.node.keys
            spots[siblings[at]] = Spot(
                node,
                ObjectId(parent.node.values[at]),
                after=siblings[at - 1] if at else parent.after,
                parent=parent,
                index=at,
                is_last=parent.is_last and at == len(siblings) - 1,
            )


def _turns(
    spot: Spot, keys: list[bytes], start: int, stop: int
) -> Iterator[tuple[Spot, int, int, int]]:
    """Yields the children that keys[start:stop] lead to, and which keys lead to each."""
    siblings = spot.node.keys
    while start < stop:
        index = bisect_left(siblings, keys[start])
        if index >= len(siblings) - 1:
            index, end = len(siblings) - 1, stop
        else:
            end = bisect_right(keys, siblings[index], start, stop)
        yield spot, index, start, end
        start = end


def _run_around(spot: Spot, index: int) -> range:
    """Returns the children of a spot that are in one run with the one at `index`."""
    siblings, level = spot.node.keys, spot.node.level - 1
    first = index
    while first > 0 and not closes_node(siblings[first - 1], level):
        first -= 1
    while index < len(siblings) - 1 and not closes_node(siblings[index], level):
        index += 1
    return range(first, index + 1)


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
