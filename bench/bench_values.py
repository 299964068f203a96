"""What values of the store cost by their size, and lists by their length, beside raw SQLite.

    make bench ONLY=values
    python bench/bench_values.py --folder /dev/shm --rounds 200     # without the disk
    python bench/bench_values.py --postgres

Rounds are interleaved, ours and SQLite's and every size, so that a noisy machine is noisy for all.
Values cannot be compressed; each `set` puts another one, and each is read as it is pending and, as
`get kept`, once a snapshot holds it. SQLite is a table of keys and blobs that syncs every commit.
"""

import argparse
import contextlib
import os
import shutil
import sqlite3
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter as clock

import holdfast

SIZES = [200, 250, 260, 1_000, 4_000, 10_000, 90_000, 120_000, 200_000, 250_000, 260_000, 400_000]
LISTED = 400
FEW, MANY = 10, 100_000

Times = dict[str, list[float]]


@contextlib.contextmanager
def timed(times: Times, name: str) -> Iterator[None]:
    start = clock()
    yield
    times[name].append(clock() - start)


class Peer:
    """The same in SQLite alone."""

    def __init__(self, folder: Path) -> None:
        self.db = sqlite3.connect(folder / "peer.db", isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.execute("CREATE TABLE kv (key TEXT PRIMARY KEY, value BLOB)")
        self.db.execute("CREATE TABLE list (id INTEGER PRIMARY KEY, value BLOB)")

    def set(self, key: str, value: bytes) -> None:
        self.db.execute("INSERT OR REPLACE INTO kv VALUES (?, ?)", (key, value))

    def get(self, key: str) -> bytes:
        return self.db.execute("SELECT value FROM kv WHERE key = ?", (key,)).fetchone()[0]

    def append(self, values: list[bytes]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany("INSERT INTO list (value) VALUES (?)", [(each,) for each in values])
        self.db.execute("COMMIT")

    def last(self, most: int) -> list[bytes]:
        asked = self.db.execute("SELECT value FROM list ORDER BY id DESC LIMIT ?", (most,))
        return [value for (value,) in asked]


def play_sizes(agent: holdfast.Namespace, peer: Peer, rounds: int) -> dict[int, Times]:
    times: dict[int, Times] = {size: defaultdict(list) for size in SIZES}
    for _ in range(rounds):
        for size in SIZES:
            value, key, spent = os.urandom(size), f"k{size}", times[size]
            with timed(spent, "set"):
                agent.store.set("n", key, value)
            with timed(spent, "get"):
                found = agent.store.get("n", key)
            assert found == value
            with timed(spent, "SQLite set"):
                peer.set(key, value)
            with timed(spent, "SQLite get"):
                assert peer.get(key) == value
        agent.snapshot()
        for size in SIZES:
            with timed(times[size], "get kept"):
                agent.store.get("n", f"k{size}")
    return times


def play_lists(agent: holdfast.Namespace, peer: Peer, rounds: int) -> Times:
    times: Times = defaultdict(list)
    items = [{"role": "user", "content": os.urandom(200).hex()} for _ in range(LISTED)]
    packed = [holdfast.dumps(each) for each in items]
    agent.store.append("list", items)
    peer.append(packed)
    for number in range(rounds):
        two = items[:2]
        name = "kept " * (number >= rounds // 2)
        if number == rounds // 2:
            agent.snapshot()
        with timed(times, f"append two {name}"):
            agent.store.append("list", two)
        with timed(times, f"last 20 {name}"):
            agent.store.items("list", reverse=True, limit=20)
        with timed(times, f"all {name}"):
            agent.store.items("list")
        with timed(times, "SQLite append two"):
            peer.append([holdfast.dumps(each) for each in two])
        with timed(times, "SQLite last 20"):
            _ = [holdfast.loads(each) for each in peer.last(20)]
        with timed(times, "SQLite all"):
            _ = [holdfast.loads(each) for each in peer.last(10_000)]
        for _ in two:
            agent.store.pop("list")
        peer.db.execute("DELETE FROM list WHERE id > ?", (LISTED,))
    return times


def play_ends(vault: holdfast.Holdfast, rounds: int) -> Times:
    """The last key of few and of many: pending, and in a snapshot."""
    times: Times = defaultdict(list)
    agents = dict[tuple[int, str], holdfast.Namespace]()
    for count in (FEW, MANY):
        for kind in ("pending", "kept"):
            agent = agents[count, kind] = vault.namespace(f"{kind}-{count}")
            agent.store.set_many([("n", f"{number:08}", number) for number in range(count)])
            if kind == "kept":
                agent.snapshot()
    for _ in range(rounds):
        for (count, kind), agent in agents.items():
            with timed(times, f"last key of {count:,} {kind}"):
                agent.store.max_key("n", "0")
    return times


def table(rows: dict[str, Times]) -> None:
    columns = list(dict.fromkeys(name for times in rows.values() for name in times))
    print("\n| |", " | ".join(columns), "|")
    print("|---" * (len(columns) + 1) + "|")
    for name, times in rows.items():
        shown = [f"{statistics.median(times[each]) * 1e6:,.0f}" for each in columns]
        print(f"| {name} |", " | ".join(shown), "|")


def play(url: str | None, folder: Path, rounds: int, parts: list[str]) -> None:
    place = url or folder / "vault"
    with holdfast.open(place, objects=folder / "packs" if url else None) as vault:
        agent, peer = vault.namespace("agent"), Peer(folder)
        if "sizes" in parts:
            sizes = play_sizes(agent, peer, rounds)
            table({f"{size:,} B": times for size, times in sizes.items()})
        lines = play_lists(agent, peer, rounds) if "lists" in parts else {}
        lines |= play_ends(vault, rounds) if "ends" in parts else {}
        for name, spent in lines.items():
            print(f"{name.strip():<32} {statistics.median(spent) * 1e6:>8,.0f} µs")
        peer.db.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--folder", type=Path, help="where; else where temporary files are")
    parser.add_argument("--parts", nargs="+", default=["sizes", "lists", "ends"])
    parser.add_argument("--postgres", action="store_true", help="catalog in PostgreSQL")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=options.folder))
    print("PostgreSQL" if options.postgres else "SQLite", "catalog; medians in µs")
    if options.postgres:
        from holdfast.testing.postgres import PostgresServer  # noqa: PLC0415 - only when asked for

        with PostgresServer() as server:
            play(server.dsn(server.create_database()), folder, options.rounds, options.parts)
    else:
        play(None, folder, options.rounds, options.parts)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
