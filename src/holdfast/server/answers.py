"""Answers as JSON, encoded where they were made and never for long at a time.

Encoding holds the interpreter's lock, as decoding does, and what was stored may be large: a state
of many values, a text of 60 MiB. Such an answer is encoded in parts, with everybody else in
between; byte for byte it is what it would be as a whole.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar, cast

import msgspec

T = TypeVar("T")

LIGHT: Final = 1 << 20
"""What is encoded at once: about so many characters, which take 7 ms at the worst."""

SMALL: Final = 2 << 10
"""What weighs less is weighed again where that is needed, and not noted."""

_ITEM: Final = 16
"""What a value weighs beside its characters."""

_FLAT: Final = frozenset({float, bool, type(None)})

Weights = dict[int, int]
"""What lists, objects and structs weigh, by the address of each."""


def encode(answer: object) -> bytes:
    """Returns an answer as JSON."""
    if not _is_light(answer):
        # What is nested more deeply than this can follow is up to the encoder.
        with suppress(RecursionError):
            return b"".join(parts_of(answer))
    return msgspec.json.encode(answer)


def parts_of(answer: object) -> Iterator[bytes]:
    """Yields an answer as JSON, part by part."""
    return _text({}, answer)


def _is_light(answer: object) -> bool:
    """Says whether an answer is encoded at once; looks no further than that takes."""
    left, waiting = LIGHT, [answer]
    while waiting:
        value = waiting.pop()
        left -= _ITEM
        if isinstance(value, str | msgspec.Raw):
            left -= len(value)
        elif isinstance(value, int):
            left -= value.bit_length() // 3
        else:
            for parts in _inside(value):
                left -= _ITEM * len(parts)
                if left < 0:
                    return False
                waiting.extend(parts)
        if left < 0:
            return False
    return True


def _weigh(weights: Weights, value: object) -> int:
    if not value or type(value) in _FLAT:
        return _ITEM
    if isinstance(value, str | msgspec.Raw):
        return _ITEM + len(value)
    if isinstance(value, int):
        return _ITEM + value.bit_length() // 3
    weight = weights.get(id(value))
    if weight is None:
        weight = _ITEM + sum(_weigh_all(weights, parts) for parts in _inside(value))
        if weight > SMALL:
            weights[id(value)] = weight
    return weight


def _weigh_all(weights: Weights, items: Collection[Any]) -> int:
    # Where they are alike, C can tell.
    kinds = set(map(type, items))
    if kinds <= _FLAT:
        return _ITEM * len(items)
    if kinds == {str}:
        return _ITEM * len(items) + sum(map(len, items))
    return sum(map(partial(_weigh, weights), items))


def _inside(value: object) -> tuple[Collection[Any], ...]:
    if isinstance(value, dict):
        known = cast("dict[Any, Any]", value)
        return known.keys(), known.values()
    if isinstance(value, list | tuple):
        return (cast("list[Any]", value),)
    if isinstance(value, msgspec.Struct):
        return (msgspec.structs.astuple(value),)
    return ()


def _parts(weights: Weights, value: object) -> Iterator[bytes]:
    """Yields the text of a value that is not light."""
    match value:
        case str():
            yield b'"'
            for start in range(0, len(value), LIGHT):
                yield msgspec.json.encode(value[start : start + LIGHT])[1:-1]
            yield b'"'
        case dict():
            yield from _members(weights, cast("dict[Any, Any]", value).items())
        case msgspec.Struct() if not value.__struct_config__.omit_defaults:
            named = zip(value.__struct_encode_fields__, msgspec.structs.astuple(value), strict=True)
            yield from _members(weights, named)
        case list() | tuple():
            yield from _items(weights, cast("list[Any]", value))
        case _:
            yield msgspec.json.encode(value)


def _items(weights: Weights, items: Iterable[Any]) -> Iterator[bytes]:
    before = b"["
    for run in _runs(items, partial(_weigh, weights)):
        yield before
        if len(run) > 1:
            yield msgspec.json.encode(run)[1:-1]
        else:
            yield from _text(weights, run[0])
        before = b","
    yield b"]"


def _members(weights: Weights, members: Iterable[tuple[Any, Any]]) -> Iterator[bytes]:
    def weigh(member: tuple[Any, Any]) -> int:
        return _weigh(weights, member[0]) + _weigh(weights, member[1])

    before = b"{"
    for run in _runs(members, weigh):
        yield before
        if len(run) > 1:
            yield msgspec.json.encode(dict(run))[1:-1]
        else:
            yield from _text(weights, run[0][0])
            yield b":"
            yield from _text(weights, run[0][1])
        before = b","
    yield b"}"


def _runs(items: Iterable[T], weigh: Callable[[T], int]) -> Iterator[list[T]]:
    """Yields neighbours that are light together; what is not comes alone."""
    run, held = list[T](), 0
    for item in items:
        weight = weigh(item)
        if run and held + weight > LIGHT:
            yield run
            run, held = [], 0
        run.append(item)
        held += weight
    if run:
        yield run


def _text(weights: Weights, value: object) -> Iterator[bytes]:
    if _weigh(weights, value) > LIGHT:
        yield from _parts(weights, value)
    else:
        yield msgspec.json.encode(value)
