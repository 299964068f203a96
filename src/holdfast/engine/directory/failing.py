"""What is said of a directory into which something could not be written: where, why, what helps.

The vault has nothing to do with it, and what is said of that would lead people astray: the disk
that is full, or takes no writes, is the directory's, and a file that cannot be replaced is
somebody else's, mounted, or locked.
"""

import errno
import os
import shlex
from pathlib import Path
from typing import Final

from holdfast.engine.core.paths import to_text
from holdfast.errors import HoldfastError, StorageFull, StorageReadOnly, Unavailable
from holdfast.errors.system import NO_ROOM, from_system
from holdfast.workspace.steps import Drifted, above
from holdfast.workspace.writing import At

LOOKED_AT: Final = "looked at"

_NOT_OURS: Final = frozenset({errno.EACCES, errno.EPERM})


def failed(exc: OSError, directory: Path, at: At, *, target: str | None = None) -> HoldfastError:
    """Returns the error for what could not be done; all that was done is taken back.

    `target` is the snapshot that was to be brought back, where that is one.
    """
    key, what = at
    error = from_system(exc, f"{_name(key)} could not be {what}, and {directory} is as it was")
    return _pointed(error, exc, directory, key, but=_but(exc, directory, key, target))


def failed_on_the_way_back(exc: OSError | Drifted, directory: Path, at: At) -> HoldfastError:
    """Returns the error for what could not be taken back either."""
    key, what = (exc.key, "taken back") if isinstance(exc, Drifted) else at
    why = "it keeps changing" if isinstance(exc, Drifted) else exc.strerror
    message = (
        f"{_name(key)} could not be {what} ({why}) when a restore of {directory} was taken back; "
        "it is put right when the directory is used next"
    )
    if isinstance(exc, Drifted):
        error = Unavailable(message).with_hint("Something else writes there: end that first.")
        error.paths = [to_text(key)]
        return error
    return _pointed(Unavailable(message), exc, directory, key, but="")


def _pointed(
    error: StorageFull | StorageReadOnly | Unavailable,
    exc: OSError,
    directory: Path,
    key: bytes,
    *,
    but: str,
) -> HoldfastError:
    error.paths = [to_text(key)] if key else []
    return error.with_hint(_hint(exc, directory, key, but=but))


def _hint(exc: OSError, directory: Path, key: bytes, *, but: str) -> str:
    where = shlex.quote(str(directory))
    if exc.errno in NO_ROOM:
        return f"Make room on the disk of the directory (`df -h {where}`), and try again."
    if exc.errno == errno.EROFS:
        place = shlex.quote(str(directory / to_text(key)))
        return f"Mount what is there writable (`findmnt -T {place}`), and try again{but}."
    if exc.errno == errno.EBUSY:
        return f"Something is mounted there: unmount it, and try again{but}."
    if exc.errno in _NOT_OURS:
        # What becomes of a name is for its folder to allow.
        near = " ".join(shlex.quote(str(directory / to_text(each))) for each in (above(key), key))
        return (
            "Change the owner, the permissions or the attributes that forbid it "
            f"(`ls -ld {near}`, `lsattr -d {near}`), and try again{but}."
        )
    return f"See what is wrong with {_name(key)}, and try again{but}."


def _but(exc: OSError, directory: Path, key: bytes, target: str | None) -> str:
    """Returns how all else is brought back; nothing where that would not help."""
    path = _closed(directory, key)
    if not path or exc.errno in NO_ROOM:
        return ""
    name = shlex.quote(to_text(path))
    if target is None:
        return f"; `holdfast restore ID --except {name}` leaves it as it is"
    return f"; `holdfast restore {target} --except {name}` leaves it as it is"


def _closed(directory: Path, key: bytes) -> bytes:
    """Returns what has to be opened: the folder, where nothing in it can be changed."""
    folder = above(key)
    if folder and not os.access(directory / to_text(folder), os.W_OK | os.X_OK, effective_ids=True):
        return folder
    return key


def _name(key: bytes) -> str:
    return to_text(key) if key else "the directory"
