"""How a catalog is read that cannot be written: on a disk that is read-only, or has no byte left.

SQLite wants to make a log and its index beside the file even to read it. Measured with 3.40:

| What lies there | on a read-only disk | on a full one |
|---|---|---|
| the file alone, as after a clean close | `immutable`: nobody can change it | a copy |
| with a log and its index, as after a kill | `mode=ro` | as always: their room is taken |
| with a log, and no index | a copy | a copy |

A copy is private and lies in memory where the system has a place for that. It is made while the
writers' lock is held, so it is of one moment.
"""

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from holdfast.catalog.sqlite_connections import SqliteConnections
from holdfast.errors import HoldfastError, StorageReadOnly

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
