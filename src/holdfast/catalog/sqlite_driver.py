"""Connections to a SQLite file, and the driver that runs named queries on one of them.

Connections are kept for the next user. One that reads refuses to write; one that was left in a
doubtful state is closed. None survives a fork: SQLite keeps its locks per process and would
believe in a child that it holds those of its parent. It was tried: a commit of the child was
lost when the parent closed its connection. So idle connections are closed before each fork.
"""

import sqlite3
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, cast

from holdfast.catalog.forking import tell_of_forks
from holdfast.catalog.rows import Row
from holdfast.catalog.transaction import Guard
from holdfast.errors import (
    Busy,
    Conflict,
    Damaged,
    HoldfastError,
    InvalidValue,
    StorageFull,
    Unavailable,
)

BUSY_TIMEOUT_S: Final = 120.0
"""How long SQLite itself waits for a lock that other tools may hold."""

_PRAGMAS: Final = ("synchronous=FULL", "foreign_keys=ON", "cache_size=-16384")
"""With a cache of 16 MB instead of 2, finding one of 100,000 objects takes 4.5 µs instead of 8.
`mmap_size` did the same at the price of a crash on a read error; `temp_store` and a longer
`wal_autocheckpoint` changed nothing."""

_KEPT: Final = 8
"""Idle connections kept of each kind: bounds the memory of their caches."""


class SqliteConnections:
    """Connections to one file; any number of threads may ask for one."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._idle: dict[bool, list[sqlite3.Connection]] = {False: [], True: []}
        self._in_use: set[sqlite3.Connection] = set()
        self._is_closed = False
        self._guard = threading.Lock()
        tell_of_forks(self)

    @contextmanager
    def use(self, *, writing: bool) -> Generator[sqlite3.Connection]:
        """Lends a connection that is in no transaction, and takes it back."""
        connection = self._take(writing=writing)
        try:
            yield connection
        finally:
            self._put_back(connection, writing=writing)

    def check_usable(self) -> None:
        """Raises `Unavailable` after `close`, and in a child that was forked at a bad moment."""
        if self._is_closed:
            raise Unavailable("the catalog is closed")
        if self._path in _inherited:
            raise Unavailable("this process was forked while the catalog was in use")

    def close(self) -> None:
        """Closes what is idle now, and what is in use as soon as it comes back."""
        with self._guard:
            self._is_closed = True
            self._close_idle()

    def before_fork(self) -> None:
        """Closes what can be closed."""
        self._guard.acquire()
        self._close_idle()

    def after_fork(self, *, in_child: bool) -> None:
        """Gives up, in a child, what was in use: it cannot be closed without harm."""
        if in_child and self._in_use:
            _inherited.setdefault(self._path, []).extend(self._in_use)
            self._in_use.clear()
        self._guard.release()

    def _take(self, *, writing: bool) -> sqlite3.Connection:
        with self._guard, translated():
            self.check_usable()
            idle = self._idle[writing]
            connection = idle.pop() if idle else self._open(writing=writing)
            self._in_use.add(connection)
            return connection

    def _put_back(self, connection: sqlite3.Connection, *, writing: bool) -> None:
        with self._guard:
            # Not there: we are a child that was forked in the middle of a transaction.
            if connection in self._in_use:
                self._in_use.discard(connection)
                idle = self._idle[writing]
                if self._is_closed or connection.in_transaction or len(idle) == _KEPT:
                    connection.close()
                else:
                    idle.append(connection)

    def _close_idle(self) -> None:
        for idle in self._idle.values():
            while idle:
                idle.pop().close()

    def _open(self, *, writing: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        with ExitStack() as on_failure:
            on_failure.callback(connection.close)
            for pragma in (*_PRAGMAS, f"query_only={not writing}"):
                connection.execute(f"PRAGMA {pragma}")
            on_failure.pop_all()
        return connection


_inherited: Final[dict[Path, list[sqlite3.Connection]]] = {}
"""Connections of a parent process: kept, so that the garbage collector never closes them."""


class SqliteDriver:
    """Runs named queries on one connection."""

    def __init__(
        self, connection: sqlite3.Connection, queries: Mapping[str, str], guard: Guard
    ) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany
        self._queries = queries
        self._guard = guard

    def one(self, name: str, /, **parameters: object) -> Row | None:
        with self._guard:
            return cast("Row | None", self._run(name, parameters).fetchone())

    def all(self, name: str, /, **parameters: object) -> Sequence[Row]:
        with self._guard:
            return self._run(name, parameters).fetchall()

    def run(self, name: str, /, **parameters: object) -> int:
        with self._guard:
            return self._run(name, parameters).rowcount

    def run_many(self, name: str, rows: Iterable[Mapping[str, object]], /) -> int:
        with self._guard:
            cursor = self._executemany(self._queries[name], cast("Iterable[dict[str, Any]]", rows))
            return max(cursor.rowcount, 0)

    def by_keys(self, name: str, keys: Sequence[bytes], /, **parameters: object) -> Sequence[Row]:
        # SQLite binds no arrays. A prepared point query takes 5 µs; lists of 32 parameters were
        # twice as fast for many keys and ten times as slow for one.
        query, found = self._queries[name], list[Row]()
        with self._guard:
            for key in keys:
                found += self._execute(query, {**parameters, "key": key}).fetchall()
        return found

    def _run(self, name: str, parameters: Mapping[str, object]) -> sqlite3.Cursor:
        for value in parameters.values():
            # As strict as PostgreSQL, whose text ends there.
            if isinstance(value, str) and "\0" in value:
                raise ValueError("text cannot hold a NUL")
        return self._execute(self._queries[name], cast("dict[str, Any]", parameters))


def to_error(exc: BaseException) -> HoldfastError | None:
    """Returns our error for one of SQLite's; the codes are those of sqlite.org/rescode.html."""
    if isinstance(exc, UnicodeDecodeError):
        # Names in a damaged file, which SQLite repeats in its messages.
        return Damaged(f"the catalog holds text that is none: {exc}")
    if isinstance(exc, (OverflowError, ValueError, sqlite3.ProgrammingError)):
        return InvalidValue(f"the catalog cannot hold this value: {exc}")
    if not isinstance(exc, sqlite3.Error):
        return None
    code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return _ERRORS.get(code, Unavailable)(f"the catalog answered: {exc}")


_ERRORS: Final[dict[int, type[HoldfastError]]] = {
    sqlite3.SQLITE_FULL: StorageFull,
    sqlite3.SQLITE_BUSY: Busy,
    sqlite3.SQLITE_LOCKED: Busy,
    sqlite3.SQLITE_CORRUPT: Damaged,
    sqlite3.SQLITE_NOTADB: Damaged,
    # What we ask is known to fit our tables: then these are not our tables any more.
    sqlite3.SQLITE_ERROR: Damaged,
    sqlite3.SQLITE_MISMATCH: Damaged,
    sqlite3.SQLITE_CONSTRAINT: Conflict,
    sqlite3.SQLITE_TOOBIG: InvalidValue,
}


@contextmanager
def translated() -> Generator[None]:
    """Turns SQLite's errors into ours, outside of any transaction."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as exc:
        raise to_error(exc) or exc from exc
