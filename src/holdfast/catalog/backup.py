"""The part of a transaction that copies all rows, whatever they mean."""

from holdfast.catalog import rows
from holdfast.catalog.driver import Driver


class BackupQueries:
    """All rows at once."""

    __slots__ = ()

    _db: Driver

    def dump(self, path: str) -> None:
        """Writes all rows, as this transaction sees them, to a file, which is empty."""
        self._db.dump(path)

    def count_migrations(self) -> int:
        """Returns how many migrations the tables have seen: which tables they are."""
        return rows.get_row(self._db.one("count_migrations"), "number")[0]
