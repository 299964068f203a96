"""Says whether bytes are msgpack that can be read, without building what they stand for.

A value from an archive is stored as the bytes it is and decoded whenever it is read, so bytes
that cannot be decoded would be a trap for later. Decoding them to find out would be one for
now: a value of empty lists takes 75 times its size in memory, and nesting is followed until
the interpreter gives up. This walks over the items with a stack of its own and keeps nothing.
"""

import enum
import sys
from contextlib import suppress
from typing import Final

import msgspec

from holdfast.errors import TooLarge, UnsafeArchive

MAX_DEPTH: Final = 1000
"""Python's usual limit of recursion: what is nested deeper could be stored but not read."""

DECODED_BYTES: Final = 64 << 10
"""Values up to here are decoded after all: 5 MB of memory at the worst, and 20 times faster."""

_TIMESTAMP: Final = 0xFF
"""The one extension that msgpack itself defines, and that is decoded to something."""


class _Item(enum.Enum):
    """What the first byte of an item announces."""

    LEAF = enum.auto()
    TEXT = enum.auto()
    EXTENSION = enum.auto()
    ARRAY = enum.auto()
    MAP = enum.auto()
    NEVER = enum.auto()


class _Open(enum.Enum):
    """What an item stands in: the parts of a key have to be hashable."""

    ARRAY = enum.auto()
    MAP = enum.auto()
    KEY = enum.auto()


def check_msgpack(data: bytes, *, most: int | None = None) -> None:
    """Raises `UnsafeArchive` unless this is one msgpack value, well-formed and not too deep.

    Raises `TooLarge` for one that is longer than what is decoded anyway, and holds more than
    `most` values and keys.
    """
    if len(data) <= DECODED_BYTES:
        # How deep one may go here depends on who called: the walk decides about such values.
        with suppress(RecursionError):
            _check_by_decoding(data)
            return
    walk(data, most=most)


def walk(data: bytes, *, most: int | None = None) -> int:
    """Does what `check_msgpack` does, however large the value is; returns how much it holds."""
    at, left, opened, items = 0, [1], [_Open.ARRAY], 0
    most = sys.maxsize if most is None else most
    while left:
        if not left[-1]:
            left.pop()
            opened.pop()
            continue
        # In a map, keys and values take turns: a key is next when an even number is left.
        is_key = opened[-1] is _Open.KEY or (opened[-1] is _Open.MAP and left[-1] % 2 == 0)
        left[-1] -= 1
        items += 1
        start = at
        item, width, count = _ITEMS[data[at]] if at < len(data) else (_Item.LEAF, 0, 1)
        at += 1 + width
        if width:
            count += int.from_bytes(data[at - width : at], "big")
        if item is _Item.ARRAY:
            left.append(count)
            opened.append(_Open.KEY if is_key else _Open.ARRAY)
        elif item is _Item.MAP:
            left.append(2 * count)
            opened.append(_Open.MAP)
        else:
            at += count
        if at > len(data) or items > most:
            raise _beyond(items, most)
        if item is _Item.NEVER or (item is _Item.MAP and is_key) or len(left) > MAX_DEPTH:
            raise UnsafeArchive("a value is msgpack that cannot be read")
        if item is _Item.TEXT or item is _Item.EXTENSION:
            _check_leaf(item, data[start:at], count, is_key=is_key)
    if at != len(data):
        raise UnsafeArchive("a value is msgpack with something behind its end")
    return items


def _beyond(items: int, most: int) -> UnsafeArchive | TooLarge:
    if items > most:
        return TooLarge(f"a value may hold {most} values and keys; this one holds more")
    return UnsafeArchive("a value is msgpack that ends too early")


def _check_by_decoding(data: bytes) -> None:
    try:
        msgspec.msgpack.decode(data)
    except ValueError as exc:
        raise UnsafeArchive("a value is msgpack that cannot be read") from exc


def _check_leaf(item: _Item, data: bytes, count: int, *, is_key: bool) -> None:
    """Raises for text that is not UTF-8, and for an instant that no calendar has."""
    if item is _Item.EXTENSION and data[-count] != _TIMESTAMP and not is_key:
        return
    # As the key of a map, if it is to be one: of all extensions, only instants can.
    _check_by_decoding(b"\x81" + data + b"\xc0" if is_key else data)


def _table() -> list[tuple[_Item, int, int]]:
    """Returns for each first byte: the item, the width of its length, and the least length."""
    table = [(_Item.LEAF, 0, 0)] * 256
    for low in range(16):
        table[0x80 + low] = (_Item.MAP, 0, low)
        table[0x90 + low] = (_Item.ARRAY, 0, low)
    for low in range(32):
        table[0xA0 + low] = (_Item.TEXT, 0, low)
    table[0xC1] = (_Item.NEVER, 0, 0)
    for step, width in enumerate((1, 2, 4)):
        table[0xC4 + step] = (_Item.LEAF, width, 0)
        # An extension has a byte for its type besides its length.
        table[0xC7 + step] = (_Item.EXTENSION, width, 1)
        table[0xD9 + step] = (_Item.TEXT, width, 0)
    for first, size in zip(range(0xCA, 0xD4), (4, 8, 1, 2, 4, 8, 1, 2, 4, 8), strict=True):
        table[first] = (_Item.LEAF, 0, size)
    for step in range(5):
        table[0xD4 + step] = (_Item.EXTENSION, 0, 1 + 2**step)
    for step, width in enumerate((2, 4)):
        table[0xDC + step] = (_Item.ARRAY, width, 0)
        table[0xDE + step] = (_Item.MAP, width, 0)
    return table


_ITEMS: Final = _table()
