"""Whether an argument is of the type that an operation says, and what is said if it is not."""

import enum
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

from holdfast.errors import InvalidName, InvalidValue
from holdfast.model.marks import Text, mark

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

    text = next(filter(None, (mark(each, Text) for each in _flat(kind))), None)
    if text is None:
        return check
    most = text.most

    def check_both(name: str, value: Any) -> None:  # noqa: ANN401 - text, once it is checked
        check(name, value)
        check_text(name, value, max_chars=most)

    return check_both


def check_text(kind: str, text: str | None, *, max_chars: int) -> str | None:
    """Returns text that goes into a row; raises `InvalidName` if the row cannot hold it."""
    if text is None:
        return None
    if len(text) > max_chars:
        raise InvalidName(kind, text, reason=f"it has more than {max_chars} characters")
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise InvalidName(kind, text, reason="it holds a NUL or half a character")
    return text


def _flat(kind: Any) -> list[Any]:  # noqa: ANN401 - any type
    is_union = get_origin(kind) in (Union, UnionType)
    return [part for each in get_args(kind) for part in _flat(each)] if is_union else [kind]


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
    if issubclass(origin, enum.StrEnum):
        return (str,)
    if origin in (list, tuple, Sequence):
        return (Iterable,)
    return (Mapping,) if origin is dict else (origin,)


def _word(kind: Any) -> str:  # noqa: ANN401 - any type
    origin: Any = get_origin(kind) or kind
    if origin in (list, tuple, Sequence, Iterable):
        return "a list"
    if origin is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if inspect.isclass(origin) and issubclass(origin, enum.StrEnum):
        return " or ".join(repr(each.value) for each in origin)
    return _WORDS.get(origin, f"a {getattr(origin, '__name__', origin)}")


def _given(value: object) -> str:
    return _WORDS.get(type(value), f"a {type(value).__name__}")
