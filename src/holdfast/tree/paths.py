"""The part of an old tree that an edit needs: paths to the changed keys, and neighbours.

Promise: `descend` asks the source once per level, however many keys there are. Neighbours
beyond that are fetched when `step` first meets them, which is rare: a boundary was deleted,
or a large run goes on under another parent.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import msgspec

from holdfast.ids import ObjectId
from holdfast.tree.node import Node, NodeSource, get_children
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
