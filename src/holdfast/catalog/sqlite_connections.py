"""Connections to a SQLite file.

They are kept for the next user. One that reads refuses to write; one that was left in a doubtful
state is closed. None survives a fork: SQLite keeps its locks per process and would believe in a
child that it holds those of its parent. It was tried: a commit of the child was lost when the
parent closed its connection. So idle connections are closed before each fork.
"""

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from holdfast.catalog import sqlite_log
from holdfast.catalog.forking import tell_of_forks
from holdfast.catalog.sqlite_errors import translated
from holdfast.errors import (
    CatalogReplaced,
    HoldfastError,
    Incompatible,
    StorageFull,
    Unavailable,
)

BUSY_TIMEOUT_S: Final = 120.0
"""How long SQLite itself waits for a lock that other tools may hold."""

_PRAGMAS: Final = ("synchronous=FULL", "foreign_keys=ON", "cache_size=-16384")
"""With a cache of 16 MB instead of 2, finding one of 100,000 objects takes 4.5 µs instead of 8.
`mmap_size` did the same at the price of a crash on a read error; `temp_store` and a longer
`wal_autocheckpoint` changed nothing."""

LOG_PAGES: Final = 1000
"""With so many pages in the log, whoever commits copies them into the file, and all who would write
wait for that: 4 MB, 10 to 100 ms."""

_LEFT_PAGES: Final = 16 * LOG_PAGES
"""The same where somebody else sees to it: should they not."""

_KEPT: Final = 8
"""Idle connections kept of each kind: bounds the memory of their caches."""


_MODULES: Final = ("fts5", "fts5vocab", "json_each")
"""What a SQLite may have been built without, and memories are found with."""

_BESIDE: Final = ("", "-wal", "-shm")
"""The files of a catalog: with another one in the place of any, commits go astray."""

_LOG: Final = _BESIDE.index("-wal")

_MOST_LOG_BYTES: Final = LOG_PAGES * sqlite_log.FRAME_BYTES
"""How long a log becomes before it is copied, and begins anew."""

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
        self._log_pages = LOG_PAGES
        self._log_bytes = 0
        """How long the log was after the last commit of this process."""
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

    def leave_log(self) -> None:
        """From now on, has somebody else copy the log, but for one that is very long."""
        with self._guard:
            if self._log_pages == LOG_PAGES:
                self._log_pages = _LEFT_PAGES
                self._close_idle()

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

        Three calls of the system, 4 µs, which say how long the log is, too. What was committed to a
        file that has no name any more is gone with the last process that has it open.
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

    def make_room(self, connection: Connection) -> None:
        """Makes the log longer, if it soon has to be; `connection` holds the lock of writers."""
        if sqlite_log.is_short(self._log_bytes, most=_MOST_LOG_BYTES):
            identity = connection.files[_LOG]
            sqlite_log.lengthen(self.names[_LOG], identity, most=_MOST_LOG_BYTES)

    def _is_somewhere(self) -> bool:
        """Says whether the catalog's file has a name at all, as far as the system can say."""
        return self._held is not None and _count_names(self._held) > 0 and not self._path.exists()

    def _identify(self) -> Files:
        try:
            file, log, index = map(os.stat, self.names)
        except OSError:
            return tuple(_identity(name) for name in self.names)
        self._log_bytes = log.st_size
        return (
            (file.st_dev, file.st_ino),
            (log.st_dev, log.st_ino),
            (index.st_dev, index.st_ino),
        )

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
            own = (f"query_only={not writing}", f"wal_autocheckpoint={self._log_pages}")
            for pragma in (*_PRAGMAS, *own):
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


def check_modules(connection: sqlite3.Connection) -> None:
    """Raises `Incompatible` if this SQLite lacks a part that our tables need."""
    known = {name for (name,) in connection.execute("SELECT name FROM pragma_module_list")}
    if lacking := [name for name in _MODULES if name not in known]:
        message = f"this SQLite was built without {', '.join(lacking)}"
        raise Incompatible(message)
