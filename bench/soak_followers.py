"""Followers of events beside writers, and across what sets a database back: who misses what.

    python bench/soak_followers.py                        # all, some two minutes
    python bench/soak_followers.py --only tail --catalog postgres --seconds 20

tail: `trove events tail`, as its vendor ships it, beside 16 writers of a server. Each event that
the server has must have been printed once, and in order.

backup: followers go on by the number, or by the instant, of the last event they have seen;
meanwhile a backup is made and brought back as another vault, in which others write on. promotion: a
standby of PostgreSQL is promoted once it has caught up, and the follower goes on there. Each must
miss and repeat nothing.
It ends with 1 if something is wrong.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import httpx
import psycopg
from trove_sdk import TroveClient

import holdfast
from holdfast.instants import from_us
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.servers import Server, running_server

WRITERS = 16
INTERVAL_S = 0.1
PATIENCE_S = 60


@contextmanager
def started(catalog: str, folder: Path) -> Generator[Server]:
    with ExitStack() as stack:
        environ = dict[str, str]()
        if catalog == "postgres":
            postgres = stack.enter_context(PostgresServer())
            environ["HOLDFAST_DATABASE_URL"] = postgres.dsn(postgres.create_database())
        yield stack.enter_context(running_server(folder, environ=environ))


def all_events(server: Server) -> list[str]:
    """Returns the ids of all files that were written, oldest first."""
    found, cursor = list[str](), None
    where = f"{server.url}/v1/workspaces/{server.workspace_id}/events"
    with httpx.Client(headers={"Authorization": f"Bearer {server.admin_key}"}) as client:
        while True:
            wanted: dict[str, str] = {"limit": "200", "types": "file.written"}
            if cursor:
                wanted["cursor"] = cursor
            answer = client.get(where, params=wanted)
            assert answer.is_success, answer.text
            page = answer.json()
            found += [event["event_id"] for event in page["events"]]
            cursor = page.get("next_cursor")
            if not cursor:
                return found[::-1]


def tail(catalog: str, seconds: float, folder: Path) -> bool:
    with started(catalog, folder) as server:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "NO_PROXY": "127.0.0.1",
            "TROVE_API_KEY": server.admin_key,
            "TROVE_WORKSPACE_ID": server.workspace_id,
            "TROVE_BASE_URL": server.url,
        }
        program = Path(sys.executable).with_name("trove")
        words = ["events", "tail", "--json", "--types", "file.written", "--since", "5m"]
        printed = list[str]()
        with subprocess.Popen(
            [program, *words, "--interval", str(INTERVAL_S)], env=environ, stdout=subprocess.PIPE
        ) as process:
            reader = threading.Thread(target=_read, args=(process.stdout, printed))
            reader.start()
            counts = _write_from_many(server, seconds)
            there = all_events(server)
            deadline = time.monotonic() + PATIENCE_S
            while len(printed) < len(there) and time.monotonic() < deadline:
                time.sleep(INTERVAL_S)
            process.terminate()
            reader.join()
    missed, repeated = len(set(there) - set(printed)), len(printed) - len(set(printed))
    in_order = [event for event in there if event in set(printed)] == printed
    print(
        f"tail, {catalog}: {sum(counts)} files written by {WRITERS}, {len(there)} events, "
        f"{missed} missed, {repeated} repeated, {'in' if in_order else 'OUT OF'} order"
    )
    return len(there) == sum(counts) and not missed and not repeated and in_order


def _read(lines: IO[bytes] | None, printed: list[str]) -> None:
    printed.extend(json.loads(line)["event_id"] for line in lines or ())


def _write_from_many(server: Server, seconds: float) -> list[int]:
    counts, end = [0] * WRITERS, time.monotonic() + seconds

    def write(place: int) -> None:
        with TroveClient(server.api_key, f"agent-{place}", base_url=server.url) as client:
            while time.monotonic() < end:
                client.write(f"file-{counts[place] % 5}", str(counts[place]))
                counts[place] += 1

    threads = [threading.Thread(target=write, args=(place,)) for place in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


class Follower:
    """Goes on by the number of the last event that it has seen."""

    def __init__(self) -> None:
        self.number, self.paths = 0, list[str]()

    def look(self, vault: holdfast.Holdfast) -> None:
        while True:
            found = vault.events.page(after=self.number, limit=50)
            if not found:
                return
            told = [json.loads(event.data) for event in found if event.type == "file.written"]
            self.paths += [data["path"].removeprefix("workspace/") for data in told]
            self.number = found[-1].number


class Watcher(Follower):
    """Goes on by the instant of the last event that it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.since = datetime(2000, 1, 1, tzinfo=UTC)

    def look(self, vault: holdfast.Holdfast) -> None:
        while found := vault.events.list(since=self.since, limit=200)[0]:
            told = [json.loads(event.data) for event in found if event.type == "file.written"]
            self.paths += [data["path"].removeprefix("workspace/") for data in told]
            self.since = from_us(max(event.created_us for event in found))


def judge(name: str, follower: Follower, wanted: list[str]) -> bool:
    missed = [path for path in wanted if path not in follower.paths]
    repeated = len(follower.paths) - len(set(follower.paths))
    print(f"{name}: {len(wanted)} events, {len(missed)} missed, {repeated} repeated")
    return not missed and not repeated


def write(vault: holdfast.Holdfast, name: str) -> list[str]:
    paths = [f"{name}-{number}" for number in range(40)]
    for path in paths:
        vault.namespace("agent").files.write(path, path)
    return paths


def backup(folder: Path) -> bool:
    follower, watcher, wanted = Follower(), Watcher(), list[str]()
    with holdfast.open(folder / "vault") as vault:
        vault.events.listen()
        wanted += write(vault, "before")
        follower.look(vault)
        watcher.look(vault)
        wanted += write(vault, "between")
        vault.backup(folder / "backup")
        # Lost with what is set back: the follower has seen it, and nobody else will.
        lost = write(vault, "lost")
        follower.look(vault)
        watcher.look(vault)
    holdfast.reinstate(folder / "backup", folder / "again")
    with holdfast.open(folder / "again") as vault:
        wanted += write(vault, "after")
        follower.look(vault)
        watcher.look(vault)
    by_instant = judge("backup, by instant", watcher, wanted + lost)
    return judge("backup, by number", follower, wanted + lost) and by_instant


def promotion(folder: Path) -> bool:
    follower, wanted = Follower(), list[str]()
    with PostgresServer() as first:
        name = first.create_database()
        with PostgresServer(standby_of=first) as second:
            with holdfast.open(first.dsn(name), objects=folder / "packs") as vault:
                vault.events.listen()
                wanted += write(vault, "before")
                follower.look(vault)
                wanted += write(vault, "between")
            with psycopg.connect(first.dsn(name)) as connection:
                row = connection.execute("SELECT pg_current_wal_lsn()").fetchone()
            with psycopg.connect(second.dsn(name), autocommit=True) as connection:
                query = "SELECT pg_last_wal_replay_lsn() >= %s"
                while connection.execute(query, row).fetchone() != (True,):
                    time.sleep(0.05)
            first.stop()
            second.promote()
            with holdfast.open(second.dsn(name), objects=folder / "packs") as vault:
                wanted += write(vault, "after")
                follower.look(vault)
    return judge("promotion", follower, wanted)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", choices=["tail", "backup", "promotion"], action="append")
    parser.add_argument("--catalog", choices=["sqlite", "postgres"], action="append")
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    wanted, passed = options.only or ["tail", "backup", "promotion"], list[bool]()
    with tempfile.TemporaryDirectory(prefix="holdfast-soak-") as name:
        folder = Path(name)
        if "tail" in wanted:
            for catalog in options.catalog or ("sqlite", "postgres"):
                (folder / catalog).mkdir()
                passed.append(tail(catalog, options.seconds, folder / catalog))
        if "backup" in wanted:
            passed.append(backup(folder))
        if "promotion" in wanted:
            passed.append(promotion(folder))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
