"""A catalog that is a copy is what would have been made, and is laid where none was alone."""

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.errors import Damaged

pytestmark = pytest.mark.in_memory


def seen(folder: Path) -> Iterator[object]:
    """Yields all that a catalog says of itself, but for when its steps were done."""
    with closing(sqlite3.connect(folder / "catalog.sqlite")) as connection:
        for name in ("page_size", "journal_mode", "auto_vacuum", "user_version", "application_id"):
            yield name, connection.execute(f"PRAGMA {name}").fetchall()
        yield sorted(map(str, connection.execute("SELECT type, name, sql FROM sqlite_schema")))
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        for (table,) in sorted(tables):
            columns = "number, name" if table == "migrations" else "*"
            yield table, connection.execute(f"SELECT {columns} FROM {table}").fetchall()
    for path in sorted(folder.iterdir()):
        yield path.name, stat.filemode(path.stat().st_mode)


def test_a_copy_is_what_is_made_where_steps_are_watched(tmp_path: Path) -> None:
    steps = list[str]()
    SqliteCatalog(tmp_path / "copy").close()
    SqliteCatalog(tmp_path / "made", step=steps.append).close()
    assert len(steps) > 100
    assert [*seen(tmp_path / "copy")] == [*seen(tmp_path / "made")]


def test_none_is_laid_in_place_of_one_that_was_lost(tmp_path: Path) -> None:
    with closing(SqliteCatalog(tmp_path)) as catalog, catalog.write() as transaction:
        transaction.add_tenant("default", public_id="ws-a", now=datetime.now(tz=UTC))
    (tmp_path / "catalog.sqlite").unlink()
    with pytest.raises(Damaged, match="lost"):
        SqliteCatalog(tmp_path)
