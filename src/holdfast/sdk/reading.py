"""Answers as they stand on the wire, as the values that the embedded door returns.

One function for each kind.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, TypeVar, cast

import msgspec

from holdfast.errors import InvalidValue
from holdfast.model.basics import SnapshotLike, id_of
from holdfast.operations.checks import check_of
from holdfast.operations.shapes import shape_of

A = TypeVar("A")
T = TypeVar("T")


def reads(kind: type[A], make: Callable[[A], T]) -> Callable[[bytes], T]:
    """Returns what decodes an answer of a kind, and makes a value of it."""
    decoder = msgspec.json.Decoder(kind)
    return lambda body: make(decoder.decode(body))


def as_it_is(kind: type[A]) -> Callable[[bytes], A]:
    """Returns what decodes an answer that is a value already."""
    return msgspec.json.Decoder(kind).decode


def value_of(kind: type[T]) -> Callable[[bytes], T]:
    """Returns what decodes an answer that says a value of ours."""
    shape = shape_of(kind)
    return reads(shape.wire, cast("Callable[[Any], T]", shape.read))


def whole(body: bytes) -> bytes:
    """Reads an answer that is bytes."""
    return body


def id_or_none(snapshot: SnapshotLike | None) -> str | None:
    """Returns what a snapshot is called on the wire, if there is one."""
    return None if snapshot is None else id_of(snapshot)


def texts(name: str, given: Iterable[str]) -> list[str]:
    """Returns what is given as a list; raises `InvalidValue` for one text, of which letters are."""
    made = given if isinstance(given, str) else [*given]
    _check_texts(name, made)
    return [*made]


_check_texts: Final = check_of(Iterable[str])


def sent(when: datetime | None) -> str | None:
    """Returns an instant as it is sent; raises `InvalidValue` for one that may be anywhere."""
    if when is None:
        return None
    if when.utcoffset() is None:
        raise InvalidValue("an instant says in which time zone it is: datetime.now(UTC)")
    return when.isoformat()
