"""What cannot be used as it stands now, although nothing in it is damaged."""

from holdfast.errors.families import Unavailable


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
