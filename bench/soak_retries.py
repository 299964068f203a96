"""Kills servers, workers and databases under clients that try again: nothing is lost or doubled.

    python bench/soak_retries.py                                  # 50 kills on SQLite
    python bench/soak_retries.py --catalog postgres --kills 20
    python bench/soak_retries.py --catalog postgres --victims database --kills 10

Clients of our own, which repeat what was not answered by themselves, add turns, update states,
write files and values, take snapshots and remember, one thing after the other, each with a number
of its own. Meanwhile the server with its two workers, or one worker, or a process of PostgreSQL,
whose first process then ends all others and recovers, is killed with SIGKILL. In the end what is
there is compared with what was acknowledged: each thing once, and one event for each, numbered
without a gap. It ends with 1 if something is wrong.
"""

import argparse
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast import Client, wiring
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.servers import API_KEY, Server, running_server

CLIENTS = 6
PATIENCE_S = 180
PAUSES_S = 0.3, 1.5
"""Between two kills: enough for clients to get something done, and to be cut short in it."""

TOLD = {
    "turn": "turn.added",
    "state": "state.updated",
    "file": "file.written",
    "memory": "memory.created",
    "snapshot": "snapshot.created",
}
"""Which event tells of what clients do; values of the store are not told."""


@dataclass
class Caller:
    """Does one thing after the other in a namespace of its own, and notes what it was told."""

    server: Server
    number: int
    chances: random.Random
    done: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    longest_s: float = 0.0
    failure: str | None = None

    def client(self) -> Client:
        return Client(
            API_KEY, namespace=f"caller-{self.number}", url=self.server.url, patience_s=PATIENCE_S
        )

    def run(self, is_over: threading.Event) -> None:
        try:
            with self.client() as client:
                client.sessions.create("agent", session_id="sess_1")
                for turn in range(1 << 30):
                    if is_over.is_set():
                        return
                    begun = time.monotonic()
                    what = self.chances.choice([*TOLD, "turn", "value"])
                    self.act(client, what, f"{self.number}-{turn}")
                    self.done.setdefault(what, []).append(f"{self.number}-{turn}")
                    self.longest_s = max(self.longest_s, time.monotonic() - begun)
        except Exception as exc:  # noqa: BLE001 - told by who waits for this one
            self.failure = f"caller {self.number}: {exc!r}"

    def act(self, client: Client, what: str, name: str) -> None:
        match what:
            case "turn":
                client.sessions.add_turn("sess_1", input=name, output="heard")
            case "state":
                client.sessions.update_state("sess_1", {name: True})
            case "file":
                client.files.write(f"files/{name}", name * self.chances.choice([1, 1000]))
            case "memory":
                client.memory.add(name)
            case "snapshot":
                client.snapshot(name)
            case _:
                client.store.set("values", name, name)

    def check(self, client: Client) -> Generator[str]:
        """Yields what is wrong with what is there."""
        there = {
            "turn": [turn.input["content"] for turn in client.sessions.iter_turns("sess_1")][::-1],
            "state": list(client.sessions.get_state("sess_1").state),
            "file": [info.path.split("/")[-1] for info in client.files.iter("files")],
            "memory": [memory.content for memory in client.memory.iter()],
            "snapshot": [each.label or "" for each in client.snapshots.iter()],
            "value": list(client.store.iter_keys("values")),
        }
        for what, names in there.items():
            found, wanted = Counter(names), Counter(self.done.get(what, []))
            yield from (f"{what} {name}: {n} times" for name, n in found.items() if n > 1)
            yield from (f"{what} {name}: lost" for name in wanted - found)
            yield from (f"{what} {name}: nobody was told" for name in found - wanted)
        if there["turn"] != self.done.get("turn", []):
            yield f"turns of caller {self.number} are not in their order"
        version, updates = client.sessions.get_state("sess_1").version, self.done.get("state", [])
        if version != len(updates):
            yield f"version {version} after {len(updates)} updates"


@dataclass
class Scene:
    """What is killed, and how often it was."""

    server: Server
    postgres: PostgresServer | None
    kills: Counter[str] = field(default_factory=Counter[str])

    def kill(self, victim: str) -> None:
        """Kills something with SIGKILL, and sees to it that it comes back."""
        assert self.server.process is not None
        match victim:
            case "server":
                self.server.kill()
                self.server.start()
            case "worker":
                pids = children_of(self.server.process.pid, b"spawn_main")
                if not pids:
                    return
                os.kill(random.choice(pids), signal.SIGKILL)
            case _:
                assert self.postgres is not None
                # All are ended by the first process, which recovers as after a crash.
                pids = children_of(self.postgres.pid, b"holdfast")
                if not pids:
                    return
                os.kill(pids[0], signal.SIGKILL)
        self.kills[victim] += 1

    def feed(self) -> Iterator[tuple[int, str, str]]:
        """Yields number, type and namespace of all events."""
        url = self.server.environ.get("HOLDFAST_DATABASE_URL")
        objects = str(self.server.data / "packs") if url else None
        with wiring.open_vault(url or str(self.server.data), objects=objects) as vault:
            after = 0
            while page := vault.events.page(after=after):
                for event in page:
                    yield event.number, event.type, event.namespace or ""
                after = page[-1].number


def children_of(pid: int, named: bytes) -> list[int]:
    """Returns the children of a process whose command line holds a word."""
    found: list[int] = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue  # It is gone by now.
        if named in command:
            found.append(int(child))
    return found


@contextmanager
def scene(catalog: str, folder: Path) -> Generator[Scene]:
    with ExitStack() as stack:
        postgres, environ = None, dict[str, str]()
        if catalog == "postgres":
            postgres = stack.enter_context(PostgresServer())
            environ["HOLDFAST_DATABASE_URL"] = postgres.dsn(postgres.create_database())
        server = running_server(folder / catalog, "--workers", "2", environ=environ)
        yield Scene(stack.enter_context(server), postgres)


def play(
    scene: Scene, callers: list[Caller], choose: Callable[[], str], kills: int, seed: int
) -> None:
    """Lets callers work while things are killed."""
    chances, is_over, begun = random.Random(seed), threading.Event(), time.perf_counter()
    threads = [threading.Thread(target=caller.run, args=[is_over]) for caller in callers]
    for thread in threads:
        thread.start()
    try:
        while scene.kills.total() < kills and not any(caller.failure for caller in callers):
            is_over.wait(chances.uniform(*PAUSES_S))
            scene.kill(choose())
            if scene.kills.total() % 10 == 0:
                print(f"{scene.kills.total():4} kills, {time.perf_counter() - begun:5.0f} s")
        is_over.wait(1)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def check(scene: Scene, callers: list[Caller]) -> list[str]:
    """Returns what is wrong."""
    wrong = [caller.failure for caller in callers if caller.failure]
    for caller in callers:
        with caller.client() as client:
            wrong += caller.check(client)
    scene.server.stop()
    told, last = Counter[tuple[str, str]](), 0
    for number, kind, namespace in scene.feed():
        if number != last + 1:
            wrong.append(f"event {number} follows {last}")
        last = number
        told[namespace, kind] += 1
    for caller in callers:
        for what, kind in TOLD.items():
            found, wanted = told[f"caller-{caller.number}", kind], len(caller.done.get(what, []))
            if found != wanted:
                wrong.append(f"caller {caller.number}: {found} events {kind} for {wanted}")
    print(f"{last} events, numbered 1 to {last}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--catalog", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--victims", nargs="+", choices=["server", "worker", "database"])
    options = parser.parse_args()
    victims = options.victims or ["server", "worker"]
    if "database" in victims and options.catalog != "postgres":
        parser.error("only PostgreSQL is a process that can be killed")
    chances = random.Random(options.seed)
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-soak-") as folder,
        scene(options.catalog, Path(folder)) as played,
    ):
        callers = [
            Caller(played.server, number, random.Random(options.seed + number))
            for number in range(CLIENTS)
        ]
        play(played, callers, lambda: chances.choice(victims), options.kills, options.seed)
        wrong = check(played, callers)
    counts = Counter[str]()
    for caller in callers:
        counts.update({what: len(names) for what, names in caller.done.items()})
    done = ", ".join(f"{what} {n}" for what, n in counts.items())
    killed = ", ".join(f"{n} of the {victim}" for victim, n in played.kills.items())
    print(f"{options.catalog}: {played.kills.total()} kills ({killed})")
    print(f"acknowledged: {done}; the longest call took {max(c.longest_s for c in callers):.1f} s")
    print("\n".join(wrong) if wrong else "0 lost, 0 doubled, events without gap or repeat")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
