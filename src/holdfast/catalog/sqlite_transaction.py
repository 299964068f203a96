"""One transaction on a connection to a SQLite file, from its beginning to its end.

Who reads sees one moment. Who writes waits for a turn, looks who else has written, and counts its
commit (`sqlite_count.py`).
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Final

from holdfast.catalog.driver import Driver, Guard, paced
from holdfast.catalog.sqlite_connections import UNKNOWN, Connection, SqliteConnections
from holdfast.catalog.sqlite_count import HEADER, count_up, find_last
from holdfast.catalog.sqlite_driver import SqliteDriver
from holdfast.catalog.sqlite_errors import to_error
from holdfast.catalog.tables import check_format
from holdfast.catalog.transaction import Transaction
from holdfast.catalog.turns import Turns
from holdfast.catalog.watermark import Watermark
from holdfast.pacing import rest

_BEGUN: Final = (
    "SELECT MAX(number), EXISTS (SELECT 1 FROM listening WHERE what = 'events') FROM migrations"
)
"""What a writer asks who is not the last that wrote: of which format the tables are, and whether
somebody listens."""


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


class Question(Reading):
    """A single statement that reads: it sees one moment by itself."""

    def __enter__(self) -> Transaction:
        self._connection = self._connections.take(writing=False)
        return Transaction(SqliteDriver(self._connection, self._queries, self._guard))

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

    def _look(self, connection: Connection) -> None:
        # A newer version may have changed the tables: it would not know what we write.
        with self._guard:
            found, is_heard = connection.execute(_BEGUN).fetchone()
        check_format("the catalog", found=found or 0)
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
