"""Says whether bytes are JSON as we write it, without building what they stand for.

The parts of a session from an archive are kept as the text they are and decoded whenever they are
read, so text that cannot be decoded would be a trap for later; and equal states have equal
entries only if each value has one text. As with msgpack (`core/wellformed.py`), what is large is
walked over with a stack of our own: a list of empty lists takes 20 times its text in memory.
"""

import enum
import re
from contextlib import suppress
from typing import Final

import msgspec

from holdfast.engine.core.decoding import weigh
from holdfast.engine.core.wellformed import DECODED_BYTES, MAX_DEPTH
from holdfast.errors import TooLarge, UnsafeArchive

# Possessive: what cannot match is not tried in parts, whatever the text.
_TOKEN: Final = re.compile(
    rb'[\[\]{},:]|"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?[0-9][-+0-9.eE]*+|true|false|null'
)
_WORDS: Final = frozenset({b"true", b"false", b"null"})


class _Next(enum.Enum):
    """What may come next."""

    VALUE = enum.auto()
    FIRST_VALUE = enum.auto()
    KEY = enum.auto()
    FIRST_KEY = enum.auto()
    COLON = enum.auto()
    MORE = enum.auto()


_CLOSED_BY: Final = {b"[": b"]", b"{": b"}"}
_OPENED: Final = {b"[": _Next.FIRST_VALUE, b"{": _Next.FIRST_KEY}
_AFTER_COMMA: Final = {b"[": _Next.VALUE, b"{": _Next.KEY}


def check_json(data: bytes, *, most: int | None = None) -> None:
    """Raises `UnsafeArchive` unless this is one JSON value, in the one text that we write.

    Raises `TooLarge` for one that is longer than what is decoded anyway, and weighs more than
    `most` values and keys.
    """
    if len(data) <= DECODED_BYTES:
        # How deep one may go here depends on who called: the walk decides about such values.
        with suppress(RecursionError):
            return _check_by_decoding(data)
    if most is not None and weigh(data) > most:
        raise TooLarge(f"a value may hold {most} values and keys; this one holds more")
    return walk(data)


def walk(data: bytes) -> None:
    """Does what `check_json` does, however large the value is; but a key may be there twice."""
    at, opened, expected = 0, list[bytes](), _Next.VALUE
    while True:
        found = _TOKEN.match(data, at)
        if found is None:
            raise UnsafeArchive("it holds text that is not JSON, or not as we write it")
        token, at = found[0], found.end()
        expected = _step(token, opened, expected)
        if not opened and expected is _Next.MORE:
            break
        if len(opened) > MAX_DEPTH:
            raise UnsafeArchive("it holds JSON that is nested too deeply")
    if at != len(data):
        raise UnsafeArchive("it holds JSON with something behind its end")


def _step(token: bytes, opened: list[bytes], expected: _Next) -> _Next:
    """Returns what may follow a token; raises if it may not stand where it does."""
    match expected:
        case _Next.COLON if token == b":":
            return _Next.VALUE
        case _Next.MORE if token == b",":
            return _AFTER_COMMA[opened[-1]]
        case _Next.MORE | _Next.FIRST_VALUE | _Next.FIRST_KEY if _closes(token, opened):
            opened.pop()
            return _Next.MORE
        case _Next.KEY | _Next.FIRST_KEY if token[0:1] == b'"':
            _check_by_decoding(token)
            return _Next.COLON
        case _Next.VALUE | _Next.FIRST_VALUE if token in _OPENED:
            opened.append(token)
            return _OPENED[token]
        case _Next.VALUE | _Next.FIRST_VALUE if token not in (b"]", b"}", b",", b":"):
            if token not in _WORDS:
                _check_by_decoding(token)
            return _Next.MORE
        case _:
            raise UnsafeArchive("it holds text that is not JSON")


def _closes(token: bytes, opened: list[bytes]) -> bool:
    return bool(opened) and token == _CLOSED_BY[opened[-1]]


def _check_by_decoding(data: bytes) -> None:
    try:
        is_ours = msgspec.json.encode(msgspec.json.decode(data)) == data
    except ValueError as exc:
        raise UnsafeArchive(f"it holds text that is not JSON: {exc}") from exc
    if not is_ours:
        raise UnsafeArchive("it holds JSON that is not written as we write it")
