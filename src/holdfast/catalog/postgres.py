"""The catalog in PostgreSQL: for more than one server.

All tables are in a schema of their own, `holdfast`, so that the database may be one that others
use too. Every transaction takes one connection from a pool and never asks for a second, so that
a full pool makes callers wait and cannot lock up; tenants share it (`turns`). Locks between servers
are advisory locks, which PostgreSQL lets go of when their holder's connection ends. Commits rely on
the server's `synchronous_commit`, which is on by default.
"""

import threading
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final, LiteralString, cast

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool

from holdfast.catalog import postgres_integrity
from holdfast.catalog.forking import tell_of_forks
from holdfast.catalog.postgres_driver import translated
from holdfast.catalog.postgres_dump import drop_rows, load_rows
from holdfast.catalog.postgres_lines import Connection, Lines
from holdfast.catalog.postgres_talk import READING, WRITING, Talk
from holdfast.catalog.postgres_transaction import Conversation
from holdfast.catalog.queries import load_queries
from holdfast.catalog.rows import Row
from holdfast.catalog.tables import (
    Step,
    apply,
    check_format,
    load_tables_of,
    missing_migrations,
    no_step,
)
from holdfast.catalog.transaction import Transaction
from holdfast.catalog.turns import Slots
from holdfast.errors import Busy, PathExists, Unavailable
from holdfast.ids import IdMaker, object_id_of
from holdfast.model.upkeep import Loss

_OUR_TABLES: Final = (
    "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
)

_OPEN_LOCK: Final = 743300001
"""Taken while tables are made, so that two first openers do not both make them."""

_DEFAULTS: Final = {
    "application_name": "holdfast",
    "connect_timeout": "10",
    # A server that vanished without a word is noticed within half a minute.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""What a URL that says nothing else gets."""

_SESSION: Final = (
    "-c search_path=holdfast"
    # Of a transaction that no statement begins: see `postgres_talk.py`.
    r" -c default_transaction_isolation=read\ committed"
    # The server, too, notices within half a minute that we vanished, and frees our locks.
    " -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
)


class PostgresCatalog:
    """A catalog in the database that `url` names."""

    kind = "postgres"
    keep_deleted = timedelta(days=7)
    """As far back as a server's log is commonly kept for a recovery to a point in time."""

    def __init__(
        self,
        url: str,
        *,
        ids: IdMaker | None = None,
        max_connections: int = 16,
        wait_s: float = 30,
        step: Step = no_step,
    ) -> None:
        """Opens the catalog; a transaction waits `wait_s` for a connection, then gives up."""
        self._conninfo = _conninfo(url)
        self._ids = ids or IdMaker()
        self._max_connections = max_connections
        self._wait_s = wait_s
        self._slots = Slots(max_connections, wait_s=wait_s)
        self._queries = load_queries("postgres")
        self._guard = threading.Lock()
        self._keeper: tuple[str, Connection] | None = None
        self._lines: Lines | None = None
        self._is_closed = False
        with translated():
            self._migrate(step)
        tell_of_forks(self)

    @property
    def writer(self) -> str:
        """Returns this opener's name and makes sure that others can see it is alive."""
        with translated(), self._guard:
            self._check_open()
            if self._keeper is None or not _answers(self._keeper[1]):
                self._keeper = self._take_name()
            return self._keeper[0]

    def read(self) -> AbstractContextManager[Transaction]:
        """Opens a transaction that sees one moment."""
        return self._transaction(READING)

    def ask(self) -> AbstractContextManager[Transaction]:
        """Opens what reads with a single question."""
        return self._transaction(None)

    def write(self) -> AbstractContextManager[Transaction]:
        """Opens a transaction that happens wholly or not at all."""
        return self._transaction(WRITING)

    def is_alive(self, writer: str) -> bool:
        """Says whether the connection behind a writer's name is still open."""
        query = "SELECT pg_try_advisory_xact_lock(%(key)s)"
        with self._slots.taken(), translated():
            talk = Talk(self._get_lines(), READING)
            try:
                return talk.ask(query, {"key": _lock_key(writer)}).fetchone() == (False,)
            finally:
                talk.end()

    @contextmanager
    def lock(self, name: str) -> Generator[None]:
        """Holds a lock between all users of this catalog."""
        self._check_open()
        query = "SELECT pg_try_advisory_lock(%s)"
        with translated():
            connection = self._connect()
        with closing(connection):
            with translated():
                is_mine = connection.execute(query, (_lock_key(name),)).fetchone() == (True,)
            if not is_mine:
                message = f"{name} is already running"
                raise Busy(message)
            try:
                yield
            finally:
                # Asked for, and answered: the server notices a closed connection a moment
                # later, and the next to ask would be told that somebody is still at it.
                with suppress(psycopg.Error):
                    connection.execute("SELECT pg_advisory_unlock(%s)", (_lock_key(name),))

    def free_bytes(self) -> int | None:
        """Returns None: the server's disk is not ours to look at."""
        return None

    def reclaim(self) -> None:
        """Leaves it to autovacuum, which does this by itself."""
        self._check_open()

    def tend_log(self) -> None:
        """Leaves it to the server, which does this by itself."""
        self._check_open()

    def scrub(self) -> None:
        """Makes every table anew of the rows that are there; the server's log is not ours."""
        self._check_open()
        with translated(), closing(self._connect()) as connection:
            names = connection.execute(_OUR_TABLES).fetchall()
            for (name,) in names:
                connection.execute(sql.SQL("VACUUM (FULL) {}").format(sql.Identifier(name)))
            # The files of before go with it. Who may not ask for one has the server's own.
            with suppress(psycopg.errors.InsufficientPrivilege):
                connection.execute("CHECKPOINT")

    def make_room(self) -> None:
        """Leaves it to whoever looks after the database's disk."""
        self._check_open()

    def check_current(self) -> None:
        """Does nothing: there are no files that could be replaced."""
        self._check_open()

    def find_loss(self) -> Loss | None:
        """Returns None: a server that finds its log cut does not start."""
        self._check_open()
        return None

    def accept_loss(self) -> None:
        """Does nothing: there is never a loss to accept."""
        self._check_open()

    def find_index_faults(self) -> list[str]:
        """Returns the indexes that do not hold what their tables do."""
        self._check_open()
        with translated(), closing(self._connect()) as connection:
            found = postgres_integrity.find_faults(connection)
        return [f"{index}: {reason}" for index, reason in found.items()]

    def rebuild_indexes(self) -> dict[str, int]:
        """Makes those indexes anew; their tables are as they are."""
        self._check_open()
        with translated(), closing(self._connect()) as connection:
            for index in postgres_integrity.find_faults(connection):
                postgres_integrity.rebuild(connection, index)
        return {}

    def close(self) -> None:
        """Closes every connection and lets go of the writer's name."""
        with self._guard:
            self._is_closed = True
            keeper, self._keeper = self._keeper, None
            lines, self._lines = self._lines, None
        if keeper is not None:
            keeper[1].close()
        if lines is not None:
            lines.close()

    def before_fork(self) -> None:
        """Keeps everything as it is while the process is copied."""
        self._guard.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        """Gives up, in a child, the connections that are its parent's conversation."""
        if in_child:
            _inherited.append((self._lines, self._keeper))
            self._lines, self._keeper = None, None
        self._guard.release()

    def _transaction(self, begin: LiteralString | None) -> Conversation:
        return Conversation(
            self._slots, self._get_lines, self._queries, begin, check_format=self._check_format
        )

    def _check_format(self) -> None:
        """Raises `VaultTooNew` if a newer version has changed the tables."""
        with suppress(psycopg.Error), closing(self._connect()) as connection:
            check_format("the catalog", found=max(_applied(connection))[0])

    def _get_lines(self) -> Lines:
        with self._guard:
            self._check_open()
            if self._lines is None:
                pool: ConnectionPool[Connection] = ConnectionPool(
                    self._conninfo,
                    kwargs={"autocommit": True},
                    min_size=1,
                    max_size=self._max_connections,
                    timeout=self._wait_s,
                    open=True,
                )
                self._lines = Lines(pool)
            return self._lines

    def _take_name(self) -> tuple[str, Connection]:
        """Returns a new name and the connection that is alive as long as it is.

        Always a new one: the server may believe for a while that a connection which holds the
        old one is still there.
        """
        query = "SELECT pg_try_advisory_lock(%s)"
        with ExitStack() as on_failure:
            keeper = on_failure.enter_context(closing(self._connect()))
            while True:
                name = self._ids.writer()
                if keeper.execute(query, (_lock_key(name),)).fetchone() == (True,):
                    on_failure.pop_all()
                    return name, keeper

    def _connect(self) -> Connection:
        return psycopg.connect(self._conninfo, autocommit=True)

    def _check_open(self) -> None:
        if self._is_closed:
            raise Unavailable("the catalog is closed")

    def _migrate(self, step: Step) -> None:
        with psycopg.connect(self._conninfo) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_OPEN_LOCK,))
            applied = _applied(connection)
            missing = missing_migrations("postgres", applied=applied)
            if applied and missing:
                # Whoever writes has looked at them: those that do are waited for, and who comes
                # next sees what we are about to add.
                connection.execute("LOCK TABLE migrations IN ACCESS EXCLUSIVE MODE")
            apply(missing, partial(_run, connection), step=step)


def load_catalog(url: str, path: str, *, migrations: int) -> None:
    """Makes a catalog of rows that `dump` wrote, in a database that has none.

    Raises `PathExists` if it has one.
    """
    check_format("the backup's catalog", found=migrations)
    with translated(), psycopg.connect(_conninfo(url)) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_OPEN_LOCK,))
        _check_empty(connection)
        load_rows(connection, path, load_tables_of(migrations, "postgres"))


def check_no_catalog(url: str) -> None:
    """Raises `PathExists` if there is a catalog in a database already."""
    with translated(), psycopg.connect(_conninfo(url)) as connection:
        _check_empty(connection)


def drop_catalog(url: str) -> None:
    """Takes back what `load_catalog` has just made."""
    with translated(), psycopg.connect(_conninfo(url)) as connection:
        drop_rows(connection)


def _check_empty(connection: Connection) -> None:
    found = connection.execute("SELECT to_regnamespace('holdfast') IS NOT NULL").fetchone()
    if found is not None and found[0]:
        there = PathExists(b"the schema holdfast of the database")
        raise there.with_hint("Name a database that holds none.")


_inherited: Final[list[object]] = []
"""Connections of a parent process: kept, so that the garbage collector never closes them."""


def _answers(connection: Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.Error:
        connection.close()
        return False
    return True


def _conninfo(url: str) -> str:
    with translated():
        given = conninfo_to_dict(url)
    options = f"{given.pop('options', None) or ''} {_SESSION}".strip()
    # As we send it, whatever the database or the environment takes for usual.
    fixed = {"options": options, "client_encoding": "UTF8"}
    return make_conninfo("", **{**_DEFAULTS, **given, **fixed})


def _run(connection: Connection, query: str, values: Sequence[Any]) -> Sequence[Row]:
    # From our own files; LiteralString cannot say so.
    query = cast("LiteralString", query.replace("?", "%s"))
    cursor = connection.execute(query, values or None, binary=True)
    return cursor.fetchall() if cursor.description else []


def _applied(connection: Connection) -> list[tuple[int, str]]:
    found = connection.execute("SELECT to_regclass('migrations') IS NOT NULL").fetchone()
    if found is None or not found[0]:
        return []
    return [(row[0], row[1]) for row in connection.execute("SELECT number, name FROM migrations")]


def _lock_key(name: str) -> int:
    """Returns the signed 64-bit number that stands for a lock's name."""
    return int.from_bytes(object_id_of(name.encode())[:8], "big", signed=True)
