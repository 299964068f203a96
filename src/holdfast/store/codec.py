"""What a value becomes on its way in, and what comes back.

Values are msgpack inside: plain data of every language, never an object of a named class, so
that reading one runs nobody's code. What has no form of its own in msgpack takes the nearest
one; `docs/reference/store.md` has the table.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final, cast

import msgspec

from holdfast.errors import Unencodable, shorten

DEEPEST: Final = 256
"""Lists and dicts in one another. Python itself stops at a depth that depends on who asks: what
was stored by a shallow caller could be out of reach for a deeper one."""

_REFUSALS: Final = (TypeError, ValueError, OverflowError, RecursionError, BufferError)
"""What msgspec raises for what it cannot write, or could not read again."""

_OPENING: Final = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])
"""The bytes that a list or a dict begins with in msgpack."""


def _to_plain(value: Any) -> Any:
    """Returns a value of a subclass as one of the class that msgpack knows."""
    # Asked of the class: a subclass may answer for itself as it likes.
    match value:
        case str():
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case bytes():
            return bytes.__bytes__(value)
        case _:
            message = f"Encoding objects of type {type(value).__name__} is unsupported"
            raise TypeError(message)


def _refuse_extension(code: int, _: memoryview) -> Any:
    message = f"msgpack extension {code} is not known here"
    raise ValueError(message)


encoder: Final = msgspec.msgpack.Encoder(enc_hook=_to_plain)
decode: Final = msgspec.msgpack.Decoder(ext_hook=_refuse_extension).decode
"""Returns the value that bytes stand for; raises a `ValueError` for bytes that are none."""


def encode(value: Any) -> bytes:
    """Returns a value as msgpack; raises `Unencodable`, which names the place inside the value."""
    try:
        return _encode(value)
    except _REFUSALS as exc:
        raise Unencodable(_explain(value, exc)) from exc


def loads(data: bytes) -> Any:
    """Returns the value of msgpack bytes; raises a `ValueError` for anything else."""
    try:
        return decode(data)
    except RecursionError as exc:
        raise ValueError("the value is nested too deeply") from exc


def _encode(value: Any) -> bytes:
    # Copied, since what msgspec returns takes up to 1.7 times its length.
    data = bytes(memoryview(encoder.encode(value)))
    # Some values can be written and not read: a dataclass as a key, say. Found out now, it is a
    # mistake; found out later, it would be a loss.
    _check(data)
    return data


def checked(data: bytes) -> bytes:
    """Returns msgpack as somebody else has made it; raises `Unencodable` unless it can be read."""
    try:
        _check(data)
    except _REFUSALS as exc:
        reason = _reason(exc) if isinstance(exc, RecursionError) else exc
        message = f"these {len(data)} bytes are no value: {reason}"
        raise Unencodable(message) from exc
    return data


def _check(data: bytes) -> None:
    read = decode(data)
    if len(data) - len(data.translate(None, _OPENING)) > DEEPEST and _is_too_deep(read):
        raise RecursionError


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [part for container in level for _, part in _parts(container)]
        if not level:
            return False
    return any(isinstance(part, list | dict) for part in level)


def _explain(value: Any, problem: Exception) -> str:
    place = ""
    while (found := _first_refused(value)) is not None:
        step, value, problem = found
        place += step
    where = f"the value at {place}" if place else "the value"
    return f"{where} cannot be stored: {_reason(problem)}"


def _first_refused(value: Any) -> tuple[str, Any, Exception] | None:
    """Returns the first part that is refused by itself: where it is, itself, and why."""
    for step, part in _parts(value):
        problem = _refusal(part)
        if problem is not None:
            return step, part, problem
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in cast("dict[Any, Any]", value).items():
            yield f"[{_shown(key)}]", part
    elif isinstance(value, list | tuple | set | frozenset):
        for index, part in enumerate(cast("list[Any]", value)):
            yield f"[{index}]", part
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield f".{name}", getattr(value, name)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield f".{field.name}", getattr(value, field.name, None)


def _shown(key: Any) -> str:
    return shorten(key) if isinstance(key, str) else shorten(repr(key))[1:-1]


def _refusal(value: Any) -> Exception | None:
    try:
        _encode(value)
    except RecursionError:
        # Every part of what contains itself is refused: going down would never end.
        return None
    except _REFUSALS as exc:
        return exc
    return None


def _reason(problem: Exception) -> str:
    if isinstance(problem, RecursionError):
        return f"it contains itself, or is nested more than {DEEPEST} levels deep"
    if isinstance(problem, msgspec.DecodeError):
        return "one of its keys could not be read again, since Python cannot hash what it becomes"
    return str(problem)
