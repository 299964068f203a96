"""The catalog in one SQLite file: the default, with nothing to set up.

WAL lets readers go on while one writer writes; `synchronous=FULL` makes a commit outlive a power
cut. Any number of threads and processes may use the file. Writers take turns (`turns`) and queue on
a file lock before they ask SQLite for its own: the kernel wakes the next one at once, where
SQLite's busy handler would poll (of ten processes with fifty writes each, for up to 2.9 s).
"""

import os
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast import fetching
from holdfast.catalog import sqlite_reading
from holdfast.catalog.filelocks import FileLocks
from holdfast.catalog.queries import load_queries
from holdfast.catalog.rows import Row
from holdfast.catalog.sqlite_connections import (
    BUSY_TIMEOUT_S,
    LOG_PAGES,
    SqliteConnections,
    check_modules,
)
from holdfast.catalog.sqlite_errors import translated, unreadable
from holdfast.catalog.sqlite_reading import RESERVE_BYTES, Reserve, connections_without_writing
from holdfast.catalog.sqlite_transaction import Question, Reading, Writing, count_at_once
from holdfast.catalog.tables import Step, apply, missing_migrations, no_step
from holdfast.catalog.transaction import Transaction
from holdfast.catalog.turns import WRITE, Turns
from holdfast.catalog.watermark import Watermark
from holdfast.errors import (
    Busy,
    CatalogLost,
    Damaged,
    HoldfastError,
    Incompatible,
    StorageFull,
    StorageReadOnly,
    Unavailable,
)
from holdfast.errors.system import from_system
from holdfast.ids import IdMaker
from holdfast.instruments import SPANS
from holdfast.model.upkeep import Load, Loss
from holdfast.ownfiles import claim, close_to_others
from holdfast.settings import CATALOG_NAME, has_packs

_OPEN: Final = "open"
_APPLIED: Final = "SELECT number, name FROM migrations"
_OLDEST: Final = (3, 37)
"""The first SQLite with STRICT tables."""

_SCARCE_BYTES: Final = 64 << 20
"""With less than this free, a collection gives back the room of the log, too."""

_ROOM_FOR_LOG: Final = (
    "Make room for a copy of `catalog.sqlite-wal` beside it, then open the vault again: to go on "
    "without would be to lose what may still be read from it."
)


class FileLease:
    """A lock of the kernel's: nobody else has it while this process lives."""

    def fence(self, transaction: Transaction) -> None:
        """Has nothing to insist on."""

    def check(self) -> None:
        """Has nothing to look at."""


class SqliteCatalog:
    """A catalog in the directory `folder`, as `catalog.sqlite` with its locks beside it."""

    kind = "sqlite"
    keep_deleted = timedelta(days=1)
    """Copied by a nightly backup, and put back by hand."""

    def __init__(self, folder: Path, *, ids: IdMaker | None = None, step: Step = no_step) -> None:
        if sqlite3.sqlite_version_info < _OLDEST:
            message = f"SQLite {sqlite3.sqlite_version} is too old; 3.37 is the oldest that works"
            raise Incompatible(message)
        self._folder = str(folder)
        self._path = folder / CATALOG_NAME
        self._ids = ids or IdMaker()
        self._queries = load_queries("sqlite")
        self._locks = FileLocks(folder / "locks")
        self._turns = Turns(self._locks)
        self._connections = SqliteConnections(self._path)
        self._watermark = Watermark(self._path)
        self._reserve = Reserve(folder)
        self._cleanup = ExitStack()
        self._loss: Loss | None = None
        """What could not be written down for everybody to find."""
        with ExitStack() as on_failure:
            on_failure.callback(self.close)
            try:
                self._migrate(step)
            except (StorageReadOnly, StorageFull) as exc:
                self._read_only(exc)
            else:
                self._reserve.keep(free_bytes=self.free_bytes())
            on_failure.pop_all()

    @property
    def writer(self) -> str:
        """Returns this opener's name and makes sure that others can see it is alive."""
        self._connections.check_usable()
        return self._locks.hold(self._ids.writer)

    def read(self) -> AbstractContextManager[Transaction]:
        """Opens a transaction that sees one moment."""
        return SPANS.around("catalog.read", Reading(self._connections, self._queries))

    def ask(self) -> AbstractContextManager[Transaction]:
        """Opens what reads with a single question."""
        return SPANS.around("catalog.ask", Question(self._connections, self._queries))

    def write(self) -> AbstractContextManager[Transaction]:
        """Opens a transaction that happens wholly or not at all."""
        fetching.write()
        writing = Writing(self._connections, self._queries, self._turns, self._watermark)
        return SPANS.around("catalog.write", writing)

    def is_alive(self, writer: str) -> bool:
        """Says whether the process behind a writer's name still runs."""
        self._connections.check_usable()
        return self._locks.is_taken(writer)

    @contextmanager
    def lock(self, name: str) -> Generator["FileLease"]:
        """Holds a lock between all users of this catalog."""
        self._connections.check_usable()
        with self._locks.trying(name) as is_mine:
            if not is_mine:
                message = f"{name} is already running"
                raise Busy(message)
            yield FileLease()

    def free_bytes(self) -> int | None:
        """Returns the room on the disk that the catalog lies on."""
        try:
            stat = os.statvfs(self._folder)
        except OSError as exc:
            message = f"the catalog's folder: {exc.strerror or exc}"
            raise Unavailable(message) from exc
        return stat.f_bavail * stat.f_frsize

    def check_current(self) -> None:
        """Raises `CatalogReplaced` if other files lie where this process has the catalog open."""
        with self._connections.use(writing=False) as connection:
            self._connections.check_files(connection)

    def find_loss(self) -> Loss | None:
        """Returns what was acknowledged and is missing, until `accept_loss`."""
        return self._watermark.find_loss() or self._loss

    def accept_loss(self) -> None:
        """Takes note that somebody knows what is missing."""
        self._connections.check_writable()
        try:
            self._watermark.accept_loss()
        except OSError as exc:
            message = f"the note of what the catalog lost: {exc.strerror or exc}"
            raise Unavailable(message) from exc
        self._loss = None

    def make_room(self) -> None:
        """Gives up what is kept aside for this moment, if there is no other room."""
        free = self.free_bytes()
        if free is not None and free >= RESERVE_BYTES:
            return
        self._reserve.give_up()
        if self._connections.is_for_want_of_room:
            whole = SqliteConnections(self._path)
            before, self._connections = self._connections, whole
            before.close()
            self._migrate(no_step)

    def reclaim(self) -> None:
        """Gives the pages of deleted rows back to the file system; clears up after the dead."""
        self._locks.clear("writer-")
        with self._connections.use(writing=False) as connection, translated():
            has_spare = sqlite_reading.has_spare(connection, self._path)
        if has_spare or ((free := self.free_bytes()) is not None and free < _SCARCE_BYTES):
            self._give_pages_back()
        self._reserve.keep(free_bytes=self.free_bytes())

    def load(self) -> Load:
        """Returns whether somebody writes, and who waits for that."""
        return self._turns.load()

    def tend_log(self) -> None:
        """Copies the log into the file, and sees to it that it begins anew once it is long."""
        self._connections.leave_log()
        with suppress(StorageReadOnly, StorageFull):  # Whoever writes hears of it.
            with self._connections.use(writing=True) as connection, translated():
                pages = sqlite_reading.copy_log(connection)
            if pages >= LOG_PAGES:
                # What was written meanwhile is little. Without it, the log would grow for as long
                # as somebody writes: it begins anew when all of it was copied.
                with self._writing() as connection, translated():
                    sqlite_reading.copy_log(connection)

    def scrub(self) -> None:
        """Makes the file anew of the rows that are there, and empties the log."""
        with self._writing() as connection, translated():
            sqlite_reading.scrub(connection, busy_timeout_s=BUSY_TIMEOUT_S)

    def find_index_faults(self) -> list[str]:
        """Returns what SQLite finds that does not agree in its file."""
        with self._connections.use(writing=False) as connection, translated():
            return sqlite_reading.find_faults(connection)

    def rebuild_indexes(self) -> dict[str, int]:
        """Makes all indexes anew of the rows, and what is out of order."""
        with self._writing() as connection, translated():
            return sqlite_reading.rebuild(connection)

    def close(self) -> None:
        """Closes every connection and lets go of the writer's name."""
        self._connections.close()
        self._turns.close()
        self._locks.release()
        self._watermark.close()
        self._cleanup.close()

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        """Lends a connection that may write, when it is our turn."""
        self._connections.check_usable()
        with self._turns.taken(), self._connections.use(writing=True) as connection:
            yield connection

    def _give_pages_back(self) -> None:
        before, left = None, self._free_some_pages()
        while left and left != before:
            before, left = left, self._free_some_pages()
        with self._writing() as connection, translated():
            sqlite_reading.shorten(connection, busy_timeout_s=BUSY_TIMEOUT_S)

    def _free_some_pages(self) -> int:
        with self._writing() as connection, translated():
            return sqlite_reading.free_some(connection)

    def _migrate(self, step: Step) -> None:
        # Switching to WAL fails at once, whatever the timeout, while another opener looks at
        # the file: so every opener takes its turn.
        with (
            self._locks.waiting(_OPEN),
            self._kept_private(),
            _naming(self._look_for_loss()),
            self._connections.use(writing=True) as connection,
            translated(),
        ):
            applied = self._applied(connection)
            if missing := missing_migrations("sqlite", applied=applied):
                check_modules(connection)
                connection.execute("BEGIN IMMEDIATE")
                try:
                    apply(missing, partial(_run, connection), step=step)
                    connection.execute("COMMIT")
                finally:
                    connection.rollback()
            self._connections.pin(connection)

    @contextmanager
    def _kept_private(self) -> Generator[None]:
        """Takes the catalog's files from all but their owner; SQLite's others follow the first."""
        if not self._watermark.has_log:
            claim(self._path)
        for name in self._connections.names:
            close_to_others(name)
        yield
        close_to_others(self._path)

    def _look_for_loss(self) -> str | None:
        """Compares how far the catalog has come with what was acknowledged.

        Where less is there, its log is kept, and returned as it is kept. A connection that may
        write would write over what SQLite did not read of it, and the last one to be closed
        removes it: where there is a log, it is looked at through one that may not.
        """
        self._loss = None
        acknowledged = self._watermark.read()
        if acknowledged is None:
            return None
        has_log = self._watermark.has_log
        looking = SqliteConnections(self._path, how="mode=ro") if has_log else self._connections
        try:
            with looking.use(writing=not has_log) as connection, translated():
                count = count_at_once(connection)
        except Damaged:
            with _naming(self._keep_log()):
                raise
        except HoldfastError:
            return None  # Who opens it for writing hears the same, and knows what to do.
        finally:
            if has_log:
                looking.close()
        found = acknowledged.missing_from(count)
        if found is None:
            self._watermark.note(count)
            return None
        found = msgspec.structs.replace(found, log=self._keep_log())
        try:
            self._watermark.keep_loss(found, count)
        except OSError:
            self._loss = found  # Found again at the next opening.
        import logging  # noqa: PLC0415 - takes longer to load than a look at a catalog

        logging.getLogger(__name__).warning("Of the catalog %s, %s.", self._path, found)
        return found.log

    def _keep_log(self) -> str | None:
        try:
            return self._watermark.keep_log()
        except OSError as exc:
            error = from_system(exc, "the catalog's log is damaged, and cannot be kept aside")
            raise error.with_hint(_ROOM_FOR_LOG) from exc

    def _read_only(self, why: StorageReadOnly | StorageFull) -> None:
        """Opens the catalog all the same, for those who read."""
        if not self._path.exists():
            raise why
        acknowledged = self._watermark.read()
        with ExitStack() as turn:
            if isinstance(why, StorageFull):
                turn.enter_context(self._turns.taken())
            self._connections = connections_without_writing(self._path, why, cleanup=self._cleanup)
        with self._connections.use(writing=False) as connection, translated():
            applied = connection.execute(_APPLIED).fetchall()
            if acknowledged is not None:
                count = count_at_once(connection)
                self._loss = acknowledged.missing_from(count)
        if missing_migrations("sqlite", applied=applied):
            message = f"{why}: the catalog is of an older version, and has to be migrated first"
            raise type(why)(message)

    def _applied(self, connection: sqlite3.Connection) -> list[tuple[int, str]]:
        """Returns the migrations that a sound file has, none if it is new."""
        query = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'migrations'"
        is_new = not connection.execute(query).fetchone()[0]
        if is_new:
            if self._locks.was_ever_taken(WRITE):
                what = f"the vault in {self._folder}"
                raise CatalogLost(what, has_packs=has_packs(self._folder))
            # Before anything is written: after that, it says how pages are given back.
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            connection.execute("PRAGMA journal_mode=WAL")
        if is_new:
            return []
        self._check_whole(connection)
        return connection.execute(_APPLIED).fetchall()

    def _check_whole(self, connection: sqlite3.Connection) -> None:
        """Raises `Damaged` if the file was cut inside its last page, where SQLite sees zeros."""
        log = self._path.with_name(f"{self._path.name}-wal")
        if log.exists() and log.stat().st_size:
            return  # after a crash the last page may be in the log alone
        page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
        if self._path.stat().st_size % page_bytes:
            raise unreadable("the catalog's file ends in the middle of a page")


def find_applied(folder: Path) -> list[tuple[int, str]]:
    """Returns the migrations that the catalog in a directory has seen, none if there is none."""
    path = folder / CATALOG_NAME
    if not path.exists():
        return []
    with (
        closing(SqliteConnections(path, how="mode=ro")) as connections,
        connections.use(writing=False) as connection,
        translated(),
    ):
        return connection.execute(_APPLIED).fetchall()


@contextmanager
def _naming(log: str | None) -> Generator[None]:
    """Says with whatever is damaged where the log is kept."""
    try:
        yield
    except Damaged as exc:
        if log is not None:
            exc.args = (f"{exc}; its log, as it was found, is kept as {log}",)
        raise


def _run(connection: sqlite3.Connection, query: str, values: Sequence[Any]) -> Sequence[Row]:
    return connection.execute(query, values).fetchall()
