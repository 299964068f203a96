"""One transaction on a connection to a SQLite file, from its beginning to its end.

Who reads sees one moment. Who writes waits for a turn, looks who else has written, and counts its
commit.

How many commits a SQLite catalog has: what the mark outside of it is compared with.

Each commit that changes something counts one up. A namespace's row that it changes anyway holds the
count of its last change, so that no page is written for it; where there is none, the header of the
file does (`user_version`). The highest of all is the count of the catalog.

Who made the last commit knows it, and SQLite says whether somebody else has made one since. Who
did not, finds it by the mark, which says where it stands; if that is not so, if the mark is older
than what was found when the catalog was opened, or if a writer died with a commit under way, all
rows are asked.
"""

import sqlite3
from collections.abc import Mapping
from types import TracebackType
from typing import Final

from holdfast.behalf import rest
from holdfast.catalog.driver import Driver, Guard, paced
from holdfast.catalog.sqlite_connections import UNKNOWN, Connection, SqliteConnections
from holdfast.catalog.sqlite_driver import SqliteDriver
from holdfast.catalog.sqlite_errors import to_error
from holdfast.catalog.tables import NEEDED, check_format, newest_format
from holdfast.catalog.transaction import Transaction
from holdfast.catalog.turns import Turns
from holdfast.catalog.watermark import Watermark
from holdfast.errors import CatalogReplaced

_BEGUN: Final = f"""
SELECT MAX({NEEDED}), MAX(number), EXISTS (SELECT 1 FROM listening WHERE what = 'events')
FROM migrations
"""  # noqa: S608 - our own
"""What a writer asks who is not the last that wrote: which format it has to know, of which the
tables are, and whether somebody listens."""


class Reading:
    """A transaction on a connection that is lent for it.

    A class, where generators would say it in fewer lines: with them an empty transaction takes
    8.5 µs instead of 4.6, and a whole read of one value takes 16.
    """

    _writing = False
    _begin = "BEGIN"

    def __init__(self, connections: SqliteConnections, queries: Mapping[str, str]) -> None:
        self._connections = connections
        self._queries = queries
        self._guard = Guard(to_error)

    def __enter__(self) -> Transaction:
        connection = self._connection = self._connections.take(writing=self._writing)
        is_begun = False
        try:
            with self._guard:
                connection.execute(self._begin)
            self._check(connection)
            is_begun = True
        finally:
            if not is_begun:
                self._connections.put_back(connection, writing=self._writing)
        return Transaction(self._drive(connection))

    def _drive(self, connection: Connection) -> Driver:
        return paced(SqliteDriver(connection, self._queries, self._guard))

    def _check(self, connection: Connection) -> None:
        """Raises if this transaction must not be, now that it sees what it will see."""

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        connection = self._connection
        try:
            if kind is None:
                self._commit(connection)
        finally:
            self._guard.end()
            try:
                connection.rollback()
            finally:
                self._connections.put_back(connection, writing=self._writing)

    def _commit(self, connection: Connection) -> None:
        with self._guard:
            connection.execute("COMMIT")


class Question:
    """A single statement that reads: it sees one moment by itself."""

    __slots__ = ("_connection", "_connections", "_guard", "_queries")

    def __init__(self, connections: SqliteConnections, queries: Mapping[str, str]) -> None:
        self._connections = connections
        self._queries = queries

    def __enter__(self) -> Transaction:
        guard = self._guard = Guard(to_error)
        connection = self._connection = self._connections.take(writing=False)
        return Transaction(SqliteDriver(connection, self._queries, guard))

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self._guard.end()
        self._connections.put_back(self._connection, writing=False)


class Writing(Reading):
    """A transaction that may write, when it is our turn."""

    _writing = True
    _begin = "BEGIN IMMEDIATE"

    def __init__(
        self,
        connections: SqliteConnections,
        queries: Mapping[str, str],
        turns: Turns,
        watermark: Watermark,
    ) -> None:
        super().__init__(connections, queries)
        self._turns = turns
        self._watermark = watermark

    def __enter__(self) -> Transaction:
        self._connections.check_usable()
        self._connections.check_writable()
        rest()
        self._turn = self._turns.take()
        is_begun = False
        try:
            transaction = super().__enter__()
            self._changes = self._connection.total_changes
            is_begun = True
        finally:
            if not is_begun:
                self._turns.leave(self._turn)
        return transaction

    def _check(self, connection: Connection) -> None:
        with self._guard:
            (others,) = connection.execute("PRAGMA data_version").fetchone()
        # As long as nobody else has committed anything, it is as this connection has found it.
        if others != connection.others:
            self._look(connection)
            connection.others = others
        self._connections.make_room(connection)

    def _look(self, connection: Connection) -> None:
        # A newer version may have changed the tables: it would not know what we write.
        with self._guard:
            needed, found, is_heard = connection.execute(_BEGUN).fetchone()
        is_newer = (needed or 0) > newest_format()
        check_format("the catalog", found=(found if is_newer else needed) or 0)
        with self._guard:
            connection.count = find_last(connection, self._watermark)
        connection.is_heard = bool(is_heard)

    def _drive(self, connection: Connection) -> SqliteDriver:
        self._driver = SqliteDriver(
            connection,
            self._queries,
            self._guard,
            is_unheard=not connection.is_heard,
        )
        return self._driver

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(kind, error, traceback)
        finally:
            self._turns.leave(self._turn)

    def _commit(self, connection: Connection) -> None:
        """Commits, counts it, and says so nowhere if the files are not the catalog's any more."""
        is_changed, place = connection.total_changes != self._changes, HEADER
        with self._guard:
            if is_changed:
                place = count_up(connection, self._watermark, self._driver.head)
            # Whoever is interrupted here does not know what there is.
            others, connection.others = connection.others, UNKNOWN
            connection.execute("COMMIT")
        connection.count += is_changed
        if self._driver.is_known:
            connection.others = others
        # After it: what happens to the files later has happened to what was acknowledged.
        self._connections.check_files(connection)
        if is_changed:
            self._watermark.write(connection.count, place)


HEADER: Final = 0
"""Where a count stands that no namespace's row has: none has this id."""

_HAS_COUNTS: Final = "SELECT 1 FROM pragma_table_info('namespaces') WHERE name = 'commits'"
_HIGHEST: Final = "SELECT MAX(commits) FROM namespaces WHERE typeof(commits) = 'integer'"
"""Of a damaged row it may be a text, which is above all numbers; whoever reads the row is told."""

_WRAP: Final = 1 << 32
"""The header has 32 bits, the first of them a sign."""


def find_last(connection: Connection, watermark: Watermark) -> int:
    """Returns how far the catalog has come, in a transaction that has changed nothing yet.

    Later may be too late: the row that has the count may be one that is deleted.
    """
    last = watermark.find_last()
    if last is None or watermark.is_behind(last[0]) or not _stands(connection, *last):
        return count_of(connection)
    return last[0]


def count_up(connection: Connection, watermark: Watermark, head: int | None) -> int:
    """Counts one up, in a transaction that changes something; returns where the count stands.

    `head` is the id of a namespace in whose row it stands already. Raises `CatalogReplaced` if the
    catalog has come less far than this process knows.
    """
    if watermark.is_behind(connection.count):
        raise CatalogReplaced("the catalog", how="was set back")
    count, place = connection.count + 1, HEADER if head is None else head
    if head is None:
        connection.execute(f"PRAGMA user_version={_signed(count)}")
    watermark.begin(count, place)
    return place


def count_at_once(connection: sqlite3.Connection) -> int:
    """Returns the count of a catalog outside of a transaction: of one moment all the same."""
    connection.execute("BEGIN")
    try:
        return count_of(connection)
    finally:
        connection.rollback()


def count_of(connection: sqlite3.Connection) -> int:
    """Returns the count of a catalog: the highest that stands anywhere in it."""
    (header,) = connection.execute("PRAGMA user_version").fetchone()
    highest = None
    if connection.execute(_HAS_COUNTS).fetchone() is not None:
        (highest,) = connection.execute(_HIGHEST).fetchone()
    # Its lowest bits: the highest count before it is at most so much away.
    return (highest or 0) + max(_signed(header - (highest or 0)), 0)


def _stands(connection: Connection, count: int, place: int) -> bool:
    """Says whether a count stands where the mark says."""
    if place == HEADER:
        return connection.execute("PRAGMA user_version").fetchone()[0] == _signed(count)
    query = "SELECT 1 FROM namespaces WHERE id = ? AND commits = ?"
    return connection.execute(query, (place, count)).fetchone() is not None


def _signed(count: int) -> int:
    """Returns a count as the header has it."""
    return (count + _WRAP // 2) % _WRAP - _WRAP // 2
