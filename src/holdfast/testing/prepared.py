"""Catalogs that are there at once: a new one in SQLite is a copy of one that is empty.

    prepared = Prepared()
    prepared.set_up()
    SqliteCatalog(folder)               # 4 ms of work in place of 20

To make its tables is most of what a new catalog takes, and tests make thousands. Those in
PostgreSQL are copies of a template for the same reason.

Whoever tests how tables are made turns this off (`is_used`); where anything lies already, or steps
are watched, it is off by itself. Commands and servers are processes of their own, and make theirs
as always.
"""

import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from holdfast.catalog import sqlite
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.catalog.tables import Step, no_step
from holdfast.errors import HoldfastError
from holdfast.ownfiles import MODE
from holdfast.settings import CATALOG_NAME
from holdfast.testing.postgres import find_base

_BEFORE: Final = {"locks", "packs"}
"""What there is of a vault before its catalog: the second is empty then."""


class Prepared:
    """An empty catalog, and whether new ones are copies of it."""

    def __init__(self) -> None:
        self.is_used = True
        with TemporaryDirectory(dir=find_base()) as folder:
            SqliteCatalog(Path(folder)).close()
            self._empty = Path(folder, CATALOG_NAME).read_bytes()

    def set_up(self) -> None:
        """Has every catalog that this process makes anew be a copy from here on."""
        prepared = self
        make = SqliteCatalog._migrate  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - where tables are made

        def copy(self: SqliteCatalog, step: Step) -> None:
            if prepared.is_used and step is no_step:
                prepared._lay(self)
            make(self, step)

        SqliteCatalog._migrate = copy  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - as above

    def _lay(self, catalog: SqliteCatalog) -> None:
        path = catalog._path  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - nobody else asks
        locks = catalog._locks  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - as openers do
        opening = sqlite._OPEN  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - likewise
        # What is wrong with the place, who opens it finds out and says.
        with suppress(OSError, HoldfastError), locks.waiting(opening):
            if _is_new(path.parent):
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
                try:
                    with os.fdopen(file, "wb") as opened:
                        opened.write(self._empty)
                except OSError:
                    path.unlink()


def _is_new(folder: Path) -> bool:
    """Says whether a directory holds nothing yet by which it is somebody's vault."""
    found = {each.name: each for each in folder.iterdir()}
    if not found.keys() <= _BEFORE:
        return False
    return "packs" not in found or not any(found["packs"].iterdir())
