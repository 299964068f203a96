"""Finds out where in a vault some bytes still are: in files, in packs, in rows.

For tests of what has to be nowhere any more. Every file is searched as it is, every block of every
pack is decompressed, and every row of every table is read.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg

from holdfast.engine.vault import Holdfast
from holdfast.packs import parse_index, read_block
from holdfast.wiring import open_vault


@dataclass(frozen=True, slots=True)
class Place:
    """A vault by where it is."""

    location: str
    packs: Path
    folder: Path
    """Where its files are, beside the packs."""

    def open(self) -> Holdfast:
        """Opens it."""
        return open_vault(self.location, objects=self.packs)

    @property
    def is_database(self) -> bool:
        """Says whether its catalog is in a database."""
        return self.location.startswith("postgres")

    def holding(self, word: str) -> list[str]:
        """Returns where a word still is, whatever its case."""
        needle, places = word.lower().encode(), list[str]()
        for file in [*self.folder.rglob("*"), *self.packs.rglob("*")]:
            if file.is_file() and needle in file.read_bytes().lower():
                places.append(str(file))
        packs = {path.name: path.read_bytes() for path in self.packs.rglob("pack-*")}
        packs |= dict(self._inline())
        for name, data in packs.items():
            for place in parse_index(data, pack=name):
                stored = data[place.block_offset : place.block_offset + place.block_size]
                if needle in read_block(stored, pack=name).lower():
                    places.append(f"{name}, decompressed")
        if self.is_database:
            places += self._rows(needle)
        return sorted(set(places))

    def _inline(self) -> Iterator[tuple[str, bytes]]:
        if self.is_database:
            with psycopg.connect(self.location, options="-c search_path=holdfast") as connection:
                found = connection.execute("SELECT pack_id, data FROM pack_data").fetchall()
        else:
            with closing(sqlite3.connect(f"{self.location}/catalog.sqlite")) as connection:
                found = connection.execute("SELECT pack_id, data FROM pack_data").fetchall()
        yield from ((f"inline {number}", data) for number, data in found)

    def _rows(self, needle: bytes) -> Iterator[str]:
        with psycopg.connect(self.location, options="-c search_path=holdfast") as connection:
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
            ).fetchall()
            for (table,) in tables:
                with connection.cursor() as cursor:
                    query = f"COPY (SELECT t::text FROM {table} t) TO STDOUT"  # noqa: S608 - its own tables
                    with cursor.copy(query.encode()) as copy:
                        rows = [bytes(row).lower() for row in copy]
                    if any(needle in row for row in rows):
                        yield f"table {table}"
