"""What an operation asks of the database: counts, which no noise of the machine can move.

    make bench ONLY=operations
    python bench/bench_operations.py --times 50 --listening   # with events, as a server has them

On SQLite, frames of the log (4 KB each) that a call adds; on PostgreSQL, statements, waits for
answers, and bytes of its log. Of a writer that has the namespace to itself, after some calls of
the same kind; means, for a page splits now and then.
"""

import argparse
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg
from sessions_states import SHAPES

import holdfast
from holdfast.catalog.postgres_lines import Answer, Line, Parameters
from holdfast.catalog.sqlite_log import FRAME_BYTES
from holdfast.testing.logs import HEAD_BYTES, written_bytes
from holdfast.testing.postgres import PostgresServer

WARM_UP = 5

Call = Callable[[int], object]


@dataclass
class Counts:
    """What was sent to PostgreSQL since it was last looked at."""

    statements: int = 0
    waits: int = 0

    def install(self) -> None:
        send, receive = Line.send, Line.receive

        def counted_send(
            line: Line, query: str, parameters: Parameters | None, answer: Answer
        ) -> None:
            self.statements += 1
            send(line, query, parameters, answer)

        def counted_receive(line: Line) -> None:
            self.waits += 1
            receive(line)

        Line.send, Line.receive = counted_send, counted_receive  # type: ignore[method-assign]


def operations(agent: holdfast.Namespace) -> dict[str, tuple[Call, Call]]:
    """Returns what is measured, by its name, and what comes before each of them."""
    sessions, small, long = agent.sessions, SHAPES[0], SHAPES[2]
    for name, shape in (("small", small), ("long", long)):
        sessions.create("bench", session_id=name, initial_state=shape.state())
        for number in range(60):
            sessions.update_state(name, shape.changes(f"first {number}"))
    for number in range(10):
        agent.files.write(f"file{number}", f"{number}" * 3000)
    agent.store.set("bench", "key", 0)
    taken = agent.snapshot()

    def nothing(_: int) -> None: ...

    def write_ten(number: int) -> None:
        for place in range(10):
            agent.files.write(f"file{place}", f"{number} {place} " * 500)

    return {
        "update_state, 1 KB": (
            nothing,
            lambda n: sessions.update_state("small", small.changes(f"{n}")),
        ),
        "update_state, 100 KB": (
            nothing,
            lambda n: sessions.update_state("long", long.changes(f"{n}")),
        ),
        "add_turn": (nothing, lambda n: sessions.add_turn("small", input=f"{n}", output="yes")),
        "add_turn with a state": (
            nothing,
            lambda n: sessions.add_turn(
                "small", input=f"{n}", output="yes", state_after=small.changes(f"turn {n}")
            ),
        ),
        "rollback": (nothing, lambda n: sessions.rollback("small", n % 20)),
        "get_state": (nothing, lambda _: sessions.get_state("small")),
        "get_state of an old version": (nothing, lambda _: sessions.get_state("small", version=9)),
        "history of 50": (nothing, lambda _: sessions.history("small", limit=50)),
        "files.write, 200 B": (nothing, lambda n: agent.files.write("file1", f"{n:4}" * 50)),
        "files.write, 3 KB": (nothing, lambda n: agent.files.write("file2", f"{n:4}" * 750)),
        "files.read": (nothing, lambda _: agent.files.read("file3")),
        "store.set": (nothing, lambda n: agent.store.set("bench", "key", n)),
        "store.get": (nothing, lambda _: agent.store.get("bench", "key")),
        "snapshot of 10 changed": (write_ten, lambda _: agent.snapshot()),
        "restore": (write_ten, lambda _: agent.restore(taken)),
    }


def on_sqlite(folder: Path, times: int, *, listening: bool) -> dict[str, float]:
    found = dict[str, float]()
    with holdfast.open(folder / "vault") as vault:
        if listening:
            vault.events.list()
        catalog = folder / "vault" / "catalog.sqlite"
        with sqlite3.connect(catalog) as beside:
            for name, (prepare, call) in operations(vault.namespace("agent")).items():
                frames = 0.0
                for number in range(WARM_UP + times):
                    prepare(number)
                    beside.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                    call(number)
                    size = written_bytes(catalog.with_name(f"{catalog.name}-wal"))
                    if number >= WARM_UP:
                        frames += max(size - HEAD_BYTES, 0) / FRAME_BYTES
                found[name] = frames / times
        beside.close()
    return found


def on_postgres(folder: Path, times: int, *, listening: bool) -> dict[str, tuple[float, ...]]:
    found, counts = dict[str, tuple[float, ...]](), Counts()
    counts.install()
    with PostgresServer() as server:
        url = server.dsn(server.create_database())
        with (
            holdfast.open(url, objects=folder / "packs") as vault,
            psycopg.connect(url, autocommit=True) as beside,
        ):
            if listening:
                vault.events.list()

            def written() -> int:
                row = beside.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
                return int(row[0]) if row else 0

            for name, (prepare, call) in operations(vault.namespace("agent")).items():
                statements = waits = log = 0
                for number in range(WARM_UP + times):
                    prepare(number)
                    counts.statements, counts.waits, before = 0, 0, written()
                    call(number)
                    if number >= WARM_UP:
                        statements += counts.statements
                        waits += counts.waits
                        log += written() - before
                found[name] = statements / times, waits / times, log / times
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--listening", action="store_true", help="somebody listens to events")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hf-bench-"))
    try:
        sqlite = on_sqlite(folder / "sqlite", options.times, listening=options.listening)
        postgres = on_postgres(folder / "postgres", options.times, listening=options.listening)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("| | SQLite: frames | PostgreSQL: statements | waits | bytes of log |")
    print("|---|---|---|---|---|")
    for name, frames in sqlite.items():
        statements, waits, log = postgres[name]
        print(f"| {name} | {frames:.1f} | {statements:.1f} | {waits:.1f} | {log:,.0f} |")


if __name__ == "__main__":
    main()
