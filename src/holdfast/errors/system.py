"""What has no room, or cannot be used as it stands; what the operating system's errors are called.

Nothing was written, and nothing is damaged.
"""

import errno
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

from holdfast.errors.families import LimitExceeded, Unavailable

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What a disk says that is full, or gives this user nothing more."""


class QuotaExceeded(LimitExceeded):
    """The tenant's or namespace's quota has no room for this."""

    code = "quota_exceeded"
    hint = "Delete snapshots and run `collect`, or raise the quota."

    def __init__(self, owner: str, *, used_bytes: int, needed_bytes: int, quota_bytes: int) -> None:
        super().__init__(
            f"{owner} uses {used_bytes} of {quota_bytes} bytes; {needed_bytes} more do not fit"
        )
        self.owner = owner
        self.used_bytes, self.needed_bytes = used_bytes, needed_bytes
        self.quota_bytes = quota_bytes


class StorageFull(LimitExceeded):
    """The disk has no room, or would fall below the floor that is kept free."""

    code = "storage_full"
    hint = "Free disk space, or run `collect` after deleting snapshots."
    paths: Sequence[str] = ()
    """What could not be written in a directory, where its disk is the one that is full."""


class TooLarge(LimitExceeded):
    """One thing is larger than what is accepted."""

    code = "too_large"
    hint = "Split it, or raise the limit."


class CatalogReplaced(Unavailable):
    """The catalog's files are no longer those that this process has open."""

    code = "catalog_replaced"
    hint = "Nothing of this was kept. Open the vault again, and look at what it holds now."

    def __init__(self, path: str, *, how: str, may_return: bool = False) -> None:
        super().__init__(f"{path} {how} while this process had it open")
        self.path = path
        self.may_return = may_return
        """Whether the files are still somewhere: moved away, or on a disk that was unmounted."""


class StorageReadOnly(Unavailable):
    """The disk takes no writes: what is there can be read, and nothing can be added."""

    code = "storage_read_only"
    hint = "Reading works. To write, mount the disk writable, or copy the vault to one that is."


class VaultUnfinished(Unavailable):
    """A vault is being made of a backup, and is none before that has ended."""

    code = "vault_unfinished"
    hint = (
        "Wait until `holdfast reinstate` has ended. If it was killed, run the same command again: "
        "it clears what was left, and begins anew."
    )

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is being brought back from a backup, and is no vault yet")
        self.what = what


class SandboxUnavailable(Unavailable):
    """Commands cannot be run here, since nothing would keep them where they belong."""

    code = "sandbox_unavailable"
    hint = (
        "Install bubblewrap, and let this user make namespaces; `docs/howto/run-commands.md` "
        "says what is needed."
    )


class StorageDenied(Unavailable):
    """A bucket does not let us in: the keys are wrong, or do not open what is needed."""

    code = "storage_denied"
    hint = (
        "Check the keys (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), the region and this machine's "
        "clock; the keys have to let us list the bucket, and get, put and delete its objects."
    )

    def __init__(self, place: str, *, reason: str) -> None:
        super().__init__(f"{place} refuses us: {reason}")
        self.place, self.reason = place, reason


def from_system(exc: OSError, what: object) -> StorageFull | StorageReadOnly | Unavailable:
    """Returns our error for one that the operating system gave us for `what`."""
    message = f"{what}: {exc.strerror or exc}"
    if exc.errno in NO_ROOM:
        return StorageFull(message)
    return StorageReadOnly(message) if exc.errno == errno.EROFS else Unavailable(message)


@contextmanager
def translated(what: object) -> Generator[None]:
    """Turns what the operating system says of `what` into our errors."""
    try:
        yield
    except OSError as exc:
        raise from_system(exc, what) from exc
