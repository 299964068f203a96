"""JSON text of values, which comes back as it was given, or is refused.

Integers of any size, floats to the last bit, the order of keys: all of it comes back. What JSON
cannot hold is refused, naming the place: NaN, keys that are no text, half a character, objects
of other types.
"""

from collections.abc import Iterator
from typing import Final, cast

import msgspec

from holdfast.errors import Unencodable, shorten

_REFUSALS: Final = (TypeError, ValueError, OverflowError, RecursionError)
"""What is raised for what JSON cannot hold."""


def to_json(value: object, *, place: str = "") -> bytes:
    """Returns a value as JSON text that comes back equal."""
    try:
        return _encode(value)
    except _REFUSALS as exc:
        where, reason = _explain(value, place, exc)
        raise Unencodable(f"the value at {where} cannot be kept as JSON: {reason}") from exc


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
