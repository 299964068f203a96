"""Finds what many maps hold for the same few keys, by reading what they share once.

Versions of one map have most of their nodes in common. So they are gone down together, level by
level: a node that several lead to is fetched for all of them, with the others of its level.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP
from holdfast.tree.node import Node, NodeSource, get_children

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
