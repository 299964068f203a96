"""A vault on one of the databases, and a way to its rows: tests damage them."""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, LiteralString, cast

import psycopg

import holdfast
from holdfast import Holdfast

Run = Callable[..., list[tuple[Any, ...]]]
"""Runs a statement with `?` for each value; returns its rows."""


class Kept:
    """A vault on one of the databases, and its rows to damage."""

    def __init__(self, vault: Holdfast, run: Run, reopen: Callable[[], Holdfast]) -> None:
        self.vault, self.sql, self.reopen = vault, run, reopen
        self.is_postgres = "postgres" in run.__qualname__

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

    def run(statement: str, *given: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(folder / "catalog.sqlite")) as connection:
            rows = connection.execute(statement, given).fetchall()
            connection.commit()
        return rows

    reopen = partial(holdfast.open, folder)
    with reopen() as vault:
        yield Kept(vault, run, reopen)


@contextmanager
def kept_on_postgres(url: str, objects: Path) -> Generator[Kept]:
    """Opens a vault in a database."""

    def run(statement: str, *given: object) -> list[tuple[Any, ...]]:
        text = cast("LiteralString", statement.replace("%", "%%").replace("?", "%s"))
        with psycopg.connect(url, options="-c search_path=holdfast") as connection:
            cursor = connection.execute(text, given)
            return cursor.fetchall() if cursor.description else []

    reopen = partial(holdfast.open, url, objects=objects)
    with reopen() as vault:
        yield Kept(vault, run, reopen)
