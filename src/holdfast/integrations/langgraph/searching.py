"""Filters, vectors and conditions of LangGraph's stores: which items are meant, and how near."""

from array import array
from collections.abc import Callable, Mapping, Sequence
from math import hypot
from operator import ge, gt, le, lt, mul
from typing import Any, Final, cast

from langgraph.store.base import MatchCondition

from holdfast.errors import InvalidValue, shorten

Vector = Sequence[float]

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$gt": gt,
    "$gte": ge,
    "$lt": lt,
    "$lte": le,
}

_ORDERED: Final = (str, int | float)
"""What is more or less than others of its kind."""


def fits(value: object, wanted: object) -> bool:
    """Says whether part of an item is as a filter wants it.

    A mapping with names that begin with `$` compares; any other has to be found in the item, part
    by part.
    """
    if isinstance(wanted, Mapping):
        parts = cast("Mapping[str, object]", wanted)
        if any(name.startswith("$") for name in parts):
            return all(_compares(value, how, other) for how, other in parts.items())
        if not isinstance(value, Mapping):
            return False
        known = cast("Mapping[str, object]", value)
        # As in LangGraph's own stores, what is not there is as None.
        return all(fits(known.get(name), each) for name, each in parts.items())
    if isinstance(wanted, list | tuple) and isinstance(value, list | tuple):
        some, others = cast("Sequence[object]", value), cast("Sequence[object]", wanted)
        return len(some) == len(others) and all(map(fits, some, others))
    return value == wanted


def _compares(value: object, how: str, other: object) -> bool:
    if how == "$eq":
        return value == other
    if how == "$ne":
        return value != other
    compare = _COMPARISONS.get(how)
    if compare is None:
        known = ", ".join(["$eq", "$ne", *_COMPARISONS])
        raise InvalidValue(f"a filter compares with one of {known}, not {shorten(how)}")
    # What is neither text nor number, and a text beside a number, is neither more nor less.
    are_alike = any(isinstance(value, kind) and isinstance(other, kind) for kind in _ORDERED)
    return are_alike and compare(value, other)


def matches(namespace: Sequence[str], condition: MatchCondition) -> bool:
    """Says whether a namespace begins, or ends, as a condition says; `*` is any label."""
    path = condition.path
    if len(namespace) < len(path):
        return False
    if condition.match_type == "prefix":
        part = namespace[: len(path)]
    elif condition.match_type == "suffix":
        part = namespace[len(namespace) - len(path) :]
    else:
        raise InvalidValue("a namespace is matched by its prefix or its suffix")
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def to_bytes(vector: Vector) -> bytes:
    """Returns a vector as it is stored: numbers of four bytes each."""
    return array("f", vector).tobytes()


def nearness(vector: Vector, stored: bytes) -> float:
    """Returns the cosine of the angle between two vectors; 0 where one of them is none."""
    if len(stored) % 4 or len(stored) // 4 != len(vector):
        return 0.0
    other = array("f", stored)
    length = hypot(*vector) * hypot(*other)
    return sum(map(mul, vector, other)) / length if length else 0.0
