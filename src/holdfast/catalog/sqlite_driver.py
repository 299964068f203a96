"""The driver that runs named queries on a connection to a SQLite file.

Queries for SQLite whose parameters have places instead of names: for one key, or for many.

Named queries are written for one key or one row (`sql/queries.sql`). SQLite binds no arrays; so
a query for many is the same text with as many places as there are values. Each is made once.
"""

import re
import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache
from operator import itemgetter
from types import NoneType
from typing import Any, Final, NamedTuple, cast

from holdfast.catalog.driver import Guard, KeyedRow, Moment, Several
from holdfast.catalog.rows import Row
from holdfast.catalog.sqlite_connections import Connection
from holdfast.errors import (
    Busy,
)

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
    values_of: Callable[[Any], Sequence[Any]]
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


def _getter(places: Sequence[Any]) -> Callable[[Any], Sequence[Any]]:
    if len(places) > 1:
        return itemgetter(*places)
    return lambda given: [given[place] for place in places]


@cache
def by_place(query: str) -> tuple[str, Sequence[str]]:
    """Returns a query whose parameters have places instead of names, and the names in order."""
    return _PARAMETER.sub("?", query), _PARAMETER.findall(query)


_LISTED: Final = (1, 4, 16, 64, 256)
_WRITTEN: Final = (100, 10, 1)
"""Keys, and rows, for one statement: more are no faster, and each number is one to prepare."""

_NEAR: Final = 64
"""With fewer keys there is little to gain by knowing how many lie between them."""


class SqliteDriver:
    """Runs named queries on one connection."""

    __slots__ = (
        "_connection",
        "_execute",
        "_guard",
        "_queries",
        "head",
        "is_known",
        "is_unheard",
    )

    def __init__(
        self,
        connection: Connection,
        queries: Mapping[str, str],
        guard: Guard,
        *,
        is_unheard: bool = False,
    ) -> None:
        self.is_unheard = is_unheard
        self.head: int | None = None
        """The id of a namespace in whose row the count of this commit stands."""
        self.is_known = True
        """Whether what the connection knew of the catalog still holds."""
        self._connection = connection
        self._execute = connection.execute
        self._queries = queries
        self._guard = guard

    @property
    def era(self) -> int:
        """Always the same: a file is asked who has committed last."""
        return 0

    @property
    def follows(self) -> Moment:
        """The last commit of all."""
        known = self._connection
        # As long as SQLite says the same of others' commits, all that follow are our own.
        return known.number, known.others, known.count

    @property
    def becomes(self) -> Moment:
        """The commit that this will be."""
        known = self._connection
        return known.number, known.others, known.count + 1

    def one(self, name: str, /, **parameters: object) -> Row | None:
        with self._guard:
            return self._execute_at(with_values(self._queries[name]), parameters).fetchone()

    def asking(self) -> None:
        """Returns None: an answer is there at once."""

    def all(self, name: str, /, **parameters: object) -> Sequence[Row]:
        with self._guard:
            return self._run(name, parameters).fetchall()

    def all_as_stored(self, name: str, /, **parameters: object) -> Sequence[Row]:
        self._connection.text_factory = _to_text
        try:
            return self.all(name, **parameters)
        finally:
            self._connection.text_factory = str

    def run(self, name: str, /, **parameters: object) -> int:
        with self._guard:
            return self._run(name, parameters).rowcount

    def say(self, name: str, /, **parameters: object) -> None:
        with self._guard:
            self._run(name, parameters)

    def say_all(self, several: Several, values: Sequence[object], /) -> None:
        with self._guard:
            for statement in with_places(several, *map(self._queries.__getitem__, several.names)):
                self._execute_at(statement, values)

    def insist(
        self,
        name: str,
        /,
        *,
        locked: bool = False,  # noqa: ARG002 - the transaction holds the lock of all writers
        **parameters: object,
    ) -> None:
        if self.one(name, **parameters) is None:
            raise Busy("somebody else was faster")

    def lock(self, name: str, /, **parameters: object) -> None:
        """Does nothing: the transaction holds the lock of all writers."""

    def say_many(self, name: str, rows: Iterable[Mapping[str, object]], /) -> None:
        self.run_many(name, rows)

    def run_many(self, name: str, rows: Iterable[Mapping[str, object]], /) -> int:
        with self._guard:
            given = cast("Iterable[dict[str, Any]]", rows)
            cursor = self._connection.executemany(self._queries[name], given)
            return max(cursor.rowcount, 0)

    def by_keys(
        self, name: str, keys: Sequence[bytes], /, *, near: bool = False, **parameters: object
    ) -> Sequence[Row]:
        # SQLite binds no arrays. Of a thousand keys, each takes 1.5 µs in lists and 3.7 alone.
        query, at = self._queries[name], 0
        found: list[Row] = []
        with self._guard:
            if near and len(keys) >= _NEAR:
                between = self._between(query, keys, parameters)
                if between is not None:
                    return between
            while at < len(keys):
                some = keys[at : at + _LISTED[-1]]
                size = _LISTED[bisect_left(_LISTED, len(some))]
                text, names = with_keys(query, size)
                given = [parameters[each] for each in names]
                given += some
                # One that is listed again is found once: cheaper than one more statement.
                given += [some[-1]] * (size - len(some))
                found += self._execute(text, given).fetchall()
                at += size
        return found

    def put_rows(self, name: str, given_rows: Iterable[KeyedRow], /, **parameters: object) -> None:
        # A thousand rows take 2.5 ms in statements of a hundred, and 4.4 ms one by one.
        query, at = self._queries[name], 0
        with self._guard:
            rows = list(given_rows)
            for size in _WRITTEN:
                while len(rows) - at >= size:
                    text, before, after = with_rows(query, size)
                    first = [parameters[each] for each in before]
                    last = [parameters[each] for each in after]
                    given: list[Any] = []
                    for row in rows[at : at + size]:
                        given += (*first, *row, *last)
                    self._execute(text, given)
                    at += size

    def dump(self, path: str, /, *, opened: Callable[[], None]) -> None:
        with self._guard, closing(sqlite3.connect(path)) as target:
            # Nothing beside the file: a journal would have a name of its own.
            target.execute("PRAGMA journal_mode=OFF")
            opened()
            # Of this transaction's moment: the copy is read through its connection.
            self._connection.backup(target)

    def _between(
        self, query: str, keys: Sequence[bytes], parameters: Mapping[str, object]
    ) -> Sequence[Row] | None:
        """Returns the rows of keys by reading all between them; None if those are too many.

        A row takes 0.5 µs to read with its neighbours, and 0.1 to count. What is not yet in a
        snapshot was often written together, or there is nothing of it: a thousand keys are
        found in 0.7 ms instead of 1.5. Where they lie far apart, counting was in vain and the
        answer takes a fifth longer.
        """
        most, ends = 2 * len(keys), {"first": min(keys), "last": max(keys), **parameters}
        counting, names = counting_between(query)
        given = [*(ends[each] for each in names), most]
        if self._execute(counting, given).fetchone()[0] == most:
            return None
        reading, names = reading_between(query)
        wanted, rows = frozenset(keys), self._execute(reading, [ends[each] for each in names])
        return [row for row in rows if row[0] in wanted]

    def _run(self, name: str, parameters: Mapping[str, object]) -> sqlite3.Cursor:
        return self._execute_at(with_values(self._queries[name]), parameters)

    def _execute_at(self, statement: Statement, given: Any) -> sqlite3.Cursor:  # noqa: ANN401 - by name or by place
        text, values_of, head, is_undoing = statement
        values = values_of(given)
        for value in values:
            # As strict as PostgreSQL, whose text ends there.
            if value.__class__ is str and "\0" in value:
                raise ValueError("text cannot hold a NUL")
        if is_undoing:
            self.head, self.is_known = None, False
        if head is None:
            return self._execute(text, values)
        cursor = self._execute(text, (self._connection.count + 1, *values))
        # Who gets nothing of what such a query returns undoes the transaction.
        if cursor.rowcount == 1 or cursor.description is not None:
            self.head = given[head]
        return cursor


def bind_as_they_are() -> None:
    """From now on, hands bytes and None to SQLite without asking what they stand for.

    Python's module asks that of all but numbers and texts, each time anew, and who knows of no
    other form: 3,300 instructions, up to 26 times in a request. For a process that is ours alone:
    what is registered holds for all of SQLite in it.
    """
    sqlite3.register_adapter(bytes, bytes)
    sqlite3.register_adapter(NoneType, dict[None, None]().get)


def _to_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
