"""What the operating system's errors are called here."""

import errno
from typing import Final

from holdfast.errors.families import Unavailable
from holdfast.errors.limits import StorageFull
from holdfast.errors.unavailable import StorageReadOnly

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What a disk says that is full, or gives this user nothing more."""


def from_system(exc: OSError, what: object) -> StorageFull | StorageReadOnly | Unavailable:
    """Returns our error for one that the operating system gave us for `what`."""
    message = f"{what}: {exc.strerror or exc}"
    if exc.errno in NO_ROOM:
        return StorageFull(message)
    return StorageReadOnly(message) if exc.errno == errno.EROFS else Unavailable(message)
