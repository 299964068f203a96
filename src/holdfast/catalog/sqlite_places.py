"""Queries for SQLite whose parameters have places instead of names: for one key, or for many.

Named queries are written for one key or one row (`sql/queries.sql`). SQLite binds no arrays; so
a query for many is the same text with as many places as there are values. Each is made once.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

from holdfast.catalog.driver import Several

_PARAMETER: Final = re.compile(r":(\w+)")
_OF_HEAD: Final = re.compile(r"UPDATE namespaces\s.*?\bWHERE id = :(\w+)", re.DOTALL)
_SET: Final = re.compile(r"\bSET\s")
_UNDOING: Final = re.compile(r"DELETE FROM namespaces\b|INSERT INTO listening\b")
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


class Statement(NamedTuple):
    """A query with places."""

    text: str
    values_of: Callable[[Any], Sequence[object]]
    """Takes its values out of all that are given, by name or in the order of `Several`."""
    head: Any
    """Where the id of a namespace is among those, if it changes that one's row: the count of
    commits is written there, too, and is its first value."""
    is_undoing: bool
    """Whether it may undo what a connection knows of the catalog: where that count stands, or that
    nobody listens."""


@cache
def with_values(query: str) -> Statement:
    """Returns a query whose values are given by name.

    To look a name up takes SQLite's module three times as long as a place.
    """
    text, names = by_place(query)
    head = _OF_HEAD.match(query)
    if head is not None:
        text = _SET.sub(r"\g<0>commits = ?, ", text, count=1)
    is_undoing = _UNDOING.match(query) is not None
    return Statement(text, _getter(names), None if head is None else head[1], is_undoing)


@cache
def with_places(several: Several, *queries: str) -> Sequence[Statement]:
    """Returns queries whose values are given together, in one order."""
    place_of = {name: place for place, name in enumerate(several.columns)}
    return [
        found._replace(
            values_of=_getter([place_of[name] for name in by_place(query)[1]]),
            head=None if found.head is None else place_of[found.head],
        )
        for query in queries
        for found in [with_values(query)]
    ]


def _getter(places: Sequence[Any]) -> Callable[[Any], Sequence[object]]:
    if len(places) > 1:
        return itemgetter(*places)
    return lambda given: [given[place] for place in places]


@cache
def by_place(query: str) -> tuple[str, Sequence[str]]:
    """Returns a query whose parameters have places instead of names, and the names in order."""
    return _PARAMETER.sub("?", query), _PARAMETER.findall(query)
