"""Whether an argument is of the type that an operation says, and what is said if it is not."""

import enum
import inspect
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin

from msgspec import Meta

from holdfast.display import shortened
from holdfast.errors import InvalidName, InvalidValue
from holdfast.jsontext import is_whole
from holdfast.model.marks import Text

M = TypeVar("M")

Check = Callable[[str, Any], None]
"""Raises `InvalidValue` if what an argument of that name is given does not fit."""

_WORDS: Final[dict[type, str]] = {
    str: "text",
    bytes: "bytes",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    datetime: "an instant (datetime)",
    timedelta: "a span of time (timedelta)",
    dict: "an object (dict)",
    list: "a list",
    NoneType: "None",
    os.PathLike: "a path",
}

_BOUNDS: Final[dict[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "gt": (operator.gt, "above"),
    "ge": (operator.ge, "at least"),
    "lt": (operator.lt, "below"),
    "le": (operator.le, "at most"),
    "min_length": (lambda value, least: len(value) >= least, "no shorter than"),
    "max_length": (lambda value, most: len(value) <= most, "no longer than"),
}
"""What a bound demands, by the name that it has there."""


def check_of(kind: Any) -> Check:  # noqa: ANN401 - any type
    """Returns what checks arguments of a type."""
    kinds = _parts(kind)
    if Any in kinds or object in kinds:
        return lambda _name, _value: None
    classes = tuple({found for each in kinds for found in _classes(each)})
    others = {bool, str, bytes}.difference(classes)
    said = " or ".join(dict.fromkeys(_word(each) for each in kinds))

    def check(name: str, value: object) -> None:
        # A text is a list of letters, and True a number: neither is what was meant.
        is_other = type(value) in others
        if is_other or not (
            isinstance(value, classes) or getattr(value, "stands_for", None) in classes
        ):
            message = f"{name} is {said}, not {_given(value)}"
            raise InvalidValue(message)

    texts = [text.most for text in _marks(kind, Text)]
    bounds = [each for meta in _marks(kind, Meta) for each in _bounds(meta)]
    bounds += [(fits, said) for fits in _chosen(kinds)]
    if not texts and not bounds:
        return check

    def check_all(name: str, value: Any) -> None:  # noqa: ANN401 - of the type, once it is checked
        check(name, value)
        for most in texts:
            check_text(name, value, max_chars=most)
        if value is not None:
            for fits, words in bounds:
                if not fits(value):
                    message = f"{name} is {words}, not {shortened(value)}"
                    raise InvalidValue(message)

    return check_all


def _bounds(meta: Meta) -> Iterator[tuple[Callable[[Any], bool], str]]:
    """Yields what holds of every value, and in which words; spans of time count in seconds."""
    for name, (holds, words) in _BOUNDS.items():
        if (bound := getattr(meta, name)) is not None:
            yield partial(_holds, holds, bound), f"{words} {bound}"


def _holds(holds: Callable[[Any, Any], bool], bound: float, value: Any) -> bool:  # noqa: ANN401 - as above
    return holds(value.total_seconds() if isinstance(value, timedelta) else value, bound)


def check_text(kind: str, text: str | None, *, max_chars: int) -> str | None:
    """Returns text that goes into a row; raises `InvalidName` if the row cannot hold it."""
    if text is None:
        return None
    if len(text) > max_chars:
        reason = f"it has more than {max_chars} characters"
        raise InvalidName(kind, text, reason=reason).with_hint(_hint(max_chars))
    if "\0" in text or not is_whole(text):
        reason = "it holds a NUL or half a character"
        raise InvalidName(kind, text, reason=reason).with_hint(_hint(max_chars))
    return text


def _hint(max_chars: int) -> str:
    return f"Use up to {max_chars:,} characters, any but NUL."


def _marks(kind: Any, wanted: type[M]) -> Iterator[M]:  # noqa: ANN401 - any type
    """Yields what an annotation says of such a kind, and those of what it is one of."""
    yield from (each for each in getattr(kind, "__metadata__", ()) if isinstance(each, wanted))
    if get_origin(kind) is Annotated:
        yield from _marks(kind.__origin__, wanted)
    elif get_origin(kind) in (Union, UnionType):
        for each in get_args(kind):
            yield from _marks(each, wanted)


def _parts(kind: Any) -> list[Any]:  # noqa: ANN401 - any type
    if hasattr(kind, "__supertype__"):
        return _parts(kind.__supertype__)
    if get_origin(kind) is Annotated:
        return _parts(kind.__origin__)
    if get_origin(kind) in (Union, UnionType):
        return [part for each in get_args(kind) for part in _parts(each)]
    return [kind]


def _classes(kind: Any) -> tuple[type, ...]:  # noqa: ANN401 - any type
    origin: Any = get_origin(kind) or kind
    if origin is Literal:
        return tuple({type(cast("object", each)) for each in get_args(kind)})
    if not inspect.isclass(origin):
        return (object,)  # What only a type checker knows.
    if origin is float:
        return (float, int)
    if _is_enum(origin):
        return (str,)
    if origin in (list, tuple, Sequence):
        return (Iterable,)
    return (Mapping,) if origin is dict else (origin,)


def _chosen(kinds: list[Any]) -> Iterator[Callable[[Any], bool]]:
    """Yields what holds of a text that is one of those which are named, if any are."""
    named = [each for each in kinds if get_origin(each) is Literal or _is_enum(each)]
    if named and str not in kinds:
        words = frozenset(word for each in named for word in get_args(each) or each)
        yield lambda value: not isinstance(value, str) or value in words


def _is_enum(kind: Any) -> bool:  # noqa: ANN401 - any type
    return inspect.isclass(kind) and issubclass(kind, enum.StrEnum)


def _word(kind: Any) -> str:  # noqa: ANN401 - any type
    origin: Any = get_origin(kind) or kind
    if origin in (list, tuple, Sequence, Iterable):
        return "a list"
    if origin is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if _is_enum(origin):
        return " or ".join(repr(each.value) for each in origin)
    return _WORDS.get(origin, f"a {getattr(origin, '__name__', origin)}")


def _given(value: object) -> str:
    return _WORDS.get(type(value), f"a {type(value).__name__}")
