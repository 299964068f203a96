"""A machine is lost, and its backup is brought back elsewhere: how much is gone, and for how long.

    python bench/drill_backup.py                           # some twenty seconds
    python bench/drill_backup.py --namespaces 50 --seconds 60

A server, PostgreSQL and SeaweedFS have agents that write and take snapshots. `holdfast backup` is
made beside them, and they go on for a while. Then all of it is killed at once, with its data: what
is left is the directory of the backup. `holdfast reinstate` makes a vault of it in another
PostgreSQL and another bucket, a server is started there, and `holdfast verify` reads it all.

It prints how much is lost (RPO: all that was acknowledged before the backup began is there), and
how long it took until somebody was answered again (RTO). It ends with 1 if a head cannot be read to
its last byte, if something is lost that was acknowledged before the backup began, or if a snapshot
shows anything else than it did.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import holdfast
from holdfast.errors import NotFound, Unavailable
from holdfast.testing.buckets import SeaweedServer
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.servers import API_KEY, COMMAND, Server

FILES = 20
"""Of each agent, which writes them in turn."""

LARGE_BYTES = 300_000
"""What goes into the bucket by itself: smaller files lie in the catalog for a while."""


@dataclass(frozen=True)
class Place:
    """A database and a bucket of their own, and what leads to them."""

    environ: Mapping[str, str]

    def run(self, *words: str) -> object:
        """Runs a command of holdfast; returns what it answers."""
        done = subprocess.run(
            [*COMMAND, "--json", *words],
            env={**os.environ, **self.environ},
            stdout=subprocess.PIPE,
            check=True,
        )
        return json.loads(done.stdout)


@contextmanager
def new_place(folder: Path) -> Generator[Place]:
    with PostgresServer() as postgres, SeaweedServer() as bucket:
        yield Place(
            {
                "HOLDFAST_DATABASE_URL": postgres.dsn(postgres.create_database()),
                "HOLDFAST_OBJECTS_URL": bucket.url("packs"),
                "HOLDFAST_CACHE": str(folder / "cache"),
                **bucket.environ,
            }
        )


@contextmanager
def serving(place: Place, folder: Path) -> Generator[Server]:
    server = Server(data=folder / "data", log=folder / "server.log", environ=place.environ)
    try:
        yield server.start()
    finally:
        server.kill()


@dataclass(frozen=True)
class Written:
    """What was acknowledged."""

    at: float
    """When, by this process's clock."""
    content: bytes


class Agent(threading.Thread):
    """Writes its files one after the other, again and again, and takes snapshots."""

    def __init__(self, url: str, number: int) -> None:
        super().__init__()
        self.namespace, self._url = f"agent-{number}", url
        self.files = dict[str, list[Written]]()
        """All that each file was, in its order."""
        self.snapshots = dict[str, tuple[float, dict[str, bytes]]]()
        """When each was acknowledged, and what it shows."""

    def run(self) -> None:
        number = 0
        # What is under way when the server is killed is acknowledged to nobody.
        with (
            suppress(Unavailable),
            holdfast.Client(API_KEY, url=self._url, namespace=self.namespace, retries=0) as client,
        ):
            while True:
                name, size = f"{number % FILES}.bin", LARGE_BYTES if number % FILES == 0 else 200
                content = os.urandom(size)
                client.files.write(name, content)
                self.files.setdefault(name, []).append(Written(time.monotonic(), content))
                number += 1
                if number % 25 == 0:
                    made = client.snapshot()
                    now = {name: past[-1].content for name, past in self.files.items()}
                    self.snapshots[made.id] = (time.monotonic(), now)


def compare(agents: list[Agent], server: Server, begun: float) -> tuple[int, int, float]:
    """Returns how many files and snapshots are not as they were, and when the newest was made."""
    wrong_files = wrong_snapshots = 0
    newest = 0.0
    for agent in agents:
        with holdfast.Client(API_KEY, url=server.url, namespace=agent.namespace) as client:
            for name, past in agent.files.items():
                safe = [each for each in past if each.at < begun]
                found = client.files.read(name) if safe else None
                kept = [each for each in past if each.content == found]
                # What it was when the backup began, or anything that came after that.
                if safe and (not kept or kept[0].at < safe[-1].at):
                    wrong_files += 1
                newest = max(newest, *(each.at for each in kept), 0.0)
            for snapshot, (at, shown) in agent.snapshots.items():
                try:
                    seen = client.at(snapshot).files
                    is_as_it_was = all(seen.read(each) == shown[each] for each in shown)
                except NotFound:
                    is_as_it_was = at >= begun  # It was made meanwhile.
                wrong_snapshots += not is_as_it_was
    return wrong_files, wrong_snapshots, newest


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--namespaces", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=4, help="of work before and after it")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-drill-")))
        (folder / "first").mkdir()
        (folder / "second").mkdir()
        lost = stack.enter_context(ExitStack())
        place = lost.enter_context(new_place(folder / "first"))
        server = lost.enter_context(serving(place, folder / "first"))
        agents = [Agent(server.url, number) for number in range(given.namespaces)]
        for agent in agents:
            agent.start()
        time.sleep(given.seconds)
        begun = time.monotonic()
        place.run("backup", str(folder / "backup"))
        backup_s = time.monotonic() - begun
        time.sleep(given.seconds)
        server.kill()
        gone = time.monotonic()
        lost.close()  # The database and the bucket, with all that was in them.
        for agent in agents:
            agent.join()
        size = sum(each.stat().st_size for each in (folder / "backup").rglob("*") if each.is_file())
        # What a new machine has before: a database and a bucket, with nothing in them.
        place = stack.enter_context(new_place(folder / "second"))
        empty = time.monotonic()
        place.run("reinstate", str(folder / "backup"), place.environ["HOLDFAST_DATABASE_URL"])
        reinstated = time.monotonic()
        server = stack.enter_context(serving(place, folder / "second"))
        with holdfast.Client(API_KEY, url=server.url, namespace="agent-0") as client:
            client.files.write("after.txt", "after")
        answered = time.monotonic()
        verified = place.run("verify")
        files, snapshots, newest = compare(agents, server, begun)
    made = sum(len(agent.snapshots) for agent in agents)
    written = sum(len(past) for agent in agents for past in agent.files.values())
    print(
        f"{given.namespaces} namespaces, {written} writes, {made} snapshots;"
        f" the backup has {size / 1e6:.1f} MB and took {backup_s:.1f} s beside them\n"
        f"RPO: the newest write that is there was made {gone - newest:.1f} s before the loss,"
        f" and the backup was begun {gone - begun:.1f} s before it\n"
        f"RTO: {answered - empty:.1f} s with a database and a bucket that are there:"
        f" {reinstated - empty:.1f} s to reinstate, {answered - reinstated:.1f} s until a write\n"
        f"verify: {verified}\n"
        f"{files} files and {snapshots} snapshots are not as they were"
    )
    return 1 if files or snapshots else 0


if __name__ == "__main__":
    sys.exit(main())
