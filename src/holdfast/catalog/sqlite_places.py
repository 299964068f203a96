"""Queries for SQLite whose parameters have places instead of names: for one key, or for many.

Named queries are written for one key or one row (`sql/queries.sql`). SQLite binds no arrays; so
a query for many is the same text with as many places as there are values. Each is made once.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Final

Values = Callable[[Mapping[str, object]], Sequence[object]]
"""Takes the values of a query out of those that are given by name, in the order of places."""

_PARAMETER: Final = re.compile(r":(\w+)")
_OF_HEAD: Final = re.compile(r"UPDATE namespaces\s.*?\bWHERE id = :(\w+)", re.DOTALL)
_VALUES: Final = re.compile(r"(?<=VALUES )(\(.*?\))")


@cache
def with_keys(query: str, count: int) -> tuple[str, Sequence[str]]:
    """Returns a query for so many keys instead of one, and the names of what goes before them."""
    before, after = query.split("= :key")
    return by_place(before + f"IN ({', '.join('?' * count)})" + after)


@cache
def reading_between(query: str) -> tuple[str, Sequence[str]]:
    """Returns a query for all keys between two, and the names of what it is given."""
    return by_place(query.replace("= :key", "BETWEEN :first AND :last"))


@cache
def counting_between(query: str) -> tuple[str, Sequence[str]]:
    """Returns a query for how many keys are between two, up to a number that comes last."""
    text, names = reading_between(query)
    return f"SELECT COUNT(*) FROM ({text} LIMIT ?)", names  # noqa: S608 - of our own files


@cache
def with_rows(query: str, count: int) -> tuple[str, Sequence[str], Sequence[str]]:
    """Returns a query for so many rows instead of one.

    And the names of what stands in each before the key, and after the entry and its checksum.
    """
    head, row, tail = _VALUES.split(query)
    names = _PARAMETER.findall(row)
    text = head + ", ".join([_PARAMETER.sub("?", row)] * count) + tail
    at = names.index("key")
    return text, names[:at], names[at + 3 :]


@cache
def with_values(query: str) -> tuple[str, Values, str | None]:
    """Returns a query with places, and what finds the values for them.

    And what the id of a namespace is called whose row it changes, if it does. To look a name up
    takes SQLite's module three times as long as a place.
    """
    text, names = by_place(query)
    head = _OF_HEAD.match(query)
    return text, _values_of(names), None if head is None else head[1]


def _values_of(names: Sequence[str]) -> Values:
    return itemgetter(*names) if len(names) > 1 else lambda given: [given[name] for name in names]


@cache
def by_place(query: str) -> tuple[str, Sequence[str]]:
    """Returns a query whose parameters have places instead of names, and the names in order."""
    return _PARAMETER.sub("?", query), _PARAMETER.findall(query)
