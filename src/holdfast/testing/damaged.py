"""A vault on one of the databases, and a way to its rows: tests damage them."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import holdfast
from holdfast import Holdfast
from holdfast.testing.statements import run_in


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
