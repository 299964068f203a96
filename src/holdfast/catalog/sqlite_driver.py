"""Connections to a SQLite file, and the driver that runs named queries on one of them.

Connections are kept for the next user. One that reads refuses to write; one that was left in a
doubtful state is closed. None survives a fork: SQLite keeps its locks per process and would
believe in a child that it holds those of its parent. It was tried: a commit of the child was
lost when the parent closed its connection. So idle connections are closed before each fork.
"""

import os
import sqlite3
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, cast

from holdfast.catalog.driver import Guard, KeyedRow, Moment, Several
from holdfast.catalog.forking import tell_of_forks
from holdfast.catalog.rows import Row
from holdfast.catalog.sqlite_places import (
    Statement,
    counting_between,
    reading_between,
    with_keys,
    with_places,
    with_rows,
    with_values,
)
from holdfast.errors import (
    Busy,
    CatalogLost,
    CatalogReplaced,
    Conflict,
    Damaged,
    HoldfastError,
    Incompatible,
    InvalidValue,
    StorageFull,
    StorageReadOnly,
    Unavailable,
)

BUSY_TIMEOUT_S: Final = 120.0
"""How long SQLite itself waits for a lock that other tools may hold."""

_PRAGMAS: Final = ("synchronous=FULL", "foreign_keys=ON", "cache_size=-16384")
"""With a cache of 16 MB instead of 2, finding one of 100,000 objects takes 4.5 µs instead of 8.
`mmap_size` did the same at the price of a crash on a read error; `temp_store` and a longer
`wal_autocheckpoint` changed nothing."""

_LISTED: Final = (256, 64, 16, 4, 1)
_WRITTEN: Final = (100, 10, 1)
"""Keys, and rows, for one statement: more are no faster, and each number is one to prepare."""

_NEAR: Final = 64
"""With fewer keys there is little to gain by knowing how many lie between them."""

_KEPT: Final = 8
"""Idle connections kept of each kind: bounds the memory of their caches."""


_MODULES: Final = ("fts5", "fts5vocab", "json_each")
"""What a SQLite may have been built without, and memories are found with."""

_BESIDE: Final = ("", "-wal", "-shm")
"""The files of a catalog: with another one in the place of any, commits go astray."""

_HOLD: Final[int | None] = getattr(os, "O_PATH", None)
"""Stands for a file without opening it: closing anything else would free SQLite's own locks."""

Files = tuple[tuple[int, int] | None, ...]
"""Which files these are, by device and inode."""


UNKNOWN: Final = -1
"""Nothing that SQLite says of others' commits: what a connection knows is not to be relied on."""


class Connection(sqlite3.Connection):
    """A connection that knows which files it has open, and what it last found in them."""

    number: int = 0
    """Which connection of this process it is."""
    files: Files = ()
    others: int = UNKNOWN
    """What SQLite said of others' commits then."""
    count: int = 0
    """How many commits there were, this connection's own among them."""
    is_heard: bool = True
    """Whether somebody listens to events."""


class SqliteConnections:
    """Connections to one file; any number of threads may ask for one.

    With `only` there are none that write: that is what who asks for one is told. `how` is what
    SQLite has to know of such a file, as the parameters of a URI.
    """

    def __init__(self, path: Path, *, only: HoldfastError | None = None, how: str = "") -> None:
        self._path = path.resolve()
        self.names = tuple(f"{self._path}{end}" for end in _BESIDE)
        self._only, self._how = only, how
        self._held: int | None = None
        self._idle: dict[bool, list[Connection]] = {False: [], True: []}
        self._in_use: set[Connection] = set()
        self._is_closed = False
        self._guard = threading.Lock()
        tell_of_forks(self)

    @contextmanager
    def use(self, *, writing: bool) -> Generator[Connection]:
        """Lends a connection that is in no transaction, and takes it back."""
        connection = self.take(writing=writing)
        try:
            yield connection
        finally:
            self.put_back(connection, writing=writing)

    def take(self, *, writing: bool) -> Connection:
        """Lends a connection that is in no transaction; `put_back` has to follow."""
        if writing:
            self.check_writable()
        with self._guard:
            self.check_usable()
            idle = self._idle[writing]
            if idle:
                connection = idle.pop()
            else:
                with translated():
                    connection = self._open(writing=writing)
            self._in_use.add(connection)
            return connection

    def put_back(self, connection: Connection, *, writing: bool) -> None:
        """Takes a connection back."""
        with self._guard:
            # Not there: we are a child that was forked in the middle of a transaction.
            if connection in self._in_use:
                self._in_use.discard(connection)
                idle = self._idle[writing]
                if self._is_closed or connection.in_transaction or len(idle) == _KEPT:
                    connection.close()
                else:
                    idle.append(connection)

    def check_usable(self) -> None:
        """Raises `Unavailable` after `close`, and in a child that was forked at a bad moment."""
        if self._is_closed:
            raise Unavailable("the catalog is closed")
        if _inherited and self._path in _inherited:
            raise Unavailable("this process was forked while the catalog was in use")

    def check_writable(self) -> None:
        """Raises what keeps a catalog from being written to, if something does."""
        if self._only is not None:
            raise type(self._only)(*self._only.args)

    @property
    def is_for_want_of_room(self) -> bool:
        """Whether nothing is written because the disk is full."""
        return isinstance(self._only, StorageFull)

    def pin(self, connection: Connection) -> None:
        """Remembers which files a connection has open, which has just read or written."""
        connection.files = self._identify()
        if self._held is None and _HOLD is not None and connection.files[0] is not None:
            self._held = os.open(self.names[0], _HOLD | os.O_CLOEXEC)

    def check_files(self, connection: Connection) -> None:
        """Raises `CatalogReplaced` unless a connection's files are still the catalog's.

        Three calls of the system, 4 µs. What was committed to a file that has no name any more
        is gone with the last process that has it open.
        """
        found = self._identify()
        if found == connection.files:
            return
        changed = zip(self.names, found, connection.files, strict=True)
        name, now = next((name, now) for name, now, then in changed if now != then)
        if now is not None:
            raise CatalogReplaced(name, how="was replaced by another file")
        if self._is_somewhere():
            raise CatalogReplaced(name, how="was moved or unmounted", may_return=True)
        raise CatalogReplaced(name, how="was removed")

    def _is_somewhere(self) -> bool:
        """Says whether the catalog's file has a name at all, as far as the system can say."""
        return self._held is not None and _count_names(self._held) > 0 and not self._path.exists()

    def _identify(self) -> Files:
        try:
            return tuple([(found.st_dev, found.st_ino) for found in map(os.stat, self.names)])
        except OSError:
            return tuple(_identity(name) for name in self.names)

    def close(self) -> None:
        """Closes what is idle now, and what is in use as soon as it comes back."""
        with self._guard:
            self._is_closed = True
            self._close_idle()
            if self._held is not None:
                os.close(self._held)
                self._held = None

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

    def _close_idle(self) -> None:
        for idle in self._idle.values():
            while idle:
                idle.pop().close()

    def _open(self, *, writing: bool) -> Connection:
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?{self._how}" if self._how else self._path,
            uri=bool(self._how),
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            factory=Connection,
        )
        with ExitStack() as on_failure:
            on_failure.callback(connection.close)
            for pragma in (*_PRAGMAS, f"query_only={not writing}"):
                connection.execute(f"PRAGMA {pragma}")
            # Reads, and so opens the log and its index.
            connection.execute("PRAGMA user_version").fetchone()
            self.pin(connection)
            connection.number = next(_numbers)
            on_failure.pop_all()
        return connection


def _count_names(fd: int) -> int:
    """Returns how many names a file has."""
    return os.fstat(fd).st_nlink


def _identity(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - a path object takes longer to make than this
    except FileNotFoundError:
        return None
    except OSError as exc:
        message = f"the catalog's file {name}: {exc.strerror or exc}"
        raise Unavailable(message) from exc
    return found.st_dev, found.st_ino


_numbers: Final = count(1)

_inherited: Final[dict[Path, list[Connection]]] = {}
"""Connections of a parent process: kept, so that the garbage collector never closes them."""


class SqliteDriver:
    """Runs named queries on one connection."""

    __slots__ = (
        "_connection",
        "_count",
        "_execute",
        "_executemany",
        "_guard",
        "_queries",
        "becomes",
        "follows",
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
        self._count = connection.count + 1
        # As long as SQLite says the same of others' commits, all that follow are our own.
        self.follows: Moment = (connection.number, connection.others, connection.count)
        self.becomes: Moment = (connection.number, connection.others, self._count)
        self._connection = connection
        self._execute = connection.execute
        self._executemany = connection.executemany
        self._queries = queries
        self._guard = guard

    def one(self, name: str, /, **parameters: object) -> Row | None:
        with self._guard:
            return cast("Row | None", self._run(name, parameters).fetchone())

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
            cursor = self._executemany(self._queries[name], cast("Iterable[dict[str, Any]]", rows))
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
            for size in _LISTED:
                while len(keys) - at >= size:
                    text, names = with_keys(query, size)
                    given = [parameters[each] for each in names]
                    given += keys[at : at + size]
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

    def dump(self, path: str, /) -> None:
        with self._guard, closing(sqlite3.connect(path)) as target:
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
        values = cast("Sequence[Any]", values_of(given))
        for value in values:
            # As strict as PostgreSQL, whose text ends there.
            if value.__class__ is str and "\0" in value:
                raise ValueError("text cannot hold a NUL")
        if is_undoing:
            self.head, self.is_known = None, False
        if head is None:
            return self._execute(text, values)
        cursor = self._execute(text, (self._count, *values))
        # Who gets nothing of what such a query returns undoes the transaction.
        if cursor.rowcount == 1 or cursor.description is not None:
            self.head = given[head]
        return cursor


def _to_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def to_error(exc: BaseException) -> HoldfastError | None:
    """Returns our error for one of SQLite's; the codes are those of sqlite.org/rescode.html."""
    if isinstance(exc, UnicodeDecodeError):
        # Names in a damaged file, which SQLite repeats in its messages.
        return unreadable(f"the catalog holds text that is none: {exc}")
    if isinstance(exc, (OverflowError, ValueError, sqlite3.ProgrammingError)):
        return InvalidValue(f"the catalog cannot hold this value: {exc}")
    if not isinstance(exc, sqlite3.Error):
        return None
    code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    kind = _ERRORS.get(code) or _ERRORS.get(code & 0xFF, Unavailable)
    message = f"the catalog answered: {exc}"
    return unreadable(message) if kind is Damaged else kind(message)


def unreadable(message: str) -> Damaged:
    """Returns the error for a damaged file; who verifies and repairs would read it first."""
    error = Damaged(message)
    error.hint = CatalogLost.hint
    return error


_ERRORS: Final[dict[int, type[HoldfastError]]] = {
    sqlite3.SQLITE_FULL: StorageFull,
    # The index of the log could not be made as long as it has to be.
    sqlite3.SQLITE_IOERR_SHMSIZE: StorageFull,
    sqlite3.SQLITE_READONLY: StorageReadOnly,
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


def check_modules(connection: sqlite3.Connection) -> None:
    """Raises `Incompatible` if this SQLite lacks a part that our tables need."""
    known = {name for (name,) in connection.execute("SELECT name FROM pragma_module_list")}
    if lacking := [name for name in _MODULES if name not in known]:
        message = f"this SQLite was built without {', '.join(lacking)}"
        raise Incompatible(message)


@contextmanager
def translated() -> Generator[None]:
    """Turns SQLite's errors into ours, outside of any transaction."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as exc:
        raise to_error(exc) or exc from exc
