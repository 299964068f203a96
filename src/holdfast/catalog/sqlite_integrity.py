"""Whether the rows and indexes of a SQLite file agree, and how they are made to again.

What a user asks for by its id is found through an index; what `verify` walks through, mostly past
it. A flipped bit in an index therefore hides what is there. SQLite itself compares the two.
"""

import sqlite3
from typing import Final

MOST: Final = 100
"""Faults that are named: beyond that, nobody asks which."""

_TABLES: Final = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    " AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
)
_INDEXES: Final = "SELECT name FROM sqlite_master WHERE type = 'index' ORDER BY name"


def find_faults(connection: sqlite3.Connection, table: str | None = None) -> list[str]:
    """Returns what SQLite says that does not agree, in all of the file or in one table."""
    asked = f"PRAGMA integrity_check({MOST if table is None else table})"
    try:
        found = [str(line) for (line,) in connection.execute(asked)]
    except sqlite3.DatabaseError as exc:
        return [f"it cannot be checked: {exc}"]
    lines = [line.strip() for each in found for line in each.splitlines()]
    return [line for line in lines if line not in ("ok", "*** in database main ***")]


def rebuild(connection: sqlite3.Connection) -> int:
    """Makes indexes anew of the rows, and tables whose rows are out of order.

    Returns how many rows are lost by that: those that say to be the same as another one.
    """
    # Refers to rows that are put back in the same transaction.
    connection.execute("PRAGMA foreign_keys=OFF")
    try:
        for (name,) in connection.execute(_INDEXES).fetchall():
            _reindex(connection, name)
        tables = [name for (name,) in connection.execute(_TABLES).fetchall()]
        return sum(_copy(connection, name) for name in tables if find_faults(connection, name))
    finally:
        connection.execute("PRAGMA foreign_keys=ON")


def _reindex(connection: sqlite3.Connection, name: str) -> None:
    try:
        connection.execute(f'REINDEX "{name}"')
    except sqlite3.DatabaseError:
        # Two rows with one key, or a table that cannot be read: whoever asks is told.
        connection.rollback()


def _copy(connection: sqlite3.Connection, table: str) -> int:
    """Writes a table anew, of the rows that are found by walking through it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(f'CREATE TEMP TABLE walked AS SELECT * FROM main."{table}"')  # noqa: S608 - our own names
        # Without a condition: nothing is looked for, all pages go.
        connection.execute(f'DELETE FROM main."{table}"')  # noqa: S608 - the same
        put = f'INSERT OR IGNORE INTO main."{table}" SELECT * FROM walked'  # noqa: S608 - the same
        written = connection.execute(put).rowcount
        count = connection.execute("SELECT COUNT(*) FROM walked").fetchone()[0]
        connection.execute("DROP TABLE walked")
        connection.execute("COMMIT")
    except sqlite3.DatabaseError:
        connection.rollback()  # As it was: it is named.
        return 0
    return count - written
