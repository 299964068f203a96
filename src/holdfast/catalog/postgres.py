"""The catalog in PostgreSQL: for more than one server.

All tables are in a schema of their own, `holdfast`, so that the database may be one that others
use too. Every transaction takes one connection of so many and never asks for a second, so that
callers wait for one and cannot lock up; tenants share them (`turns`). Locks between servers
are rows (`postgres_leases`). Nothing is said to a connection that outlives a transaction, so that
a pooler may give each transaction another one. Commits rely on the server's `synchronous_commit`,
which is on by default.
"""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, suppress
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any, Final, LiteralString, cast

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast import fetching
from holdfast.catalog import postgres_integrity
from holdfast.catalog.forking import tell_of_forks
from holdfast.catalog.postgres_driver import translated
from holdfast.catalog.postgres_leases import SILENT_S, TERM_S, Lease, Leases
from holdfast.catalog.postgres_lines import Lines
from holdfast.catalog.postgres_reach import Connection, Reach
from holdfast.catalog.postgres_talk import READING, WRITING
from holdfast.catalog.postgres_transaction import Conversation
from holdfast.catalog.postgres_unfinished import check_finished
from holdfast.catalog.queries import TIMELINE, load_queries
from holdfast.catalog.rows import Row
from holdfast.catalog.tables import (
    Step,
    apply,
    check_applied,
    missing_migrations,
    no_step,
)
from holdfast.catalog.transaction import Transaction
from holdfast.catalog.turns import Slots
from holdfast.errors import Incompatible, InvalidValue, Unavailable
from holdfast.ids import IdMaker
from holdfast.instruments import SPANS
from holdfast.model.upkeep import Load, Loss, Unfinished

_OUR_TABLES: Final = (
    "SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast' ORDER BY tablename"
)

_SILENT_US: Final = int(SILENT_S * 1_000_000)
_CLOSING_S: Final = 1.0

_OPEN_LOCK: Final = 743300001
"""Taken while tables are made, so that two first openers do not both make them."""

_IN_TURN: Final = sql.SQL("SET LOCAL lock_timeout = '1s'; SELECT pg_advisory_xact_lock({})").format(
    _OPEN_LOCK
)
"""Who waits for it lets go of its connection now and then: where a pooler has few of them, and they
are all with those who wait, whoever has the lock would never get the other that it asks for."""

_AT_OUR_TABLES: Final = "SET LOCAL search_path = holdfast; SET LOCAL lock_timeout TO DEFAULT"

_IN_TIME: Final = "SET LOCAL lock_timeout = '10s'"
"""How long a change of tables waits for each of those who use them, before it is given up."""

_DEFAULTS: Final = {
    "application_name": "holdfast",
    # Of each host that the URL names.
    "connect_timeout": "3",
    "keepalives_count": "3",
}
"""What a URL that says nothing else gets."""

_WAIT_S: Final = 30.0
_LEAST_SILENT_S: Final = 3
"""A packet that is lost is sent again four times by then."""

_SESSION: Final = (
    # Of a transaction that no statement begins: see `postgres_talk.py`.
    r"-c default_transaction_isolation=read\ committed"
    # The server, too, notices within half a minute that we vanished, and frees our locks: also if
    # it has sent something, which is all that it waits for then.
    " -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
    " -c tcp_user_timeout=15000"
)
"""What a connection of ours is asked for. A pooler has its own, and refuses to be asked."""

_READ_COMMITTED: Final = "read committed"


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
        wait_s: float = _WAIT_S,
        prepares: bool = True,
        term_s: float = TERM_S,
        unfinished: Unfinished | None = None,
        step: Step = no_step,
    ) -> None:
        """Opens the catalog; a transaction waits `wait_s` for a connection, then gives up.

        Statements that are said again are prepared, unless `prepares` is False. A lock lasts for
        `term_s` beyond a holder that is not heard of. Who brings a backup back says so with
        `unfinished`; everybody else gets `VaultUnfinished` meanwhile.
        """
        ids = ids or IdMaker()
        self._wait_s, self._prepares = wait_s, prepares
        self._unfinished = unfinished
        self._slots = Slots(max_connections, wait_s=wait_s)
        self._guard = threading.Lock()
        self._lines: Lines | None = None
        self._is_closed = False
        with translated():
            self._conninfo = self._migrate(url, step)
        tell_of_forks(self)
        # A connection of their own: a lock is kept, however busy the others are.
        own = Slots(1, wait_s=wait_s)
        write = partial(self._transaction, WRITING, slots=own)
        self._leases = Leases(write, ids.writer, term_s=term_s)

    @property
    def writer(self) -> str:
        """Returns this opener's name and makes sure that others can see it is alive."""
        self._check_open()
        return self._leases.writer()

    def read(self) -> AbstractContextManager[Transaction]:
        """Opens a transaction that sees one moment."""
        return SPANS.around("catalog.read", self._transaction(READING))

    def ask(self) -> AbstractContextManager[Transaction]:
        """Opens what reads with a single question."""
        return SPANS.around("catalog.ask", self._transaction(None))

    def write(self) -> AbstractContextManager[Transaction]:
        """Opens a transaction that happens wholly or not at all."""
        fetching.write()
        return SPANS.around("catalog.write", self._transaction(WRITING))

    def is_alive(self, writer: str) -> bool:
        """Says whether a writer was heard of lately."""
        with self.ask() as transaction:
            return transaction.is_writer_seen(writer, silent_us=_SILENT_US)

    def lock(self, name: str) -> AbstractContextManager[Lease]:
        """Holds a lock between all users of this catalog."""
        self._check_open()
        return self._leases.lock(name)

    def free_bytes(self) -> int | None:
        """Returns None: the server's disk is not ours to look at."""
        return None

    def reclaim(self) -> None:
        """Forgets writers that died; the rest is left to autovacuum, which does it by itself."""
        with self.write() as transaction:
            transaction.purge_writers(silent_us=_SILENT_US)

    def tend_log(self) -> None:
        """Leaves it to the server, which does this by itself."""
        self._check_open()

    def load(self) -> Load:
        """Returns how many connections are in use, and who waits for one."""
        return self._slots.load()

    def scrub(self) -> None:
        """Makes every table anew of the rows that are there; the server's log is not ours."""
        self._check_open()
        with translated(), closing(self._connect()) as connection:
            names = connection.execute(_OUR_TABLES).fetchall()
            for (name,) in names:
                table = sql.Identifier("holdfast", name)
                connection.execute(sql.SQL("VACUUM (FULL) {}").format(table))
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
            if self._lines is not None:
                # Whoever closes does not wait for a database that is away.
                self._lines.timeout = min(self._lines.timeout, _CLOSING_S)
        self._leases.close()
        with self._guard:
            self._is_closed = True
            lines, self._lines = self._lines, None
        if lines is not None:
            lines.close()

    def before_fork(self) -> None:
        """Keeps everything as it is while the process is copied."""
        self._guard.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        """Gives up, in a child, the connections that are its parent's conversation."""
        if in_child:
            _inherited.append(self._lines)
            self._lines = None
        self._guard.release()

    def _transaction(
        self, begin: LiteralString | None, *, slots: Slots | None = None
    ) -> Conversation:
        return Conversation(
            slots or self._slots,
            self._get_lines,
            self._queries,
            begin,
            check_format=self._check_format,
        )

    def _check_format(self) -> None:
        """Raises `VaultTooNew` if a newer version has changed the tables.

        And `VaultUnfinished` if they are gone, and a backup is being brought back in their place.
        """
        with suppress(psycopg.Error), closing(self._connect()) as connection:
            check_finished(connection, self._unfinished)
            if applied := _applied(connection):
                check_applied(applied)

    def _get_lines(self) -> Lines:
        with self._guard:
            self._check_open()
            if self._lines is None:
                self._lines = Lines(
                    Reach(self._conninfo),
                    timeout=self._wait_s,
                    prepares=self._prepares,
                    begins=self._begins,
                )
            return self._lines

    def _connect(self) -> Connection:
        return psycopg.connect(self._conninfo, autocommit=True)

    def _check_open(self) -> None:
        if self._is_closed:
            raise Unavailable("the catalog is closed")

    def _migrate(self, url: str, step: Step) -> str:
        """Brings the tables up to date; returns how the database is connected to from now on."""
        connection, conninfo, is_pooled = connect_first(url, wait_s=self._wait_s)
        # Another server may be behind it each time, which knows nothing of what was prepared.
        self._prepares = self._prepares and not is_pooled
        with connection:
            lock_opening(connection)
            _check_opening_lock(conninfo)
            check_finished(connection, self._unfinished)
            applied = _applied(connection)
            missing = missing_migrations("postgres", applied=applied)
            if applied and missing:
                # Whoever writes has looked at them: those that do are waited for, and who comes
                # next sees what we are about to add.
                # Not for ever: all who come meanwhile wait behind us.
                connection.execute(_IN_TIME)
                connection.execute("LOCK TABLE holdfast.migrations IN ACCESS EXCLUSIVE MODE")
            apply(missing, partial(_run, connection), step=step)
            found = connection.execute("SHOW default_transaction_isolation").fetchone()
            self._begins = found != (_READ_COMMITTED,)
            connection.commit()
            connection.autocommit = True
            self._queries = load_queries("postgres", tells_timeline=_tells_timeline(connection))
        return conninfo


def connect_first(url: str, *, wait_s: float = _WAIT_S) -> tuple[Connection, str, bool]:
    """Returns a connection, what the next ones are made with, and whether a pooler is between."""
    conninfo = _conninfo(url, wait_s=wait_s)
    try:
        return psycopg.connect(conninfo), conninfo, False
    except psycopg.OperationalError as exc:
        if "unsupported startup parameter" not in str(exc):
            raise
    # It takes no wishes.
    conninfo = _conninfo(url, wait_s=wait_s, session="")
    return psycopg.connect(conninfo), conninfo, True


def _tells_timeline(connection: Connection) -> bool:
    """Says whether a database says on which timeline it is: not all that are managed do."""
    try:
        connection.execute(f"SELECT {TIMELINE}")
    except psycopg.Error:
        if connection.broken:
            raise
        return False
    return True


def lock_opening(connection: Connection) -> None:
    """Has everybody else wait who opens the catalog, and names lead to our tables.

    To be said first of all: what was said before would be undone by waiting.
    """
    while True:
        try:
            connection.execute(_IN_TURN)
            break
        except psycopg.errors.LockNotAvailable:
            connection.rollback()
    connection.execute(_AT_OUR_TABLES)


def check_lock(other: Connection, lock: int) -> None:
    """Raises if a lock that one connection of ours holds can be had by another, too.

    There are databases that speak as PostgreSQL does, and answer that a lock is held that they do
    not know. Then a collection would not wait for writers.
    """
    query = "SELECT pg_try_advisory_xact_lock(%s)"
    if other.execute(query, (lock,)).fetchone() != (False,):
        unfit = Incompatible("the database gives one lock to two: it is no PostgreSQL")
        raise unfit.with_hint("Name a PostgreSQL: what only speaks like it cannot be used.")


@lru_cache(maxsize=64)
def _check_opening_lock(conninfo: str) -> None:
    """Looks once, in a process, at what a database does with a lock that somebody opening holds."""
    with psycopg.connect(conninfo) as other:
        check_lock(other, _OPEN_LOCK)


def find_applied(url: str) -> list[tuple[int, str]]:
    """Returns the migrations that a database has seen, none if it has no catalog."""
    with translated(), connect_first(url)[0] as connection:
        check_finished(connection)
        return _applied(connection)


_inherited: Final[list[object]] = []
"""Connections of a parent process: kept, so that the garbage collector never closes them."""


_ADDRESS: Final = (
    "It is postgresql://USER:PASSWORD@HOST/NAME; what is no letter or digit in one of these is "
    "written as % and two digits."
)


def _conninfo(url: str, *, wait_s: float, session: str = _SESSION) -> str:
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # Not what the driver says, which quotes the password.
        message = "the address of the database cannot be read"
        raise InvalidValue(message).with_hint(_ADDRESS) from None
    # A server that vanished without a word is noticed in time to look for it again: in three
    # fifths of what a transaction waits for a connection.
    silent_s = max(_LEAST_SILENT_S, int(wait_s * 3 / 5))
    noticed = {
        "keepalives_idle": silent_s // 3,
        "keepalives_interval": max(1, silent_s // 6),
        "tcp_user_timeout": silent_s * 1000,
    }
    # As we send it, whatever the database or the environment takes for usual.
    fixed = {"client_encoding": "UTF8"}
    if options := f"{given.pop('options', None) or ''} {session}".strip():
        fixed["options"] = options
    return make_conninfo("", **{**_DEFAULTS, **noticed, **given, **fixed})


def _run(connection: Connection, query: str, values: Sequence[Any]) -> Sequence[Row]:
    # From our own files; LiteralString cannot say so.
    query = cast("LiteralString", query.replace("?", "%s"))
    cursor = connection.execute(query, values or None, binary=True)
    return cursor.fetchall() if cursor.description else []


def _applied(connection: Connection) -> list[tuple[int, str]]:
    found = connection.execute("SELECT to_regclass('holdfast.migrations') IS NOT NULL").fetchone()
    if found is None or not found[0]:
        return []
    query = "SELECT number, name FROM holdfast.migrations"
    return [(row[0], row[1]) for row in connection.execute(query)]
