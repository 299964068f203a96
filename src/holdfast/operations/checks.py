"""Whether an argument is of the type that its description says, and what is said if it is not.

An operation's fields are such a description, and so are the annotations of a method that is code:
`checked` lets a door's methods refuse what is of another type, in the same words.
"""

import enum
import inspect
import operator
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from datetime import datetime, timedelta
from functools import partial, wraps
from math import isnan
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    BinaryIO,
    Final,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Meta

from holdfast.display import shortened
from holdfast.errors import Invalid, InvalidName, InvalidValue
from holdfast.jsontext import is_whole
from holdfast.model.marks import Text

D = TypeVar("D")
M = TypeVar("M")

Check = Callable[[str, Any], None]
"""Raises `InvalidValue` if what an argument of that name is given does not fit."""

_WORDS: Final[dict[Any, str]] = {
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
    BinaryIO: "an open file",
    Callable: "a function",
}

_LISTS: Final = (list, tuple, Sequence, Iterable)
_ROWS: Final = (tuple, list)
_TEXTS: Final = (str, bytes)

_USUAL: Final[dict[Any, tuple[type, ...]]] = {Iterable: _ROWS, Mapping: (dict,)}
"""What is mostly given for one of these, which would be asked by a call of its own."""

_NO_TEXT: Final = re.compile("[\udc80-\udcff]")
"""What stands in a path of this machine for bytes that are no text."""

_LARGEST: Final = 1 << 1023
"""A number beyond this is no float, and in the end none that Python writes down."""

_BOUNDS: Final[dict[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "gt": (operator.gt, "above"),
    "ge": (operator.ge, "at least"),
    "lt": (operator.lt, "below"),
    "le": (operator.le, "at most"),
    "min_length": (lambda value, least: len(value) >= least, "no shorter than"),
    "max_length": (lambda value, most: len(value) <= most, "no longer than"),
}
"""What a bound demands, by the name that it has there."""


def checked(door: type[D]) -> type[D]:
    """Lets the methods of a class refuse arguments that are not of the types that they say.

    Those that take an operation's fields do so already, and what is awaited when it is awaited.
    """
    for name, found in [*vars(door).items()]:
        if not name.startswith("_") and inspect.isfunction(found):
            setattr(door, name, checking(found))
    return door


def checking(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method that is called once its arguments are of the types that it says."""
    if hasattr(function, "__signature__") or inspect.iscoroutinefunction(function):
        return function
    named: dict[str, tuple[Any, Check]] | None = None

    @wraps(function)
    def method(self: object, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function has them
        nonlocal named
        if named is None:  # Made at the first call, as those of operations are.
            named = _checks_in(function)
        for (name, (default, check)), value in zip(named.items(), args, strict=False):
            if value is not default:
                check(name, value)
        for name, value in kwargs.items():
            default, check = named.get(name, (value, None))
            if check is not None and value is not default:
                check(name, value)
        return function(self, *args, **kwargs)

    return method


def _checks_in(function: Callable[..., Any]) -> dict[str, tuple[Any, Check]]:
    """Returns of each parameter its default, which fits, and what checks another value."""
    _, *taken = inspect.signature(function).parameters.values()
    # Not what it returns, which may be known to type checkers alone.
    said = {each.name: each.annotation for each in taken}
    names = inspect.unwrap(function).__globals__
    hints = get_type_hints(SimpleNamespace(__annotations__=said), names, include_extras=True)
    return {each.name: (each.default, check_of(hints[each.name])) for each in taken}


def check_of(kind: Any) -> Check:  # noqa: ANN401 - any type
    """Returns what checks arguments of a type."""
    kinds = _parts(kind)
    if Any in kinds or object in kinds:
        return _anything
    classes = tuple({found for each in kinds for found in _classes(each)})
    others, takes_files = {bool, str, bytes}.difference(classes), BinaryIO in kinds
    usual = frozenset(classes).union(*(_USUAL.get(each, ()) for each in classes))
    said = " or ".join(dict.fromkeys(_word(each) for each in kinds))

    def check(name: str, value: object) -> None:
        if type(value) in usual:
            return
        # A text is a list of letters, and True a number: neither is what was meant.
        is_other = type(value) in others
        if is_other or not (
            isinstance(value, classes)
            or getattr(value, "stands_for", None) in classes
            or (takes_files and (hasattr(value, "read") or hasattr(value, "write")))
        ):
            message = f"{name} is {said}, not {_given(value)}"
            raise InvalidValue(message)

    more = [*_further(kind, kinds, said)]
    if not more:
        return check

    def check_all(name: str, value: Any) -> None:  # noqa: ANN401 - of the type, once it is checked
        check(name, value)
        if value is not None:
            for each in more:
                each(name, value)

    return check_all


def is_list(kind: Any) -> bool:  # noqa: ANN401 - any type
    """Says whether arguments of a type are lists, or whatever can be iterated over."""
    return any(get_origin(each) in _LISTS for each in _parts(kind))


def _anything(_name: str, _value: object) -> None:
    """Finds nothing wrong."""


def _further(kind: Any, kinds: list[Any], said: str) -> Iterator[Check]:  # noqa: ANN401 - any type
    """Yields what a value of the right class is checked for as well."""
    texts = [text.most for text in _marks(kind, Text)]
    yield from (partial(_check_row, most) for most in texts)
    # Those of a namespace may be bytes, and whoever looks there says what is no path.
    if bytes not in kinds and any(get_origin(each) is os.PathLike for each in kinds):
        yield _check_path
    if int in kinds or float in kinds:
        yield _check_number
    bounds = [each for meta in _marks(kind, Meta) for each in _bounds(meta)]
    bounds += [(fits, said) for fits in _chosen(kinds)]
    yield from (partial(_check_bound, fits, words) for fits, words in bounds)
    yield from (inside for each in kinds if (inside := _inside(each)) is not None)


def _inside(kind: Any) -> Check | None:  # noqa: ANN401 - any type
    """Returns what checks the items of a list; None for what has none, or any."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin not in _LISTS or not inner:
        return None
    if origin is tuple and inner[-1] is not Ellipsis:
        places = [(number, check_of(each)) for number, each in enumerate(inner)]
        some = [(number, check) for number, check in places if check is not _anything]
        return partial(_check_places, len(inner), some)
    check = check_of(inner[0])
    return None if check is _anything else partial(_check_items, check)


def _check_items(check: Check, name: str, items: object) -> None:
    # A text is no list, and what can be iterated over but once is for whoever does so.
    if not isinstance(items, _ROWS) and (
        not isinstance(items, Collection) or isinstance(items, str | bytes)
    ):
        return
    known = cast("Collection[object]", items)
    try:
        for item in known:
            check(name, item)
    except Invalid:
        # Only now by their numbers: names for all of them would take longer than to look at them.
        for number, item in enumerate(known):
            check(f"{name}[{number}]", item)
        raise


def _check_places(size: int, checks: Sequence[tuple[int, Check]], name: str, items: object) -> None:
    if isinstance(items, _TEXTS):
        return
    if not isinstance(items, _ROWS) or len(cast("Sized", items)) != size:
        message = f"{name} is a tuple of {size}, not {_given(cast('object', items))}"
        raise InvalidValue(message)
    known = cast("Sequence[object]", items)
    try:
        for number, check in checks:
            check(name, known[number])
    except Invalid:
        for number, check in checks:
            check(f"{name}[{number}]", known[number])
        raise


def _check_row(most: int, name: str, value: str) -> None:
    check_text(name, value, max_chars=most)


def _check_path(name: str, value: object) -> None:
    is_path = isinstance(value, os.PathLike)
    text = os.fspath(cast("os.PathLike[str]", value)) if is_path else value
    if isinstance(text, str) and ("\0" in text or not is_whole(_NO_TEXT.sub("", text))):
        message = f"{name} is a path, and holds a null byte or half a character"
        raise InvalidValue(message)


def _check_number(name: str, value: object) -> None:
    is_none = isinstance(value, float) and isnan(value)
    if is_none or (isinstance(value, int) and not -_LARGEST < value < _LARGEST):
        message = f"{name} is a number{', not nan' if is_none else ' of at most 308 digits'}"
        raise InvalidValue(message)


def _check_bound(fits: Callable[[Any], bool], words: str, name: str, value: object) -> None:
    if not fits(value):
        message = f"{name} is {words}, not {shortened(value)}"
        raise InvalidValue(message)


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
    is_promise = getattr(origin, "_is_protocol", False)
    if not inspect.isclass(origin) or is_promise > getattr(origin, "_is_runtime_protocol", False):
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
    if origin in _LISTS:
        return "a list"
    if origin is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if _is_enum(origin):
        return " or ".join(repr(each.value) for each in origin)
    return _WORDS.get(origin, f"a {getattr(origin, '__name__', origin)}")


def _given(value: object) -> str:
    return _WORDS.get(type(value), f"a {type(value).__name__}")
