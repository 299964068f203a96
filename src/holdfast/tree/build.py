"""Makes a tree from all of its entries at once, from the leaves up.

Promise: the root depends on the entries and on nothing else, and every node handed back is
reachable from it. Applying the same entries in any order to any tree gives the same root.
"""

from collections.abc import Iterable
from operator import lt

import msgspec

from holdfast.ids import ObjectId, object_id_of
from holdfast.model.basics import EMPTY_MAP
from holdfast.tree.node import Node, encode_node
from holdfast.tree.split import natural_ends, node_ranges


class Built(msgspec.Struct, frozen=True):
    """A tree: its root, the bytes of all its nodes, and its number of entries.

    The empty map has no nodes.
    """

    root: ObjectId
    nodes: dict[ObjectId, bytes]
    count: int


class Rows(msgspec.Struct, frozen=True):
    """Rows of one level, in key order: its nodes are made of them.

    `counts` says how many entries a row stands for: one, if the row is an entry itself.
    """

    level: int
    keys: list[bytes] = msgspec.field(default_factory=list[bytes])
    values: list[bytes] = msgspec.field(default_factory=list[bytes])
    counts: list[int] = msgspec.field(default_factory=list[int])


def build(items: Iterable[tuple[bytes, bytes]]) -> Built:
    """Returns the tree of these entries; raises `ValueError` unless keys strictly ascend."""
    pairs = list(items)
    keys = [key for key, _ in pairs]
    if not all(map(lt, keys, keys[1:])):
        message = "the keys of a map must be strictly ascending"
        raise ValueError(message)
    nodes: dict[ObjectId, bytes] = {}
    entries = Rows(0, keys, [value for _, value in pairs], [1] * len(keys))
    root = build_upwards(entries, nodes) if keys else EMPTY_MAP
    return Built(root, nodes, len(keys))


def build_upwards(rows: Rows, nodes: dict[ObjectId, bytes]) -> ObjectId:
    """Returns the root over all rows of a level, and adds the nodes it takes to `nodes`."""
    # The first level with a single node is the root: no root has a single child, and the
    # height follows from the contents.
    while True:
        rows = pack(rows, natural_ends(rows.keys, rows.level), nodes)
        if len(rows.keys) == 1:
            return ObjectId(rows.values[0])


def pack(rows: Rows, ends: list[int], nodes: dict[ObjectId, bytes]) -> Rows:
    """Makes nodes of rows, adds them to `nodes`, and returns the rows of the level above.

    The rows begin and end at natural boundaries, or where their level does.
    """
    level, keys, values, counts = rows.level, rows.keys, rows.values, rows.counts
    above = Rows(level + 1)
    for start, stop in node_ranges(keys, values, ends, level):
        beneath = counts[start:stop]
        data = encode_node(
            Node(level, keys[start:stop], values[start:stop], beneath if level else [])
        )
        node_id = object_id_of(data)
        nodes[node_id] = data
        above.keys.append(keys[stop - 1])
        above.values.append(node_id)
        above.counts.append(sum(beneath))
    return above
