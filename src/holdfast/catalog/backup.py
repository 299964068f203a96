"""All rows at once, as each database copies them."""

from holdfast.catalog import rows
from holdfast.catalog.driver import Driver


class BackupQueries:
    """Copies of all rows."""

    __slots__ = ()

    _db: Driver

    def dump(self, path: str) -> None:
        self._db.dump(path)

    def count_migrations(self) -> int:
        return rows.get_row(self._db.one("count_migrations"), "number")[0]
