"""A vault on one of the databases, and a way to its rows: tests damage them.

SQL for tests: run behind a vault's back, and the statements of a migration as steps.
"""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, LiteralString, cast

import holdfast
from holdfast import Holdfast

Reinstate = Callable[[Path, str], Holdfast]
"""Makes a vault of a backup, under a name, and opens it."""


class Kept:
    """A vault on one of the databases, and its rows to damage."""

    def __init__(self, where: Path | str, vault: Holdfast, reopen: Callable[[], Holdfast]) -> None:
        self.vault, self.reopen = vault, reopen
        self.sql = partial(run_in, where)
        self.is_postgres = isinstance(where, str)

    def flip(self, table: str, column: str, *, bit: int = 0, where: str = "1 = 1") -> None:
        """Flips bits in the last byte of a column's bytes or text, or of a number."""
        ((old,),) = self.sql(f"SELECT {column} FROM {table} WHERE {where}")  # noqa: S608 - our own names
        if isinstance(old, int):
            new: object = old ^ 1 << bit
        else:
            data = bytearray(old.encode() if isinstance(old, str) else old)
            data[len(data) // 2] ^= 1 << bit
            new = data.decode() if isinstance(old, str) else bytes(data)
        self.sql(f"UPDATE {table} SET {column} = ? WHERE {where}", new)  # noqa: S608 - the same

    def break_row(self, table: str, column: str, *, where: str = "1 = 1") -> None:
        """Damages a row beyond one bit; `where` may not be about the column itself."""
        for bit in (0, 1, 2):
            self.flip(table, column, bit=bit, where=where)


@contextmanager
def kept_on_sqlite(folder: Path) -> Generator[Kept]:
    """Opens a vault in a directory."""
    reopen = partial(holdfast.open, folder)
    with reopen() as vault:
        yield Kept(folder, vault, reopen)


@contextmanager
def kept_on_postgres(url: str, objects: Path) -> Generator[Kept]:
    """Opens a vault in a database."""
    reopen = partial(holdfast.open, url, objects=objects)
    with reopen() as vault:
        yield Kept(url, vault, reopen)


def run_in(where: Path | str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Runs a statement with `?` for each value in the catalog of a directory or at a URL.

    No reference stands in its way.
    """
    if isinstance(where, Path):
        with closing(sqlite3.connect(where / "catalog.sqlite")) as database, database:
            return database.execute(statement, values).fetchall()
    import psycopg  # noqa: PLC0415 - an extra: importing this module needs only the core

    # Chosen by a test; LiteralString cannot say so.
    text = cast("LiteralString", statement.replace("%", "%%").replace("?", "%s"))
    options = "-c search_path=holdfast -c session_replication_role=replica"
    with psycopg.connect(where, options=options) as connection:
        cursor = connection.execute(text, values)
        return cursor.fetchall() if cursor.description else []


def one_of_each(step: Callable[[str], None], *, words: int | None = None) -> Callable[[str], None]:
    """Returns a step for the statements of one transaction that passes on the first of each kind.

    Those are of a kind that are equal, or begin with the same `words`.
    """
    seen = set[str]()

    def step_once(statement: str, /) -> None:
        kind = " ".join(statement.split()[:words])
        if kind not in seen:
            seen.add(kind)
            step(statement)

    return step_once
