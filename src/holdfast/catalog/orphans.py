"""Rows that refer to a row that is not there: found, put back where they were, or let go of.

Each reference of the schema is one question, made of the text of the tables themselves. No writer
leaves such a row, as the database refuses it: only damage does. And rows with one go into no other
database, so no backup is made of them.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Final, NamedTuple

from holdfast.catalog.driver import Driver
from holdfast.catalog.tables import load_tables

_MADE: Final = re.compile(r"CREATE TABLE (\w+)")
_REFERENCE: Final = re.compile(
    r"(?:FOREIGN KEY \((?P<several>[\w, ]+)\)|(?<=[(,])\s*(?P<one>\w+)[^(),]*?)"
    r"\s+REFERENCES (?P<parent>\w+) \((?P<keys>[\w, ]+)\)"
)

_KEPT: Final = {
    # Whoever lost a tenant's row has lost no namespace with it.
    "namespaces": "1 = 0",
    # Those of another tenant, who repairs them: objects say whose they are.
    "packs": "NOT EXISTS (SELECT 1 FROM objects o WHERE o.pack_id = c.id)",
    "pack_data": "NOT EXISTS (SELECT 1 FROM objects o WHERE o.pack_id = c.pack_id)",
}
"""What such rows have to be as well, to be let go of."""

_BY_CHECKSUM: Final = frozenset(
    {
        *("snapshots", "tasks", "schedules", "memories", "entities", "git_backups"),
        *("sessions", "former_sessions", "packs", "pack_data", "deliveries"),
    }
)
"""Tables whose rows say themselves what they referred to: that is put right elsewhere."""


class Reference(NamedTuple):
    """What a table refers to."""

    table: str
    columns: tuple[str, ...]
    parent: str
    keys: tuple[str, ...]

    @property
    def is_broken(self) -> str:
        """The condition for a row `c` of the table whose parent is not there."""
        pairs = [*zip(self.keys, self.columns, strict=True)]
        same = " AND ".join(f"p.{key} = c.{column}" for key, column in pairs)
        given = " AND ".join(f"c.{column} IS NOT NULL" for column in self.columns)
        return f"{given} AND NOT EXISTS (SELECT 1 FROM {self.parent} p WHERE {same})"  # noqa: S608 - our own names


class Orphans(NamedTuple):
    """Rows of one table that refer to a row that is not there."""

    table: str
    parent: str
    number: int

    @property
    def said(self) -> str:
        """What is said of them."""
        return f"{self.table}: rows of {self.parent} that are not there: {self.number}"


@cache
def load_references() -> tuple[Reference, ...]:
    """Returns every reference of the schema, of each table its one, those of children first."""
    found = dict[str, Reference]()
    statements = (each for step in load_tables("sqlite") for each in step.statements)
    for statement in statements:
        made, said = _MADE.match(statement), _REFERENCE.search(statement)
        if made and said:
            columns, keys = (said["several"] or said["one"]).split(", "), said["keys"].split(", ")
            found[made[1]] = Reference(made[1], tuple(columns), said["parent"], tuple(keys))
    return tuple(sorted(found.values(), key=lambda each: -_depth(each, found)))


def _depth(reference: Reference, found: dict[str, Reference]) -> int:
    """Returns how many tables stand above one."""
    above = found.get(reference.parent)
    return 1 if above is None else 1 + _depth(above, found)


@cache
def orphan_queries() -> dict[str, str]:
    """Returns the queries by their names; no dialect has words of its own for them."""
    queries, counts, missing = dict[str, str](), list[str](), list[str]()
    for each in load_references():
        rows = f"FROM {each.table} c WHERE {each.is_broken}"
        counts.append(f"SELECT '{each.table}', '{each.parent}', COUNT(*) {rows}")
        kept = _KEPT.get(each.table, "1 = 1")
        queries[f"drop_orphans_of_{each.table}"] = (
            f"DELETE FROM {each.table} AS c WHERE {each.is_broken} AND {kept}"  # noqa: S608 - the same
        )
        for below in _below(each):
            queries[f"drop_{below.table}_of_orphans"] = (
                f"DELETE FROM {below.table} WHERE {below.columns[0]} IN "  # noqa: S608 - the same
                f"(SELECT c.{below.keys[0]} {rows} AND {kept})"
            )
        if each.keys == ("id",) and each.parent in ("namespaces", "tenants"):
            (column,) = each.columns
            missing.append(f"SELECT DISTINCT '{each.parent}', c.{column}, '{each.table}' {rows}")
            queries[f"move_orphans_of_{each.table}"] = (
                f"UPDATE {each.table} SET {column} = :home WHERE {column} = :stray"  # noqa: S608 - the same
            )
    queries["count_orphans"] = " UNION ALL ".join(counts)
    queries["missing_parents"] = f"{' UNION ALL '.join(missing)} ORDER BY 1, 2, 3"
    queries["all_parents"] = (
        "SELECT 'namespaces', id FROM namespaces UNION ALL SELECT 'tenants', id FROM tenants"
    )
    return queries


class OrphanQueries:
    """Rows that refer to a row that is not there."""

    __slots__ = ()

    _db: Driver

    def find_orphans(self) -> list[Orphans]:
        """Returns in which tables of the catalog there are such rows, whoever's, and how many."""
        return [Orphans(*row) for row in self._db.all("count_orphans") if row[2]]

    def homes_of_orphans(self) -> Iterator[tuple[str, int, int]]:
        """Yields tables with the number that their rows refer to, and the one that it was.

        That is told where a single parent is one bit away, or all there is, and no other table
        misses the one that is not there: else it is that one that was damaged.
        """
        parents = [(row[0], row[1]) for row in self._db.all("all_parents")]
        rows = self._db.all("missing_parents")
        for (parent, stray), each in groupby(rows, key=lambda row: (row[0], row[1])):
            tables = [row[2] for row in each]
            there = [number for what, number in parents if what == parent]
            near = [number for number in there if (number ^ stray).bit_count() == 1]
            if not near and parent == "tenants":
                near = there
            if len(near) == len(tables) == 1 and tables[0] not in _BY_CHECKSUM:
                yield tables[0], stray, near[0]

    def move_orphans(self, table: str, *, stray: int, home: int) -> int:
        """Has rows of a table refer to another row; returns how many."""
        return self._db.run(f"move_orphans_of_{table}", stray=stray, home=home)

    def drop_orphans(self) -> list[Orphans]:
        """Lets go of such rows, and of what refers to them; returns what went.

        Whoever asks knows that indexes are sound, and that what is not there is nowhere else.
        """
        dropped = list[Orphans]()
        for each in load_references():
            for below in _below(each):
                self._db.run(f"drop_{below.table}_of_orphans")
            count = self._db.run(f"drop_orphans_of_{each.table}")
            if count:
                dropped.append(Orphans(each.table, each.parent, count))
        return dropped


def _below(reference: Reference) -> list[Reference]:
    """Returns what refers to a table of which rows may go, and does not go with them by itself."""
    found = [each for each in load_references() if each.parent == reference.table]
    return [each for each in found if reference.table in ("packs", "webhooks")]
