"""What errors of SQLite mean."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from holdfast.errors import (
    Busy,
    CatalogLost,
    Conflict,
    Damaged,
    HoldfastError,
    InvalidValue,
    StorageFull,
    StorageReadOnly,
    Unavailable,
)


def to_error(exc: BaseException) -> HoldfastError | None:
    """Returns our error for one of SQLite's; the codes are those of sqlite.org/rescode.html."""
    if isinstance(exc, UnicodeDecodeError):
        # Names in a damaged file, which SQLite repeats in its messages.
        return unreadable(f"the catalog holds text that is none: {exc}")
    if isinstance(exc, (OverflowError, ValueError, sqlite3.ProgrammingError)):
        return InvalidValue(f"the catalog cannot hold this value: {exc}")
    if not isinstance(exc, sqlite3.Error):
        return None
    code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    kind = _ERRORS.get(code) or _ERRORS.get(code & 0xFF, Unavailable)
    message = f"the catalog answered: {exc}"
    return unreadable(message) if kind is Damaged else kind(message)


def unreadable(message: str) -> Damaged:
    """Returns the error for a damaged file; who verifies and repairs would read it first."""
    error = Damaged(message)
    error.hint = CatalogLost.hint
    return error


_ERRORS: Final[dict[int, type[HoldfastError]]] = {
    sqlite3.SQLITE_FULL: StorageFull,
    # The index of the log could not be made as long as it has to be.
    sqlite3.SQLITE_IOERR_SHMSIZE: StorageFull,
    sqlite3.SQLITE_READONLY: StorageReadOnly,
    sqlite3.SQLITE_BUSY: Busy,
    sqlite3.SQLITE_LOCKED: Busy,
    sqlite3.SQLITE_CORRUPT: Damaged,
    sqlite3.SQLITE_NOTADB: Damaged,
    # What we ask is known to fit our tables: then these are not our tables any more.
    sqlite3.SQLITE_ERROR: Damaged,
    sqlite3.SQLITE_MISMATCH: Damaged,
    sqlite3.SQLITE_CONSTRAINT: Conflict,
    sqlite3.SQLITE_TOOBIG: InvalidValue,
}


@contextmanager
def translated() -> Generator[None]:
    """Turns SQLite's errors into ours, outside of any transaction."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as exc:
        raise to_error(exc) or exc from exc
