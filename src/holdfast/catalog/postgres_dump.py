r"""All rows of a PostgreSQL catalog as a file, and back: nothing but the driver is needed for it.

The file has a part for each table, those that others refer to first: a line of JSON with the
table's name and columns, the rows as `COPY` writes them as text, and a line `\.`. The last line
says how far the numbers are that the database itself gives out: none is given twice.
"""

import json
import os
from collections.abc import Callable, Iterable
from graphlib import TopologicalSorter
from typing import Annotated, Any, BinaryIO, Final, LiteralString, cast

import msgspec
import psycopg
from psycopg import sql

from holdfast.catalog.postgres_talk import Talk
from holdfast.catalog.tables import Migration
from holdfast.errors import BackupDamaged
from holdfast.ownfiles import create

_END: Final = b"\\.\n"
_PIECE: Final = 1 << 20

_TABLES: Final = """
SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind = 'r'
  AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
GROUP BY c.relname ORDER BY c.relname
"""

_REFERENCES: Final = """
SELECT f.conrelid::regclass::text, f.confrelid::regclass::text FROM pg_constraint f
WHERE f.connamespace = 'holdfast'::regnamespace AND f.contype = 'f'
  AND f.conrelid <> f.confrelid
"""

_NUMBERS: Final = """
SELECT sequencename, last_value FROM pg_sequences
WHERE schemaname = 'holdfast' AND last_value IS NOT NULL ORDER BY sequencename
"""


_OF_NOW: Final = frozenset({"first_keys", "leases", "rates", "writers"})
"""Who holds what, who is there, and what somebody is yet to be told: nothing to bring back."""

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=63, pattern="^[a-z0-9_]+$")]
"""What we call tables and columns, within what PostgreSQL has room for."""


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    """The line before the rows of a table, or the last one, with `numbers`."""

    table: _Name = "none"
    columns: list[_Name] = []
    numbers: dict[_Name, Annotated[int, msgspec.Meta(ge=1, le=2**62)]] | None = None


def dump_rows(talk: Talk, path: str, opened: Callable[[], None]) -> None:
    """Writes all rows that a transaction sees to a file; `opened` is called before the first."""
    columns = dict(talk.ask(_TABLES).fetchall())
    order = TopologicalSorter[str](dict.fromkeys(columns, ()))
    for table, other in talk.ask(_REFERENCES).fetchall():
        order.add(_plain(table), _plain(other))
    numbers = dict(talk.ask(_NUMBERS).fetchall())
    with create(path) as file:
        opened()
        for table in order.static_order():
            if table in _OF_NOW:
                continue
            names = columns[table]
            file.write(_line({"table": table, "columns": names}))
            file.writelines(talk.copy_out(_copy(table, names, "TO STDOUT")))
            file.write(_END)
        file.write(_line({"numbers": numbers}))
        file.flush()
        os.fsync(file.fileno())


def load_rows(
    connection: "psycopg.Connection[tuple[Any, ...]]",
    file: BinaryIO,
    migrations: Iterable[Migration],
) -> None:
    """Makes the tables that the rows were in, and puts them there. Whoever calls commits."""
    for migration in migrations:
        for statement in migration.statements:
            # From our own files; LiteralString cannot say so.
            connection.execute(cast("LiteralString", statement))
    try:
        _load(connection, file)
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError) as exc:
        raise BackupDamaged("the catalog", reason=f"its rows do not fit: {exc}") from exc


def _load(connection: "psycopg.Connection[tuple[Any, ...]]", file: BinaryIO) -> None:
    while True:
        head = _read_head(file)
        if head.numbers is not None:
            break
        _load_table(connection, file, head)
    for name, last in head.numbers.items():
        query = "SELECT setval(format('holdfast.%%I', %s::text)::regclass, %s)"
        connection.execute(query, (name, last))


def _load_table(
    connection: "psycopg.Connection[tuple[Any, ...]]", file: BinaryIO, head: _Head
) -> None:
    query = _copy(head.table, head.columns, "FROM STDIN")
    with connection.cursor() as cursor, cursor.copy(query) as copying:
        lines, size = list[bytes](), 0
        for line in file:
            if line == _END:
                copying.write(b"".join(lines))
                return
            lines.append(line)
            size += len(line)
            if size > _PIECE:
                copying.write(b"".join(lines))
                lines, size = [], 0
        raise BackupDamaged("the catalog", reason="it ends inside of a table")


def _read_head(file: BinaryIO) -> _Head:
    try:
        return msgspec.json.decode(file.readline(), type=_Head)
    except (ValueError, RecursionError) as exc:
        raise BackupDamaged("the catalog", reason="it holds something else than rows") from exc


def _copy(table: str, columns: Iterable[str], where: LiteralString) -> sql.Composed:
    return sql.SQL("COPY {} ({}) " + where).format(
        sql.Identifier("holdfast", table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )


def _line(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode() + b"\n"


def _plain(name: str) -> str:
    """Returns a table's name without its schema, and without quotes."""
    return name.rpartition(".")[2].strip('"')
