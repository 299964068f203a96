"""What operations cost a tenant with a quota, by how many packs it has.

    make bench ONLY=proportion
    python bench/bench_proportion.py --postgres
    python bench/bench_proportion.py --packs 10 1000 --rounds 10

Rows of packs are put into the catalog as they are: no pack of these has to be there, as they say
that they lie in the catalog and nothing is looked for in them. Of each operation there are the
questions that it asks the catalog, what the database does for them, and the median time. What the
database does is rows that PostgreSQL reads from tables and indexes, or steps of SQLite's machine,
in tens. Rounds of all vaults are interleaved, so that a noisy machine is noisy for all.
"""

import argparse
import os
import shutil
import sqlite3
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter as clock

import psycopg

import holdfast
from holdfast.catalog.postgres_driver import PostgresDriver
from holdfast.catalog.sqlite_driver import SqliteDriver
from holdfast.engine.upkeep import collect as collecting

PACKS = [10, 1_000, 100_000, 1_000_000]
QUOTA = 1 << 50
STEPS = 10
ASKING = ("one", "all", "all_as_stored", "run", "say", "say_all", "insist", "run_many", "by_keys")

asked = [0]
steps = [0]


def count_questions() -> None:
    """Has each question to either database counted."""

    def counted(method: Callable[..., object]) -> Callable[..., object]:
        def ask(*args: object, **kwargs: object) -> object:
            asked[0] += 1
            return method(*args, **kwargs)

        return ask

    for driver in (SqliteDriver, PostgresDriver):
        for name in (*ASKING, "say_many", "put_rows"):
            setattr(driver, name, counted(getattr(driver, name)))


def count_steps() -> None:
    """Has the steps of SQLite's machine counted, on every connection that is made from here on."""
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def step() -> int:
        steps[0] += 1
        return 0

    def connected(*args: object, **kwargs: object) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)
        connection.set_progress_handler(step, STEPS)
        return connection

    sqlite3.connect = connected  # type: ignore[assignment]


class Case:
    """A vault with so many packs."""

    def __init__(self, packs: int, place: str | Path, folder: Path) -> None:
        self.place, self.packs = place, folder / f"packs-{packs}"
        self.times = defaultdict[str, list[float]](list)
        self.asked, self.work = dict[str, int](), dict[str, float]()
        with self.open() as vault:
            vault.set_quota(QUOTA)
            agent = vault.namespace("agent")
            for number in range(50):
                agent.files.write(f"{number}.txt", os.urandom(2000))
            agent.snapshot("first")
            fill(place, packs)

    def open(self) -> holdfast.Holdfast:
        is_database = isinstance(self.place, str)
        return holdfast.open(self.place, objects=self.packs if is_database else None)

    def work_of(self, act: Callable[[holdfast.Holdfast], object]) -> float:
        """Returns what the database does for something, beyond what opening a vault takes."""
        if isinstance(self.place, Path):
            with self.open() as vault:
                before = steps[0]
                act(vault)
                return steps[0] - before
        found = list[int]()
        for each in (lambda _: None, act):
            before = rows_read(self.place)
            with self.open() as vault:
                each(vault)
            # Who has gone has told how much it read.
            found.append(rows_read(self.place) - before)
        return found[1] - found[0]


def rows_read(url: str) -> int:
    query = """
        SELECT (SELECT COALESCE(SUM(seq_tup_read), 0) FROM pg_stat_user_tables)
             + (SELECT COALESCE(SUM(idx_tup_read), 0) FROM pg_stat_user_indexes)
    """
    with psycopg.connect(url) as connection:
        connection.execute("SELECT pg_stat_clear_snapshot()")
        row = connection.execute(query).fetchone()
        return 0 if row is None else int(row[0])


def fill(place: str | Path, packs: int) -> None:
    """Adds rows of packs, and what they take to the sum."""
    columns = "(tenant_id, name, state, is_inline, size_bytes, plain_bytes, created_at)"
    sums = "INSERT INTO {0}pack_sums (tenant_id, part, bytes) VALUES (1, -1, {1})"
    if isinstance(place, Path):
        with sqlite3.connect(place / "catalog.sqlite") as connection:
            made = ((1, f"pack-made-{n}", "stored", 1, 16_000, 20_000, n) for n in range(packs))
            text = f"INSERT INTO packs {columns} VALUES (?, ?, ?, ?, ?, ?, ?)"
            connection.executemany(text, made)
            connection.execute(sums.format("", packs * 16_000))
        connection.close()
        return
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO holdfast.packs {columns} SELECT 1, 'pack-made-' || n, 'stored', 1, 16000,"
            f" 20000, n FROM generate_series(1, {packs}) n"
        )
        connection.execute(sums.format("holdfast.", packs * 16_000))
        connection.execute("VACUUM ANALYZE")


def write(vault: holdfast.Holdfast) -> None:
    vault.namespace("agent").files.write("changed.txt", os.urandom(3000))


def snapshot(vault: holdfast.Holdfast) -> None:
    vault.namespace("agent").snapshot()


def restore(vault: holdfast.Holdfast) -> None:
    vault.namespace("agent").restore("@-1")


def first_look(vault: holdfast.Holdfast) -> None:
    """What a collection does before it follows what is needed."""
    context = vault._context  # noqa: SLF001 - no door of its own
    with context.catalog.read() as transaction:
        (tenant,) = transaction.iter_tenants()
        transaction.stored_bytes(tenant.id)
        collecting.retired_bytes(transaction, tenant.id)
    collecting.clear(context, tenant.id)
    collecting._clear_litter(context, tenant.id)  # noqa: SLF001 - as above


def stats(vault: holdfast.Holdfast) -> None:
    vault.stored_bytes()
    vault.retired_bytes()
    vault.totals()


OPERATIONS = {
    "write": write,
    "snapshot": snapshot,
    "restore": restore,
    "first look": first_look,
    "stats": stats,
}


def measure(cases: Iterable[Case], rounds: int) -> None:
    opened = [(case, case.open()) for case in cases]
    for number in range(rounds):
        for case, vault in opened:
            for name, act in OPERATIONS.items():
                before, start = asked[0], clock()
                act(vault)
                if number:  # The first finds caches empty.
                    case.times[name].append(clock() - start)
                    case.asked[name] = asked[0] - before
    for case, vault in opened:
        vault.close()
        case.work = {name: case.work_of(act) for name, act in OPERATIONS.items()}


def report(cases: dict[int, Case]) -> None:
    print("\n| | " + " | ".join(f"{packs:,} packs" for packs in cases) + " | largest by least |")
    print("|---" * (len(cases) + 2) + "|")
    for name in OPERATIONS:
        medians = [statistics.median(case.times[name]) * 1000 for case in cases.values()]
        shown = [
            f"{case.asked[name]} questions, {case.work[name]:,.0f} read, {took:.2f} ms"
            for case, took in zip(cases.values(), medians, strict=True)
        ]
        print(f"| {name} | " + " | ".join(shown) + f" | {medians[-1] / medians[0]:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--packs", type=int, nargs="+", default=PACKS)
    parser.add_argument("--folder", type=Path, help="where; else where temporary files are")
    parser.add_argument("--postgres", action="store_true", help="catalog in PostgreSQL")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=options.folder))
    count_questions()
    print("PostgreSQL" if options.postgres else "SQLite", "catalog")
    if options.postgres:
        from holdfast.testing.postgres import PostgresServer  # noqa: PLC0415 - only when asked for

        with PostgresServer() as server:
            urls = {packs: server.dsn(server.create_database()) for packs in options.packs}
            cases = {packs: Case(packs, url, folder) for packs, url in urls.items()}
            measure(cases.values(), options.rounds)
            report(cases)
    else:
        count_steps()
        cases = {packs: Case(packs, folder / str(packs), folder) for packs in options.packs}
        measure(cases.values(), options.rounds)
        report(cases)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
