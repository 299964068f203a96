"""A persistent map from text to values, in plain Python: what `_core.c` has, for other places.

A map is a trie of dicts: branches of 16 ways by the bits of a key's hash, with dicts of up to 64
entries below them; None is the map without entries. Nodes know their owner. Who writes as their
owner changes them, anybody else copies the few nodes between the root and the key. So giving up
an owner freezes every node at once, whatever their number.
"""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar, cast

_BITS: Final = 4
_WAYS: Final = 1 << _BITS
_DEEPEST: Final = 60 // _BITS
"""Below it there are no bits left to tell keys apart by: a dict holds any number."""
_MOST: Final = 64
"""Entries of a dict that is copied whole; more are spread over branches."""

_T = TypeVar("_T")


class Leaf(Generic[_T]):
    """Entries whose hashes begin the same way."""

    __slots__ = ("entries", "owner")

    def __init__(self, owner: object, entries: dict[str, _T]) -> None:
        self.owner, self.entries = owner, entries


class Branch(Generic[_T]):
    """Nodes by the next bits of the hash."""

    __slots__ = ("children", "owner")

    def __init__(self, owner: object, children: list["Leaf[_T] | Branch[_T] | None"]) -> None:
        self.owner, self.children = owner, children


Node = Leaf[_T] | Branch[_T] | None


def find(node: "Node[_T]", key: str) -> _T | None:
    """Returns the value for a key, or None."""
    bits = hash(key)
    while type(node) is Branch:
        node = node.children[bits & (_WAYS - 1)]
        bits >>= _BITS
    return None if node is None else cast("Leaf[_T]", node).entries.get(key)


def put(node: "Node[_T]", key: str, value: _T, owner: object, depth: int = 0) -> "Node[_T]":
    """Returns the node with an entry: the same one if the owner may change it."""
    if node is None:
        return Leaf(owner, {key: value})
    if isinstance(node, Leaf):
        if len(node.entries) >= _MOST and depth < _DEEPEST and key not in node.entries:
            return put(_spread(node, owner, depth), key, value, owner, depth)
        if node.owner is not owner:
            node = Leaf(owner, node.entries.copy())
        node.entries[key] = value
        return node
    if node.owner is not owner:
        node = Branch(owner, node.children.copy())
    way = _way(key, depth)
    node.children[way] = put(node.children[way], key, value, owner, depth + 1)
    return node


def _spread(leaf: Leaf[_T], owner: object, depth: int) -> "Branch[_T]":
    parts: list[dict[str, _T]] = [{} for _ in range(_WAYS)]
    for key, value in leaf.entries.items():
        parts[_way(key, depth)][key] = value
    return Branch(owner, [Leaf(owner, part) if part else None for part in parts])


def remove(node: "Node[_T]", key: str, owner: object, depth: int = 0) -> "Node[_T]":
    """Returns the node without an entry that it holds; None if that was the last."""
    if isinstance(node, Leaf):
        entries = node.entries if node.owner is owner else node.entries.copy()
        del entries[key]
        if not entries:
            return None
        return node if node.owner is owner else Leaf(owner, entries)
    branch = cast("Branch[_T]", node)
    children = branch.children if branch.owner is owner else branch.children.copy()
    way = _way(key, depth)
    children[way] = remove(children[way], key, owner, depth + 1)
    if not any(children):
        return None
    return branch if branch.owner is owner else Branch(owner, children)


def _way(key: str, depth: int) -> int:
    return hash(key) >> depth * _BITS & (_WAYS - 1)


def iterate(node: "Node[_T]") -> Iterator[tuple[str, _T]]:
    """Yields every entry, in no order."""
    if isinstance(node, Branch):
        for child in node.children:
            yield from iterate(child)
    elif node is not None:
        yield from node.entries.items()


def compare(old: "Node[_T]", new: "Node[_T]") -> Iterator[tuple[str, _T | None, _T | None]]:
    """Yields the entries that are not the same object; what is shared is never looked into."""
    if old is new:
        return
    if isinstance(old, Branch) and isinstance(new, Branch):
        for before, after in zip(old.children, new.children, strict=True):
            yield from compare(before, after)
        return
    before, after = dict(iterate(old)), dict(iterate(new))
    for key, value in before.items():
        if (other := after.pop(key, None)) is not value:
            yield key, value, other
    for key, value in after.items():
        yield key, None, value
