"""Makes a catalog in PostgreSQL of the rows of a backup, which nobody opens before it is whole.

1. `reserved` keeps everybody else out who brings a backup back into the same database.
2. `begin` marks the schema (`postgres_unfinished`), and drops what one that was killed has left.
3. `load_catalog` puts the rows there, under the mark, in one transaction.
4. `finish` takes the mark away. Until then `give_up` drops all of it.

Each of these looks first whether the mark is its own: who was cut off from the database for so long
that another began meanwhile changes nothing of theirs.
"""

from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from typing import BinaryIO, Final, LiteralString, cast

import psycopg

from holdfast.catalog.postgres import check_lock, connect_first, lock_opening
from holdfast.catalog.postgres_driver import translated
from holdfast.catalog.postgres_dump import load_rows
from holdfast.catalog.postgres_reach import Connection
from holdfast.catalog.postgres_unfinished import find_unfinished, mark_unfinished, unmark
from holdfast.catalog.queries import in_schema
from holdfast.catalog.tables import check_format, load_tables_of
from holdfast.errors import Busy, PathExists
from holdfast.instants import to_us
from holdfast.model.upkeep import Unfinished

_LOCK: Final = 743300002
"""Held by whoever brings a backup back; the server lets go of it with the connection."""

_IN_TIME: Final = "SET LOCAL lock_timeout = '2s'"
"""A server takes a moment to see that whoever had it has closed the connection, or was killed."""

_WITHOUT_END: Final = """
SELECT set_config(name, '0', true) FROM pg_settings
WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')
"""
"""The lock is held by a transaction, so that a pooler leaves it its connection."""

_DROP: Final = "DROP SCHEMA IF EXISTS holdfast CASCADE"


@contextmanager
def reserved(url: str) -> Generator[Unfinished | None]:
    """Keeps others out who bring a backup back there; lends what one that was killed has left.

    Raises `Busy` while another is at it, `PathExists` if the database has a catalog, and
    `Incompatible` if it keeps nobody out.
    """
    with translated():
        connection = connect_first(url)[0]
    with closing(connection):
        with translated():
            _lock(connection)
            connection.execute(_WITHOUT_END)
            # By another: this one would keep a lock on what it has looked at, too.
            with connect_first(url)[0] as other:
                check_lock(other, _LOCK)
                left = _find_left(other)
        yield left


def begin(url: str, ours: Unfinished) -> None:
    """Marks a database in which there is no catalog, and drops what was marked before.

    Raises `PathExists` if somebody has made a catalog there meanwhile.
    """
    with translated(), connect_first(url)[0] as connection:
        lock_opening(connection)
        _find_left(connection)
        connection.execute(_DROP)
        connection.execute("CREATE SCHEMA holdfast")
        mark_unfinished(connection, ours)


def load_catalog(
    url: str,
    rows: BinaryIO,
    ours: Unfinished,
    *,
    migrations: int,
    chores: Mapping[str, datetime],
) -> None:
    """Makes a catalog of rows that `dump` wrote, marked as it was, and notes what is new of it."""
    check_format("the backup's catalog", found=migrations)
    with translated(), connect_first(url)[0] as connection:
        lock_opening(connection)
        _check_ours(connection, ours)
        connection.execute(_DROP)
        load_rows(connection, rows, load_tables_of(migrations, "postgres"))
        query = in_schema(
            "INSERT INTO chores (name, done_at) VALUES (%s, %s) "
            "ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at"
        )
        for name, done_at in chores.items():
            # From above; LiteralString cannot say so.
            connection.execute(cast("LiteralString", query), (name, to_us(done_at)))
        mark_unfinished(connection, ours)


def finish(url: str, ours: Unfinished) -> None:
    """Takes the mark away: from now on there is a vault."""
    with translated(), connect_first(url)[0] as connection:
        lock_opening(connection)
        _check_ours(connection, ours)
        unmark(connection)


def give_up(url: str, ours: Unfinished) -> bool:
    """Drops what was begun; says whether it did: what is finished, or another's, stays."""
    with translated(), connect_first(url)[0] as connection:
        lock_opening(connection)
        is_ours = find_unfinished(connection) == ours
        if is_ours:
            connection.execute(_DROP)
        return is_ours


def _lock(connection: Connection) -> None:
    connection.execute(_IN_TIME)
    try:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    except psycopg.errors.LockNotAvailable as exc:
        busy = Busy("another backup is being brought back into the database")
        raise busy.with_hint(
            "Wait until it has ended; if it was killed, its connection goes within half a minute."
        ) from exc


def _find_left(connection: Connection) -> Unfinished | None:
    """Returns what one that was killed has left; raises `PathExists` if a catalog is there."""
    left = find_unfinished(connection)
    found = connection.execute("SELECT to_regnamespace('holdfast') IS NOT NULL").fetchone()
    if left is None and found == (True,):
        there = PathExists(b"the schema holdfast of the database", what="already a catalog")
        raise there.with_hint("Name a database that holds none.")
    return left


def _check_ours(connection: Connection, ours: Unfinished) -> None:
    if find_unfinished(connection) != ours:
        raise Busy("another backup is being brought back into the database since")
