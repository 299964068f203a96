"""Texts and values for `play_core.py`: plain ones, odd ones, and such as nobody can store."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

Pair = tuple[str, str]


class Text(str):
    """Compares, hashes and answers as no str should."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise LookupError("no hash")

    def __eq__(self, other: object) -> bool:
        raise LookupError("not comparable")

    def __str__(self) -> str:
        return "another"


class Mapping(dict[Any, Any]):
    """A dict that says less than it holds."""

    def __len__(self) -> int:
        return 0

    def items(self) -> Any:
        raise LookupError("no items")


@dataclass
class Point:
    """What msgpack has no form of its own for."""

    x: Any
    y: Any


def a_text(rng: random.Random) -> str:
    kind = rng.randrange(12)
    if kind < 6:
        return f"key {rng.randrange(60)}"
    if kind < 9:
        return rng.choice(["", "\0", "k", "k/1", "é", "ÿ", "Ā", "\U0001f600", "\uffff", "é\0"])
    if kind == 9:
        return "".join(chr(rng.choice([65, 233, 0x400, 0x1F600])) for _ in range(rng.randrange(9)))
    if kind == 10:
        return "x" * rng.choice([31, 32, 255, 256, 65536]) + str(rng.randrange(3))
    return str(rng.getrandbits(64))


def as_text(rng: random.Random, text: str) -> str:
    """Returns the text itself, or an equal one of another class or in another place."""
    match rng.randrange(10):
        case 0:
            return str.__new__(Text, text)
        case 1:
            return (text + "x")[:-1]
        case _:
            return text


def a_pair(rng: random.Random) -> Pair:
    return rng.choice(["", "n", "m", "é\0", a_text(rng)]), a_text(rng)


def a_value(rng: random.Random, depth: int = 0) -> Any:
    """Returns a value; some cannot be stored."""
    kind = rng.randrange(24 if depth < 3 else 14)
    match kind:
        case 0 | 1 | 2:
            return rng.choice([None, True, False, 0, -1, 1.5, "", b"", float("nan"), -(2**63)])
        case 3:
            return rng.getrandbits(rng.choice([7, 8, 16, 32, 63, 64, 65, 200]))
        case 4:
            return rng.random()
        case 5 | 6 | 7:
            return a_text(rng)
        case 8:
            return rng.randbytes(rng.choice([0, 1, 31, 255, 256, 70_000]))
        case 9:
            return rng.choice([object(), len, "\ud800", {1, "a"}, Point, bytearray(b"b"), 2**64])
        case 10:
            return msgspec.Raw(some_msgpack(rng))
        case 11:
            return rng.choice([datetime(2026, 1, 1, tzinfo=UTC), timedelta(1), 1j, range(3)])
        case 12:
            return str.__new__(Text, a_text(rng))
        case 13:
            return memoryview(rng.randbytes(8))
        case 14 | 15 | 16:
            return [a_value(rng, depth + 1) for _ in range(rng.choice([0, 1, 3, 16]))]
        case 17:
            return tuple(a_value(rng, depth + 1) for _ in range(3))
        case 18:
            return Mapping({a_text(rng): a_value(rng, depth + 1)})
        case 19:
            return Point(a_value(rng, depth + 1), a_value(rng, depth + 1))
        case 20:
            return a_nest(rng)
        case _:
            return {a_key(rng): a_value(rng, depth + 1) for _ in range(rng.choice([1, 2, 16]))}


def a_plain_value(rng: random.Random) -> Any:
    return rng.choice([1, "text", "é" * 300, b"b" * 999, [1, {"k": [2.5]}], {}, list(range(200))])


def a_key(rng: random.Random) -> Any:
    return rng.choice([a_text(rng), rng.randrange(300), (1, a_text(rng)), None, 1.5, b"b"])


def a_nest(rng: random.Random) -> Any:
    """Returns lists and dicts in one another: at the bound, beyond it, or without an end."""
    value: Any = 1
    for _ in range(rng.choice([10, 254, 255, 256, 257, 300, 900])):
        value = [value] if rng.random() < 0.7 else {"k": value}
    if rng.random() < 0.2:
        ring: list[Any] = []
        ring.append(ring)
        return ring
    return value


def some_msgpack(rng: random.Random) -> bytes:
    """Returns bytes as msgpack has them, changed, cut, or of chance."""
    if rng.random() < 0.3:
        return rng.randbytes(rng.randrange(12))
    tag = rng.choice([0x81, 0x92, 0xC4, 0xC6, 0xC7, 0xC9, 0xD4, 0xD9, 0xDB, 0xDC, 0xDD, 0xDE, 0xDF])
    head = bytes([tag]) + rng.choice([b"", b"\0", b"\1\0", b"\0\0\0\2", b"\xff\xff\xff\xff"])
    return (head + rng.randbytes(rng.randrange(20)))[: rng.randrange(1, 30)]
