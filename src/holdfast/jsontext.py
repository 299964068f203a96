"""JSON text of values, which comes back as it was given, or is refused.

Integers of any size, floats to the last bit, the order of keys: all of it comes back. What JSON
cannot hold is refused, naming the place: NaN, keys that are no text, half a character, objects
of other types.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from holdfast.errors import TooLarge, Unencodable, shorten

_REFUSALS: Final = (TypeError, ValueError, OverflowError, RecursionError)
"""What is raised for what JSON cannot hold."""


def legible(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Returns JSON with what is no UTF-8 in it replaced: names of files can be such."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, list | tuple):
        return [legible(part) for part in cast("list[object]", value)]
    if isinstance(value, dict):
        known = cast("dict[str, object]", value)
        return {legible(name): legible(part) for name, part in known.items()}
    return value


def to_json(value: object, *, place: str = "") -> bytes:
    """Returns a value as JSON text that comes back equal."""
    try:
        return _encode(value)
    except _REFUSALS as exc:
        where, reason = _explain(value, place, exc)
        raise Unencodable(f"the value at {where} cannot be kept as JSON: {reason}") from exc


def object_text(name: str, value: Mapping[str, object] | None, *, max_bytes: int) -> str:
    """Returns an object as JSON text that comes back equal; raises `TooLarge`."""
    text = to_json(value or {}, place=name)
    if len(text) > max_bytes:
        message = f"{name} may have {max_bytes} bytes; there are {len(text)}"
        raise TooLarge(message)
    return text.decode()


def is_whole(text: str) -> bool:
    """Says whether text holds no half of a character, which has no bytes."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def to_text(value: object) -> str:
    """Returns what `str` makes of a value; raises `Unencodable` for one that has no such text."""
    try:
        return str(value)
    except (RecursionError, ValueError) as exc:
        raise Unencodable(f"the value cannot be kept as text: {exc}") from exc


def _is_same(given: object, back: object) -> bool:
    if isinstance(given, dict) and isinstance(back, dict):
        one, other = cast("dict[object, object]", given), cast("dict[object, object]", back)
        return len(one) == len(other) and all(
            key in other and _is_same(value, other[key]) for key, value in one.items()
        )
    if isinstance(given, list | tuple) and isinstance(back, list):
        these, those = cast("list[object]", given), cast("list[object]", back)
        return len(these) == len(those) and all(map(_is_same, these, those))
    return given == back and isinstance(given, bool) == isinstance(back, bool)


def _encode(value: object) -> bytes:
    data = msgspec.json.encode(value)
    back = msgspec.json.decode(data)
    # At the speed of C for what JSON has; tuples, which come back as lists, need a look.
    if back != value and not _is_same(value, back):
        raise TypeError("it would not come back as it is")
    return data


def _explain(value: object, place: str, problem: Exception) -> tuple[str, str]:
    """Returns the innermost place that is refused by itself, and why."""
    while not isinstance(problem, RecursionError):
        for where, part in _parts(value, place):
            found = _refusal(part)
            if found is not None:
                place, value, problem = where, part, found
                break
        else:
            break
    if isinstance(problem, RecursionError):
        return _bounded(place), "it contains itself, or is nested too deeply"
    return _bounded(place), str(problem)


def _parts(value: object, place: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, part in cast("dict[object, object]", value).items():
            yield f"{place}[{key!r}]", part
    elif isinstance(value, list | tuple):
        for index, part in enumerate(cast("list[object]", value)):
            yield f"{place}[{index}]", part


def _refusal(value: object) -> Exception | None:
    try:
        _encode(value)
    except _REFUSALS as exc:
        return exc
    return None


def _bounded(place: str) -> str:
    return shorten(place)[1:-1] if place else "the top"
