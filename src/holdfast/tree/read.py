"""Reads from a tree: one entry, many, a range, just the number of them; and from many at once.

Promise: a read fetches the nodes on the way to what was asked for and few others, level by
level, so that the number of round trips grows with the height of the tree and not with the
number of keys. Versions of one map have most of their nodes in common: whoever looks into many goes
down all of them together, and a node that several lead to is fetched once.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP
from holdfast.tree.node import Node, NodeSource, get_children, get_root


def get(source: NodeSource, root: ObjectId, key: bytes) -> bytes | None:
    """Returns the value of `key`, or None if the map has no such key."""
    node = get_root(source, root)
    while True:
        at = bisect_left(node.keys, key)
        if at == len(node.keys):
            return None
        if node.level == 0:
            return node.values[at] if node.keys[at] == key else None
        node = get_children(source, node.level - 1, [(node.keys[at], node.values[at])])[0]


def get_many(source: NodeSource, root: ObjectId, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    """Returns those of the keys that the map has, ascending, with their values."""
    wanted = sorted(dict.fromkeys(keys))
    node = get_root(source, root)
    paths = [(node, 0, len(wanted))]
    for level in range(node.level - 1, -1, -1):
        ways = [way for node, start, stop in paths for way in _ways(node, wanted, start, stop)]
        nodes = get_children(source, level, [row for row, _, _ in ways])
        paths = [(node, start, stop) for node, (_, start, stop) in zip(nodes, ways, strict=True)]
    found: dict[bytes, bytes] = {}
    for leaf, start, stop in paths:
        for key in wanted[start:stop]:
            at = bisect_left(leaf.keys, key)
            if at < len(leaf.keys) and leaf.keys[at] == key:
                found[key] = leaf.values[at]
    return found


def iterate(
    source: NodeSource,
    root: ObjectId,
    *,
    start: bytes = b"",
    stop: bytes | None = None,
    down: bool = False,
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the entries from `start` up to, and without, `stop`: ascending, or `down`.

    Lazy. Sibling nodes are fetched ahead: one until there are entries, so that whoever looks
    at a few of them reads little, and two of each level at the most; then twice as many with
    each leaf, up to 16.
    """
    ahead = _Ahead()
    for leaf in _leaves(source, get_root(source, root), start, stop, ahead, down=down):
        first = bisect_left(leaf.keys, start)
        last = len(leaf.keys) if stop is None else bisect_left(leaf.keys, stop)
        if first < last:
            ahead.double()
        rows = zip(leaf.keys[first:last], leaf.values[first:last], strict=True)
        yield from reversed([*rows]) if down else rows


class _Ahead:
    """How many nodes are fetched together."""

    def __init__(self) -> None:
        self.size = 1

    def double(self) -> None:
        """Fetches twice as many from now on, if they are not many already."""
        self.size = min(2 * self.size, 16)


def count(source: NodeSource, root: ObjectId) -> int:
    """Returns the number of entries, from the root node alone."""
    return get_root(source, root).total


def prefix_stop(prefix: bytes) -> bytes | None:
    """Returns the smallest key above all keys with this prefix; None if there is none."""
    # After a byte 255 nothing comes that begins the same way: the byte before must grow.
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def _ways(
    node: Node, wanted: list[bytes], start: int, stop: int
) -> Iterator[tuple[tuple[bytes, bytes], int, int]]:
    """Yields the children that may hold some of wanted[start:stop], and which those are."""
    while start < stop:
        at = bisect_left(node.keys, wanted[start])
        if at == len(node.keys):
            return
        end = bisect_right(wanted, node.keys[at], start, stop)
        yield (node.keys[at], node.values[at]), start, end
        start = end


def _leaves(
    source: NodeSource,
    node: Node,
    start: bytes,
    stop: bytes | None,
    ahead: _Ahead,
    *,
    down: bool,
) -> Iterator[Node]:
    if node.level == 0:
        yield node
        return
    at = bisect_left(node.keys, start)
    # A child may begin before `stop` and end at it or after it: the first such is the last.
    end = len(node.keys) if stop is None else bisect_left(node.keys, stop) + 1
    rows = list(zip(node.keys[at:end], node.values[at:end], strict=True))
    if down:
        rows.reverse()
    while rows:
        size = ahead.size
        for child in get_children(source, node.level - 1, rows[:size]):
            yield from _leaves(source, child, start, stop, ahead, down=down)
        rows = rows[size:]


Cover = tuple[int, tuple[tuple[bytes, bytes], ...]]
"""A level, and rows of it: at level 0 entries, above it nodes that have some of the keys.

Maps with equal covers are equal there. Where the rows are nodes, others need not differ: a node
has its neighbours' keys, too. There is none without rows that holds a key, and none with rows
that holds none.
"""

_NOTHING: Final[Cover] = (0, ())


def covers(
    source: NodeSource, roots: Iterable[ObjectId], *, start: bytes, stop: bytes
) -> dict[ObjectId, Cover]:
    """Returns for each map what covers its keys in [start, stop)."""
    found: dict[ObjectId, Cover] = {}
    wanted = list(dict.fromkeys(roots))
    tops = [root for root in wanted if root != EMPTY_MAP]
    nodes = dict(zip(tops, source.get_nodes(tops), strict=True)) if tops else {}
    while nodes:
        ways: dict[tuple[int, bytes, bytes], list[ObjectId]] = {}
        for root, node in nodes.items():
            rows = _rows(node, start, stop)
            if node.level and len(rows) == 1:
                ways.setdefault((node.level - 1, *rows[0]), []).append(root)
            else:
                found[root] = (node.level, rows)
        nodes = _below(source, ways)
    return {root: found.get(root, _NOTHING) for root in wanted}


def _below(
    source: NodeSource, ways: dict[tuple[int, bytes, bytes], list[ObjectId]]
) -> dict[ObjectId, Node]:
    """Returns the node that each map comes to next."""
    nodes: dict[ObjectId, Node] = {}
    for level in {level for level, _, _ in ways}:
        there = [way for way in ways if way[0] == level]
        found = get_children(source, level, [(last, node_id) for _, last, node_id in there])
        for way, node in zip(there, found, strict=True):
            nodes.update(dict.fromkeys(ways[way], node))
    return nodes


def _rows(node: Node, start: bytes, stop: bytes) -> tuple[tuple[bytes, bytes], ...]:
    first = bisect_left(node.keys, start)
    if node.level:
        # A child has what is above its elder's last key: the least such key is one byte longer.
        last = bisect_left(node.keys, stop, key=lambda key: key + b"\0") + 1
    else:
        last = bisect_left(node.keys, stop)
    return tuple(zip(node.keys[first:last], node.values[first:last], strict=True))
