"""The part of a transaction that copies all rows, whatever they mean."""

from typing import Protocol


class BackupRows(Protocol):
    """All rows at once."""

    def dump(self, path: str) -> None:
        """Writes all rows, as this transaction sees them, to a file, which is empty."""
        ...

    def count_migrations(self) -> int:
        """Returns how many migrations the tables have seen: which tables they are."""
        ...
