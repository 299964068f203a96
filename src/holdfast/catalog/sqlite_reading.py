"""How a catalog is read that cannot be written: on a disk that is read-only, or has no byte left.

SQLite wants to make a log and its index beside the file even to read it. Measured with 3.40:

| What lies there | on a read-only disk | on a full one |
|---|---|---|
| the file alone, as after a clean close | `immutable`: nobody can change it | a copy |
| with a log and its index, as after a kill | `mode=ro` | as always: their room is taken |
| with a log, and no index | a copy | a copy |

A copy is private and lies in memory where the system has a place for that. It is made while the
writers' lock is held, so it is of one moment.

Whether the rows and indexes of a SQLite file agree, and how they are made to again.

What a user asks for by its id is found through an index; what `verify` walks through, mostly past
it. A flipped bit in an index therefore hides what is there. SQLite itself compares the two.

The pages of a SQLite file that hold nothing: whether there are any, and how they are given back.

Whoever gives some back holds the one lock that all writers wait for, and syncs the file. So it is
asked first, without that lock, whether there is anything to give.
"""

import os
import shutil
import sqlite3
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from holdfast.catalog.sqlite_connections import SqliteConnections
from holdfast.errors import Busy, HoldfastError, StorageReadOnly

_MEMORY: Final = "/dev/shm"  # noqa: S108 - a folder of our own, 0700, is made in it
RESERVE_BYTES: Final = 1 << 20
"""Room that is kept aside for a collection on a full disk. It has to hold the log of one of its
transactions: of a thousand rows that lie far apart, each with a page of 4 KB, a quarter fit."""


def connections_without_writing(
    path: Path, why: HoldfastError, *, cleanup: ExitStack
) -> SqliteConnections:
    """Returns connections to a catalog that cannot be written to, for the reason `why`."""
    log, index = (path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))
    has_log = log.exists() and log.stat().st_size > 0
    if isinstance(why, StorageReadOnly) and not has_log:
        return SqliteConnections(path, only=why, how="mode=ro&immutable=1")
    if isinstance(why, StorageReadOnly) and index.exists():
        return SqliteConnections(path, only=why, how="mode=ro")
    try:
        folder = Path(tempfile.mkdtemp(prefix="holdfast-", dir=_place()))
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        for each in (path, log) if has_log else (path,):
            shutil.copyfile(each, folder / each.name)
    except OSError as exc:
        message = f"{why}; and there is no room for a copy to read from: {exc.strerror or exc}"
        raise type(why)(message) from exc
    return SqliteConnections(folder / path.name, only=why)


class Reserve:
    """Room that is kept aside in the vault, to be given up when nothing else is left."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "reserve"

    def keep(self, *, free_bytes: int | None) -> None:
        """Takes the room, if it is not taken, and there is plenty."""
        if self._is_kept() or free_bytes is None or free_bytes < 4 * RESERVE_BYTES:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(self._path, flags, 0o600)
        except OSError:
            return  # It is thrift, not a promise.
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(fd, 0, RESERVE_BYTES)
            else:
                os.pwrite(fd, bytes(RESERVE_BYTES), 0)
        except OSError:
            self.give_up()
        finally:
            os.close(fd)

    def _is_kept(self) -> bool:
        """Says whether all of the room is taken: who was killed while taking it had some."""
        try:
            return self._path.lstat().st_size >= RESERVE_BYTES
        except OSError:
            return False

    def give_up(self) -> bool:
        """Gives the room back to the disk; says whether there was any."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True


def _place() -> str | None:
    return _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else None


MOST: Final = 100
"""Faults that are named: beyond that, nobody asks which."""

_TABLES: Final = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    " AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
)
_INDEXES: Final = "SELECT name FROM sqlite_master WHERE type = 'index' ORDER BY name"

_NOTHING: Final = {"INTEGER": "0", "TEXT": "''", "BLOB": "x''"}
"""What stands where there has to be something, by the kind of a column."""


def find_faults(connection: sqlite3.Connection, table: str | None = None) -> list[str]:
    """Returns what SQLite says that does not agree, in all of the file or in one table."""
    asked = f"PRAGMA integrity_check({MOST if table is None else table})"
    try:
        found = [str(line) for (line,) in connection.execute(asked)]
    except sqlite3.DatabaseError as exc:
        return [f"it cannot be checked: {exc}"]
    lines = [line.strip() for each in found for line in each.splitlines()]
    return [line for line in lines if line not in ("ok", "*** in database main ***")]


def rebuild(connection: sqlite3.Connection) -> dict[str, int]:
    """Makes indexes anew of the rows, and tables whose rows are out of order.

    Returns how many rows of which tables are lost by that: those that say to be the same as
    another one.
    """
    # Refers to rows that are put back in the same transaction.
    connection.execute("PRAGMA foreign_keys=OFF")
    try:
        for (name,) in connection.execute(_INDEXES).fetchall():
            _reindex(connection, name)
        tables = [name for (name,) in connection.execute(_TABLES).fetchall()]
        lost = {name: _copy(connection, name) for name in tables if find_faults(connection, name)}
    finally:
        connection.execute("PRAGMA foreign_keys=ON")
    return {name: count for name, count in lost.items() if count}


def _reindex(connection: sqlite3.Connection, name: str) -> None:
    try:
        connection.execute(f'REINDEX "{name}"')
    except sqlite3.DatabaseError:
        # Two rows with one key, or a table that cannot be read: whoever asks is told.
        connection.rollback()


def _copy(connection: sqlite3.Connection, table: str) -> int:
    """Writes a table anew, of the rows that are found by walking through it."""
    # What is found beyond the last row of a page has a key and defaults at the most: it is none.
    kept, columns = _columns_of(connection, table)
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(f'CREATE TEMP TABLE walked AS SELECT * FROM main."{table}" WHERE {kept}')  # noqa: S608 - our own names
        # Without a condition: nothing is looked for, all pages go.
        connection.execute(f'DELETE FROM main."{table}"')  # noqa: S608 - the same
        put = f'INSERT OR IGNORE INTO main."{table}" SELECT {columns} FROM walked'  # noqa: S608 - the same
        written = connection.execute(put).rowcount
        count = connection.execute("SELECT COUNT(*) FROM walked").fetchone()[0]
        connection.execute("DROP TABLE walked")
        connection.execute("COMMIT")
    except sqlite3.DatabaseError:
        connection.rollback()  # As it was: it is named.
        return 0
    return count - written


def _columns_of(connection: sqlite3.Connection, table: str) -> tuple[str, str]:
    """Returns which rows of a table hold something, and their columns as what they have to be.

    No row is refused for its values: whether they are what was written, its checksum says to
    whoever reads it.
    """
    held, columns = list[str](), list[str]()
    for _, name, kind, is_needed, else_, key in connection.execute(f'PRAGMA table_info("{table}")'):
        value = f'CAST("{name}" AS {kind})' if kind in _NOTHING else f'"{name}"'
        if is_needed and kind in _NOTHING:
            value = f"COALESCE({value}, {_NOTHING[kind]})"
        columns.append(value)
        # Not by IS NOT NULL: of a column that has to hold something, SQLite believes that it does.
        held += [] if key or else_ else [f"""typeof("{name}") <> 'null'"""]
    return " OR ".join(held) or "TRUE", ", ".join(columns)


PAGES_PER_TURN: Final = 1000
"""Pages freed before others may write: 4 MB, 30 ms. All in one turn would also need as much
room again for the log."""

_COPIES_S: Final = 0.02
"""How long to wait before asking again whether somebody copies the log."""

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


def copy_log(connection: sqlite3.Connection) -> int:
    """Copies of the log what nobody needs there any more; returns how many pages it has.

    Who writes meanwhile does not wait for it, nor does it wait for who reads.
    """
    _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return pages


def shorten(connection: sqlite3.Connection, *, busy_timeout_s: float) -> None:
    """Copies the log into the file, which becomes shorter with that.

    A reader that still needs the log is not waited for: another checkpoint will come.
    """
    connection.execute("PRAGMA busy_timeout=0")
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout={busy_timeout_s * 1000:.0f}")


def scrub(connection: sqlite3.Connection, *, busy_timeout_s: float) -> None:
    """Leaves nothing of rows that are gone; raises `Busy` if the log could not be emptied.

    The index of words keeps those of deleted rows until its parts are merged. The file is made
    anew, so that neither free pages nor the free room in others hold anything.
    """
    connection.execute("INSERT INTO memory_index (memory_index) VALUES ('optimize')")
    connection.execute("VACUUM")
    # SQLite waits for who reads, and never for who copies the log at this moment.
    ends_at = time.monotonic() + busy_timeout_s
    while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        if time.monotonic() >= ends_at:
            raise Busy("somebody reads from the catalog's log, which cannot be emptied")
        time.sleep(_COPIES_S)
