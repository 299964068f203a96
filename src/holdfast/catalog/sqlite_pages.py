"""The pages of a SQLite file that hold nothing: whether there are any, and how they are given back.

Whoever gives some back holds the one lock that all writers wait for, and syncs the file. So it is
asked first, without that lock, whether there is anything to give.
"""

import sqlite3
from pathlib import Path
from typing import Final

from holdfast.errors import Busy

PAGES_PER_TURN: Final = 1000
"""Pages freed before others may write: 4 MB, 30 ms. All in one turn would also need as much
room again for the log."""

_SPARE: Final = (
    "SELECT freelist_count, page_count * page_size"
    " FROM pragma_freelist_count, pragma_page_count, pragma_page_size"
)


def has_spare(connection: sqlite3.Connection, path: Path) -> bool:
    """Says whether the file could be shorter: by what is free, or by what was freed already."""
    free, needed_bytes = connection.execute(_SPARE).fetchone()
    return free > 0 or path.stat().st_size > needed_bytes


def free_some(connection: sqlite3.Connection) -> int:
    """Frees pages for one turn; returns how many are left."""
    # A script: the pragma frees one page per step and returns no row, and `execute` would take
    # one step only.
    connection.executescript(f"PRAGMA incremental_vacuum({PAGES_PER_TURN})")
    return connection.execute("PRAGMA freelist_count").fetchone()[0]


def shorten(connection: sqlite3.Connection, *, busy_timeout_s: float) -> None:
    """Copies the log into the file, which becomes shorter with that.

    A reader that still needs the log is not waited for: another checkpoint will come.
    """
    connection.execute("PRAGMA busy_timeout=0")
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout={busy_timeout_s * 1000:.0f}")


def scrub(connection: sqlite3.Connection) -> None:
    """Leaves nothing of rows that are gone; raises `Busy` if the log could not be emptied.

    The index of words keeps those of deleted rows until its parts are merged. The file is made
    anew, so that neither free pages nor the free room in others hold anything.
    """
    connection.execute("INSERT INTO memory_index (memory_index) VALUES ('optimize')")
    connection.execute("VACUUM")
    is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise Busy("somebody reads from the catalog's log, which cannot be emptied")
