"""Refused before anything was written: make room."""

from holdfast.errors.families import LimitExceeded


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


class TooLarge(LimitExceeded):
    """One thing is larger than what is accepted."""

    code = "too_large"
    hint = "Split it, or raise the limit."
