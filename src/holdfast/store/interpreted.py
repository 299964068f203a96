"""The core of the in-process store in plain Python, for where nothing could be compiled.

The answers are those of `_core.c`. A store is a map from namespaces to spaces, a space is a map
from keys to bytes; both are persistent. A snapshot takes the root as it is and gives
the store another owner, so that nobody changes those nodes any more. A lock keeps threads apart;
what runs in the middle of a write in the same thread, which only a finaliser can, must not write
to the same store: that takes the compiled core.

A persistent map from text to values, in plain Python: what `_core.c` has, for other places.

A map is a trie of dicts: branches of 16 ways by the bits of a key's hash, with dicts of up to 64
entries below them; None is the map without entries. Nodes know their owner. Who writes as their
owner changes them, anybody else copies the few nodes between the root and the key. So giving up
an owner freezes every node at once, whatever their number.
"""

# pyright: reportPrivateUsage=false
# Reader, Snapshot and Core are one thing in three states, and show each other what is inside.

import operator
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final, Generic, NoReturn, TypeVar, cast

from holdfast.store.codec import decode, encode

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


Pair = tuple[str, str]
Difference = tuple[str, str, bytes | None, bytes | None]


class _Space:
    """The keys of one namespace."""

    __slots__ = ("count", "owner", "root")

    def __init__(self, owner: object, root: Node[bytes], count: int) -> None:
        self.owner, self.root, self.count = owner, root, count


class Reader:
    """A store at one moment, to read."""

    __slots__ = ("_bytes", "_count", "_guard", "_root")

    def __init__(self) -> None:
        self._root: Node[_Space] = None
        self._count = self._bytes = 0
        self._guard = threading.RLock()

    def get(self, namespace: str, key: str, default: Any = None) -> Any:
        """Returns the value for a key, or the default."""
        data = self._data(_text(namespace), _text(key))
        return default if data is None else decode(data)

    def get_many(self, pairs: Iterable[Pair]) -> list[Any]:
        """Returns the values in the order asked for; None for what is missing."""
        wanted = [(_text(namespace), _text(key)) for namespace, key in map(_tuple, pairs)]
        with self._guard:
            found = [self._data(*pair) for pair in wanted]
        return [None if data is None else decode(data) for data in found]

    def contains(self, namespace: str, key: str) -> bool:
        """Says whether there is a value for a key."""
        return self._data(_text(namespace), _text(key)) is not None

    def keys(self, namespace: str, prefix: str | None = None) -> list[str]:
        """Returns the keys of a namespace in no order; with a prefix, those that begin with it."""
        return [key for key, _ in self._entries(_text(namespace), prefix)]

    def items(self, namespace: str | None = None, prefix: str | None = None) -> list[Any]:
        """Returns keys with their values; without a namespace, pairs with theirs."""
        if namespace is not None:
            found = self._entries(_text(namespace), prefix)
            return [(key, decode(data)) for key, data in found]
        beginning = "" if prefix is None else _text(prefix)
        with self._guard:
            every = list(_every(self._root))
        return [((n, k), decode(data)) for n, k, data in every if k.startswith(beginning)]

    def max_key(self, namespace: str) -> str | None:
        """Returns the greatest key of a namespace, or None."""
        return max(self.keys(namespace), default=None)

    def namespaces(self, prefix: str | None = None) -> list[str]:
        """Returns the namespaces that hold something, in no order."""
        beginning = "" if prefix is None else _text(prefix)
        with self._guard:
            return [name for name, _ in iterate(self._root) if name.startswith(beginning)]

    def __len__(self) -> int:
        return self._count

    def __contains__(self, namespace: str) -> bool:
        return find(self._root, _text(namespace)) is not None

    def _data(self, namespace: str, key: str) -> bytes | None:
        space = find(self._root, namespace)
        return None if space is None else find(space.root, key)

    def _entries(self, namespace: str, prefix: str | None) -> list[tuple[str, bytes]]:
        beginning = "" if prefix is None else _text(prefix)
        with self._guard:
            space = find(self._root, namespace)
            every = iterate(None if space is None else space.root)
            return [entry for entry in every if entry[0].startswith(beginning)]


class Snapshot:
    """A store as it was at one moment; nothing changes it."""

    __slots__ = ("__weakref__", "_at", "id", "parent", "timestamp")

    id: int
    """Counts from 1 in each store."""
    timestamp: float
    """When it was taken, in seconds since 1970."""
    parent: int | None
    """The id of the one that was taken before it."""
    _at: Reader

    def __init__(self) -> None:
        raise TypeError("a Snapshot comes from Store.snapshot()")

    def __setattr__(self, name: str, value: object) -> None:
        message = f"a Snapshot cannot be changed: {name}"
        raise AttributeError(message)

    def __delattr__(self, name: str) -> None:
        setattr(self, name, None)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Snapshot cannot be copied or pickled")

    def __repr__(self) -> str:
        return f"Snapshot(id={self.id}, size_bytes={self.size_bytes}, parent={self.parent})"

    @property
    def size_bytes(self) -> int:
        """How much all values take as msgpack."""
        return self._at._bytes

    @property
    def keys(self) -> list[Pair]:
        """Every namespace with every key, in no order."""
        return [(namespace, key) for namespace, key, _ in _every(self._at._root)]

    def diff(self, base: "Snapshot") -> dict[str, list[Pair]]:
        """Returns what leads from `base` to this one, at the cost of what differs."""
        kinds = {"added": list[Pair](), "removed": list[Pair](), "changed": list[Pair]()}
        for namespace, key, old, new in self.differences(base):
            kind = "added" if old is None else "removed" if new is None else "changed"
            kinds[kind].append((namespace, key))
        return kinds

    def differences(self, base: "Snapshot") -> list[Difference]:
        """Returns what `diff` does, with the bytes before and after."""
        found = list[Difference]()
        for namespace, before, after in compare(_checked(base)._at._root, self._at._root):
            spaces = compare(before and before.root, after and after.root)
            found += [(namespace, key, old, new) for key, old, new in spaces if old != new]
        return sorted(found, key=lambda difference: difference[:2])

    def get(self, namespace: str, key: str, default: Any = None) -> Any:
        """Returns the value that a key had, or the default."""
        return self._at.get(namespace, key, default)

    def get_data(self, namespace: str, key: str) -> bytes | None:
        """Returns the bytes of the value that a key had, or None."""
        return self._at._data(_text(namespace), _text(key))

    def items(self, namespace: str | None = None, prefix: str | None = None) -> list[Any]:
        """Returns keys with their values; without a namespace, pairs with theirs."""
        return self._at.items(namespace, prefix)


class Core(Reader):
    """A store to read and to change."""

    __slots__ = ("_history", "_last_id", "_max_history", "_owner")

    def __init__(self, max_history: int | None = 0) -> None:
        super().__init__()
        self._max_history = None if max_history is None else operator.index(max_history)
        if self._max_history is not None and self._max_history < 0:
            raise ValueError("max_history is None or a number from 0 on")
        self._history: list[Snapshot] = []
        self._last_id = 0
        self._owner = object()

    @property
    def max_history(self) -> int | None:
        """How many snapshots the store itself keeps; None for all."""
        return self._max_history

    def set(self, namespace: str, key: str, value: Any) -> None:
        """Puts a value under a key."""
        self.put(namespace, key, encode(value))

    def set_many(self, items: Iterable[tuple[str, str, Any]]) -> None:
        """Puts many values, all or none of them."""
        triples = map(_tuple, items)
        self.put_many([(namespace, key, encode(value)) for namespace, key, value in triples])

    def delete(self, namespace: str, key: str) -> bool:
        """Deletes a key; says whether it was there."""
        with self._guard:
            before = self._count
            self._put(_text(namespace), _text(key), None)
            return self._count < before

    def clear(self) -> None:
        """Deletes every key of every namespace."""
        with self._guard:
            self._root, self._count, self._bytes = None, 0, 0

    def put(self, namespace: str, key: str, data: bytes) -> None:
        """Puts a value that is already encoded."""
        checked = _text(namespace), _text(key), _bytes(data)
        with self._guard:
            self._put(*checked)

    def put_many(self, items: Iterable[tuple[str, str, bytes | None]]) -> None:
        """Puts many values that are already encoded, all or none; None deletes."""
        checked = [
            (_text(namespace), _text(key), None if data is None else _bytes(data))
            for namespace, key, data in map(_tuple, items)
        ]
        with self._guard:
            for entry in checked:
                self._put(*entry)

    def snapshot(self) -> Snapshot:
        """Returns the store as it is now; costs the same for ten entries and for a million."""
        taken, at, owner = object.__new__(Snapshot), Reader(), object()
        with self._guard:
            # Made before, since making objects may collect garbage, and with it run code that
            # writes to this store: between these lines there is nobody.
            at._root, at._count, at._bytes = self._root, self._count, self._bytes
            self._owner = owner
            parent, self._last_id = self._last_id or None, self._last_id + 1
            fields = {"id": self._last_id, "parent": parent, "timestamp": time.time(), "_at": at}
            for name, value in fields.items():
                object.__setattr__(taken, name, value)
            if self._max_history != 0:
                self._history.append(taken)
                if self._max_history is not None:
                    del self._history[: -self._max_history]
            return taken

    def restore(self, snapshot: Snapshot) -> None:
        """Makes the store what a snapshot shows: every namespace, every key."""
        at = _checked(snapshot)._at
        with self._guard:
            self._owner = object()
            self._root, self._count, self._bytes = at._root, at._count, at._bytes

    def history(self) -> list[Snapshot]:
        """Returns the snapshots that the store itself keeps, oldest first."""
        with self._guard:
            return list(self._history)

    def clear_history(self) -> None:
        """Lets go of the snapshots that the store itself keeps."""
        with self._guard:
            self._history.clear()

    def _put(self, namespace: str, key: str, data: bytes | None) -> None:
        space = find(self._root, namespace)
        old = None if space is None else find(space.root, key)
        if data is None and old is None:
            return
        if space is None or space.owner is not self._owner:
            known, count = (None, 0) if space is None else (space.root, space.count)
            space = _Space(self._owner, known, count)
            self._root = put(self._root, namespace, space, self._owner)
        if data is None:
            space.root = remove(space.root, key, self._owner)
        else:
            space.root = put(space.root, key, data, self._owner)
        more = (data is not None) - (old is not None)
        space.count += more
        self._count += more
        self._bytes += len(data or b"") - len(old or b"")
        if space.count == 0:
            self._root = remove(self._root, namespace, self._owner)


def view(snapshot: Snapshot) -> Reader:
    """Returns a snapshot as a store to read."""
    return _checked(snapshot)._at


def _every(root: Node[_Space]) -> Iterator[tuple[str, str, bytes]]:
    for namespace, space in iterate(root):
        for key, data in iterate(space.root):
            yield namespace, key, data


def _checked(snapshot: Snapshot) -> Snapshot:
    if isinstance(snapshot, Snapshot):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped callers
        return snapshot
    message = f"a Snapshot is needed, not {type(snapshot).__name__!r}"
    raise TypeError(message)


def _text(text: str) -> str:
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped callers
        message = f"a namespace or key is a str, not {type(text).__name__!r}"
        raise TypeError(message)
    if type(text) is not str:
        # A subclass may compare, hash and answer as it likes.
        text = str.__str__(text)
    if not text.isascii():
        text.encode()  # Raises for half a character.
    return text


def _bytes(data: bytes) -> bytes:
    if type(data) is bytes:
        return data
    message = f"encoded values are bytes, not {type(data).__name__!r}"
    raise TypeError(message)


def _tuple(item: Any) -> Any:
    if isinstance(item, tuple | list):
        return item  # pyright: ignore[reportUnknownVariableType] - of whatever
    message = f"an item is a tuple, not {type(item).__name__!r}"
    raise TypeError(message)
