"""The bytes of one tree node, and where nodes come from.

A node's bytes are a function of its rows alone, and its id is the hash of its bytes: equal
nodes are one object, stored once. The encoding is part of the format (`docs/format.md`):
msgpack of `[level, keys, values, counts]`.

Every read goes through `get_root` or `get_children`, which compare what arrives with what
its parent said of it. So a forged or misplaced node is reported, and never walked.

Not here: which rows form a node (`split.py`).
"""

from collections.abc import Sequence
from operator import lt
from typing import Final, Protocol

import msgspec

from holdfast.errors import Damaged
from holdfast.ids import OBJECT_ID_BYTES, ObjectId
from holdfast.model.basics import EMPTY_MAP


class Node(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One node: rows in strictly ascending order of their keys.

    At level 0 a row is a user's entry: its key and its value, and `counts` is empty. Above
    it, a row is a child: its last key, its id, and how many entries lie beneath it.

    Nodes are shared between trees and threads: nobody changes their lists.
    """

    level: int
    keys: list[bytes]
    values: list[bytes]
    counts: list[int]

    @property
    def total(self) -> int:
        """The number of entries in and beneath this node."""
        return sum(self.counts) if self.level else len(self.keys)


class NodeSource(Protocol):
    """Where the nodes of trees are read from.

    Callers ask for many nodes at once, so that a source far away needs few round trips. They
    never ask for none, nor for the node of the empty map.
    """

    def get_nodes(self, ids: Sequence[ObjectId], /) -> list[Node]:
        """Returns the nodes in the order of the ids; raises if one is missing."""
        ...


EMPTY: Final = Node(0, [], [], [])
"""The only node without rows, and the only one that no source has to hold."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Node)


def encode_node(node: Node) -> bytes:
    """Returns the canonical bytes of a node, whose hash is its id."""
    return _encoder.encode(node)


def decode_node(data: bytes | memoryview) -> Node:
    """Returns the node that these bytes stand for; raises `Damaged` if they are none."""
    try:
        node = _decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        message = f"a map node of {len(data)} bytes cannot be decoded: {exc}"
        raise Damaged(message) from exc
    if not _is_sound(node):
        message = f"a map node of {len(data)} bytes at level {node.level} has impossible rows"
        raise Damaged(message)
    return node


def get_root(source: NodeSource, root: ObjectId) -> Node:
    """Returns the root node of a map."""
    return EMPTY if root == EMPTY_MAP else source.get_nodes([root])[0]


def get_children(source: NodeSource, level: int, rows: Sequence[tuple[bytes, bytes]]) -> list[Node]:
    """Returns the nodes at `level` that rows of their parents, (last key, id), name.

    Raises `Damaged` if a node is not the one its parent describes.
    """
    nodes = source.get_nodes([ObjectId(node_id) for _, node_id in rows]) if rows else []
    for node, (last_key, node_id) in zip(nodes, rows, strict=True):
        if node.level != level or node.keys[-1:] != [last_key]:
            message = f"map node {node_id.hex()[:16]} is not the child its parent describes"
            raise Damaged(message)
    return nodes


def _is_sound(node: Node) -> bool:
    rows = len(node.keys)
    if node.level == 0:
        is_whole = not node.counts
    else:
        is_whole = (
            node.level > 0
            and rows > 0
            and len(node.counts) == rows
            and min(node.counts) > 0
            and all(len(child_id) == OBJECT_ID_BYTES for child_id in node.values)
        )
    return is_whole and len(node.values) == rows and all(map(lt, node.keys, node.keys[1:]))
