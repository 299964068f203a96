"""Finds what differs between two trees without reading what is equal.

Two cursors walk the trees in key order. A subtree that both sides have, known by its id, is
skipped unread; so the cost grows with the number of changes times the height, and not with
the size of the maps.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import compress, count
from operator import ne
from typing import Final, NamedTuple

import msgspec

from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP
from holdfast.tree.node import Node, NodeSource, get_children

_AHEAD: Final = 16
# Differing siblings fetched together on each side: one round trip for a whole level of a
# typical small edit, and at most 2 MB of leaves read for nobody when a reader stops early.


class Edit(msgspec.Struct, frozen=True, gc=False):
    """One key that changes: `old` is None where it appears, `new` where it disappears.

    A struct, where other values are dataclasses: one is made for every changed key, and a
    struct takes a sixth of the time.
    """

    key: bytes
    old: bytes | None
    new: bytes | None


def diff(
    source: NodeSource,
    a: ObjectId,
    b: ObjectId,
    *,
    start: bytes = b"",
    stop: bytes | None = None,
) -> Iterator[Edit]:
    """Yields the edits that lead from `a` to `b`, ascending, for keys in [start, stop).

    Lazy: an edit is yielded as soon as it is found.
    """
    if a == b:
        return
    walk = _Walk(source, start, stop)
    left, right = walk.begin(a, b)
    while (x := left[-1]) is not (y := right[-1]):
        turn = _turn(x, y)
        if turn < 0:
            if x.level >= 0:
                walk.open(left, beside=right)
            else:
                left.pop()
                yield Edit(x.key, x.value, None)
        elif turn > 0:
            if y.level >= 0:
                walk.open(right, beside=left)
            else:
                right.pop()
                yield Edit(y.key, None, y.value)
        elif x.level >= 0 and x.value != y.value:
            yield from walk.open_both(left, right)
        else:
            left.pop()
            right.pop()
            if x.value != y.value:
                yield Edit(x.key, x.value, y.value)


class _Item(NamedTuple):
    """What a cursor meets next: a subtree, or at level -1 an entry.

    A subtree's keys lie above `after` (None: unbounded) and go up to `key`, its last one.
    """

    key: bytes
    value: bytes
    level: int
    after: bytes | None


_END: Final = _Item(b"", b"", -2, None)
"""What lies under the last item of either side: everything comes before it."""


def _turn(x: _Item, y: _Item) -> int:
    """Returns which side has to move: left (-1), right (1), or both at once (0)."""
    if _precedes(x, y):
        return -1
    if _precedes(y, x):
        return 1
    # They overlap. The higher one may hold the other, or something equal to it.
    return (x.level < y.level) - (x.level > y.level)


def _precedes(x: _Item, y: _Item) -> bool:
    """Returns whether all of `x` comes before all of `y`, as far as is known unread."""
    if x is _END or y is _END:
        return y is _END
    return x.key < y.key if y.level < 0 else y.after is not None and x.key <= y.after


class _Walk:
    """Opens subtrees of two trees, reading ahead on both sides.

    A side is a stack of items, the next one on top. Invariant: what the stacks hold, less
    what both hold, is what has not been compared yet.
    """

    def __init__(self, source: NodeSource, start: bytes, stop: bytes | None) -> None:
        self._source = source
        self._start, self._stop = start, stop
        # The nodes read ahead, by level. Replaced with each read: memory stays bounded.
        self._ready: dict[int, dict[bytes, Node]] = {}

    def begin(self, a: ObjectId, b: ObjectId) -> tuple[list[_Item], list[_Item]]:
        """Returns both sides: each holds its root, unless the map is empty."""
        roots = [root for root in (a, b) if root != EMPTY_MAP]
        sides: dict[ObjectId, list[_Item]] = {EMPTY_MAP: [_END]}
        for root, node in zip(roots, self._source.get_nodes(roots), strict=True):
            self._ready.setdefault(node.level, {})[root] = node
            sides[root] = [_END, _Item(node.keys[-1], root, node.level, None)]
        return sides[a], sides[b]

    def open(self, side: list[_Item], *, beside: list[_Item]) -> None:
        """Replaces the subtree on top of a side by its rows."""
        item = side[-1]
        [node] = self._nodes([item], side, beside)
        side.pop()
        _push(side, item, node, self._span(node))

    def open_both(self, left: list[_Item], right: list[_Item]) -> list[Edit]:
        """Replaces the subtrees on top of both sides by the rows that differ.

        Returns the edits instead, where the two are leaves that end together: nothing else
        on either side can come between their entries.
        """
        x, y = left[-1], right[-1]
        x_node, y_node = self._nodes([x, y], left, right)
        left.pop()
        right.pop()
        # A row on both sides is equal all the way down, and no other row of either side
        # shares its keys: leaving it out of both changes nothing.
        x_rows = _unlike(x_node, self._span(x_node), y_node)
        y_rows = _unlike(y_node, self._span(y_node), x_node)
        if x.level == 0 and x.key == y.key:
            olds = {x_node.keys[at]: x_node.values[at] for at in x_rows}
            news = {y_node.keys[at]: y_node.values[at] for at in y_rows}
            return [Edit(key, olds.get(key), news.get(key)) for key in sorted(olds | news)]
        _push(left, x, x_node, x_rows)
        _push(right, y, y_node, y_rows)
        return []

    def _span(self, node: Node) -> range:
        """Returns which rows of a node have to do with the range asked for."""
        first = bisect_left(node.keys, self._start)
        if self._stop is None:
            return range(first, len(node.keys))
        last = bisect_left(node.keys, self._stop)
        # The first child that ends at `stop` or after it may begin before it.
        return range(first, min(last + 1, len(node.keys)) if node.level else last)

    def _nodes(self, items: list[_Item], side: list[_Item], beside: list[_Item]) -> list[Node]:
        """Returns the nodes of items of one level, reading ahead if one is not there yet."""
        level = items[0].level
        ready = self._ready.get(level, {})
        if any(item.value not in ready for item in items):
            near = (*side[-_AHEAD:], *beside[-_AHEAD:])
            rows = {item.value: item.key for item in near if item.level == level}
            wanted = [(key, node_id) for node_id, key in rows.items() if node_id not in ready]
            ready = {node_id: node for node_id, node in ready.items() if node_id in rows}
            for row, node in zip(wanted, get_children(self._source, level, wanted), strict=True):
                ready[row[1]] = node
            self._ready[level] = ready
        return [ready[item.value] for item in items]


def _unlike(node: Node, span: range, other: Node) -> list[int]:
    """Returns which rows of a node, in a span, the other node does not have."""
    if node.keys == other.keys:
        # Values alone have changed, as mostly: one pass in C, a third of the time.
        differing = compress(count(), map(ne, node.values, other.values))
        return [at for at in differing if at in span]
    others = dict(zip(other.keys, other.values, strict=True))
    keys, values = node.keys, node.values
    return [at for at in span if others.get(keys[at]) != values[at]]


def _push(side: list[_Item], item: _Item, node: Node, rows: Sequence[int]) -> None:
    keys, values, level = node.keys, node.values, node.level - 1
    side.extend(
        _Item(keys[at], values[at], level, keys[at - 1] if at else item.after)
        for at in reversed(rows)
    )
