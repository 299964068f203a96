"""How many commits a SQLite catalog has: what the mark outside of it is compared with.

Each commit that changes something counts one up. A namespace's row that it changes anyway holds the
count of its last change, so that no page is written for it; where there is none, the header of the
file does (`user_version`). The highest of all is the count of the catalog.

Who made the last commit knows it, and SQLite says whether somebody else has made one since. Who
did not, finds it by the mark, which says where it stands; if that is not so, if the mark is older
than what was found when the catalog was opened, or if a writer died with a commit under way, all
rows are asked.
"""

import sqlite3
from typing import Final

from holdfast.catalog.sqlite_connections import Connection
from holdfast.catalog.watermark import Watermark
from holdfast.errors import CatalogReplaced

HEADER: Final = 0
"""Where a count stands that no namespace's row has: none has this id."""

_HAS_COUNTS: Final = "SELECT 1 FROM pragma_table_info('namespaces') WHERE name = 'commits'"
_WRAP: Final = 1 << 32
"""The header has 32 bits, the first of them a sign."""


def find_last(connection: Connection, watermark: Watermark) -> int:
    """Returns how far the catalog has come, in a transaction that has changed nothing yet.

    Later may be too late: the row that has the count may be one that is deleted.
    """
    last = watermark.find_last()
    if last is None or watermark.is_behind(last[0]) or not _stands(connection, *last):
        return count_of(connection)
    return last[0]


def count_up(connection: Connection, watermark: Watermark, head: int | None) -> int:
    """Counts one up, in a transaction that changes something; returns where the count stands.

    `head` is the id of a namespace in whose row it stands already. Raises `CatalogReplaced` if the
    catalog has come less far than this process knows.
    """
    if watermark.is_behind(connection.count):
        raise CatalogReplaced("the catalog", how="was set back")
    count = connection.count + 1
    if head is None:
        connection.execute(f"PRAGMA user_version={_signed(count)}")
    watermark.begin(count)
    return HEADER if head is None else head


def count_at_once(connection: sqlite3.Connection) -> int:
    """Returns the count of a catalog outside of a transaction: of one moment all the same."""
    connection.execute("BEGIN")
    try:
        return count_of(connection)
    finally:
        connection.rollback()


def count_of(connection: sqlite3.Connection) -> int:
    """Returns the count of a catalog: the highest that stands anywhere in it."""
    (header,) = connection.execute("PRAGMA user_version").fetchone()
    highest = None
    if connection.execute(_HAS_COUNTS).fetchone() is not None:
        (highest,) = connection.execute("SELECT MAX(commits) FROM namespaces").fetchone()
    # Its lowest bits: the highest count before it is at most so much away.
    return (highest or 0) + max(_signed(header - (highest or 0)), 0)


def _stands(connection: Connection, count: int, place: int) -> bool:
    """Says whether a count stands where the mark says."""
    if place == HEADER:
        return connection.execute("PRAGMA user_version").fetchone()[0] == _signed(count)
    query = "SELECT 1 FROM namespaces WHERE id = ? AND commits = ?"
    return connection.execute(query, (place, count)).fetchone() is not None


def _signed(count: int) -> int:
    """Returns a count as the header has it."""
    return (count + _WRAP // 2) % _WRAP - _WRAP // 2
