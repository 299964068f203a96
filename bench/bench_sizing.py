"""What a vault takes in PostgreSQL: bytes per row, rows and log per snapshot; and a large vault.

    make bench ONLY=sizing
    python bench/bench_sizing.py --namespaces 20 --rounds 40

Agents of one tenant, with a hundred files each, write ten of 3 KB and take a snapshot, again and
again, while somebody listens to events: these snapshots are counted, and not the first. Then a
collection moves packs out, the tables are made anew (VACUUM FULL), and every table is measured with
its indexes. What follows for a million namespaces is arithmetic: the assumptions are printed above
it. Tables of few rows seem larger than they are, as each index has two pages at the least.
"""

import argparse
import os
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import psycopg

import holdfast
from holdfast.testing.postgres import PostgresServer

FILES, CHANGED, SIZE = 100, 10, 3_000

NAMESPACES, OBJECTS = 1_000_000, 1_000_000_000
SNAPSHOTS_A_DAY, KEPT, EVENT_DAYS = 10, 100, 30
DAY = NAMESPACES * SNAPSHOTS_A_DAY
GB = 10**9

TABLES = """
SELECT COALESCE(parent.relname, c.relname), SUM(pg_relation_size(c.oid))::BIGINT,
       SUM(pg_indexes_size(c.oid))::BIGINT,
       SUM(COALESCE(pg_total_relation_size(NULLIF(c.reltoastrelid, 0)), 0))::BIGINT,
       array_agg(c.relname)
FROM pg_class c
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
LEFT JOIN pg_class parent ON parent.oid = i.inhparent
WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind = 'r'
GROUP BY 1 ORDER BY 1
"""


class Table(NamedTuple):
    """A table as it is after a VACUUM FULL."""

    rows: int
    heap: int
    indexes: int
    beside: int
    """Bytes of what is too large for a row."""

    @property
    def per_row(self) -> tuple[float, float, float]:
        return tuple(each / max(1, self.rows) for each in self[1:])  # pyright: ignore[reportReturnType]


def begin(vault: holdfast.Holdfast, namespaces: int) -> None:
    vault.events.listen()
    for number in range(namespaces):
        agent = vault.namespace(f"agent-{number}")
        agent.files.write_many([(f"f{each}.txt", os.urandom(SIZE)) for each in range(FILES)])
        agent.snapshot("first")
    vault.events.last()  # Whoever asks for events has them numbered.


def play(vault: holdfast.Holdfast, namespaces: int, rounds: int) -> None:
    for turn in range(rounds):
        for number in range(namespaces):
            agent = vault.namespace(f"agent-{number}")
            first = turn * CHANGED
            names = [f"f{(first + each) % FILES}.txt" for each in range(CHANGED)]
            agent.files.write_many([(name, os.urandom(SIZE)) for name in names])
            agent.snapshot(f"turn {turn}")
        vault.events.last()


def count_rows(url: str) -> Counter[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute(TABLES).fetchall()
        counted = Counter[str]()
        for name, *_, parts in found:
            for part in parts:
                row = connection.execute(f"SELECT COUNT(*) FROM holdfast.{part}").fetchone()
                counted[name] += 0 if row is None else row[0]
        return counted


def measure(url: str) -> dict[str, Table]:
    found = dict[str, Table]()
    with psycopg.connect(url, autocommit=True) as connection:
        names = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace "
            "AND relkind = 'r'"
        ).fetchall()
        for (name,) in names:
            connection.execute(f"VACUUM FULL holdfast.{name}")
        sizes = connection.execute(TABLES).fetchall()
    rows = count_rows(url)
    for name, heap, indexes, beside, _ in sizes:
        found[name] = Table(rows[name], heap, indexes, beside)
    return found


def log_bytes(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchone()
        assert row is not None
        return int(row[0])


def show(
    tables: dict[str, Table], added: Counter[str], snapshots: int, wal: float, inline: float
) -> None:
    print("| table | rows per snapshot | bytes per row: heap | indexes | beside |")
    print("|---|---|---|---|---|")
    for name, table in sorted(tables.items(), key=lambda item: -sum(item[1][1:])):
        if min(added[name], table.rows) >= snapshots / 10:
            sizes = " | ".join(f"{each:.0f}" for each in table.per_row)
            print(f"| {name} | {added[name] / snapshots:.1f} | {sizes} |")
    print(f"\nlog (WAL) per snapshot: {wal / snapshots / 1000:.0f} KB")
    print(f"packs in the catalog per snapshot, until they are moved out: {inline / 1000:.0f} KB")

    def bytes_of(*names: str) -> float:
        return sum(sum(tables[name].per_row) for name in names if name in tables)

    def rows_of(name: str) -> float:
        return added[name] / snapshots

    print(
        f"\n{NAMESPACES:,} namespaces, {OBJECTS:,} objects, {SNAPSHOTS_A_DAY} snapshots a day each "
        f"with {CHANGED} files, {KEPT} snapshots kept, events for {EVENT_DAYS} days:"
    )
    events = rows_of("events") * DAY * bytes_of("events")
    lines = {
        "objects": OBJECTS * bytes_of("objects"),
        "snapshots kept": NAMESPACES * KEPT * bytes_of("snapshots"),
        "namespaces": NAMESPACES * bytes_of("namespaces"),
        "journal, a day": rows_of("journal") * DAY * bytes_of("journal"),
        "journal, a year": rows_of("journal") * DAY * bytes_of("journal") * 365,
        "events, a day": events,
        "events, kept": events * EVENT_DAYS,
        "packs in the catalog, moved out every day": inline * DAY,
        "packs in the catalog, moved out every 10 minutes": inline * DAY / 144,
        "log (WAL), a day": wal / snapshots * DAY,
    }
    for name, size in lines.items():
        print(f"| {name} | {size / GB:,.1f} GB |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--namespaces", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    snapshots = given.namespaces * given.rounds
    with PostgresServer() as server, tempfile.TemporaryDirectory() as folder:
        url = server.dsn(server.create_database())
        with holdfast.open(url, objects=Path(folder) / "packs") as vault:
            begin(vault, given.namespaces)
            rows, wal, inline = count_rows(url), -log_bytes(url), -vault.measure().inline_bytes
            play(vault, given.namespaces, given.rounds)
            added, wal = count_rows(url) - rows, wal + log_bytes(url)
            inline = (inline + vault.measure().inline_bytes) / snapshots
        # A day later: what is small has been moved out, and nothing is new.
        later = datetime.now(UTC) + timedelta(days=1)
        with holdfast.open(url, objects=Path(folder) / "packs", clock=lambda: later) as vault:
            vault.collect()
        show(measure(url), added, snapshots, wal, inline)


if __name__ == "__main__":
    main()
