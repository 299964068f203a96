"""Kills servers at random, of three that share one PostgreSQL and one directory of packs.

    python bench/soak_servers.py [--minutes 10] [--clients 6] [--seed 1] [--failover]

Clients write files, keys and turns, and take snapshots, each request at a server of its choice.
One that is not answered, or told to come later, is asked of another, under the same name, until it
is. Meanwhile servers are killed (SIGKILL) and started anew, and collections run. In the end every
server has to show everything that was acknowledged, and `verify` has to find nothing wrong.

With `--failover` the database has a synchronous replica. Half-way the primary is killed, and five
seconds later the replica takes its place: nothing may be lost by that either, and the first answer
has to come within two seconds.

It ends with 1 if anything is missing.
"""

import argparse
import itertools
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg

import holdfast
from holdfast.errors import Busy
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.servers import ADMIN_KEY, API_KEY, Server

SERVERS = 3
DURABLE = {"fsync": "on", "full_page_writes": "on", "autovacuum": "on"}
MOST_AFTER_PROMOTION_S = 2.0
PROMOTED_AFTER_S = 5.0
COLLECTS_S = 10.0
TRIES_S = 120.0
"""How long a client tries; the database is away for some seconds of it."""


@dataclass
class Seen:
    """What clients were told."""

    files: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    keys: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    turns: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    snapshots: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    longest_s: float = 0.0
    again: int = 0
    answered: list[float] = field(default_factory=list[float])
    """When each was acknowledged."""

    @property
    def acknowledged(self) -> int:
        made = (self.turns, self.snapshots)
        return (
            len(self.files) + len(self.keys) + sum(len(v) for each in made for v in each.values())
        )


class Agent:
    """A client with a namespace of its own."""

    def __init__(self, number: int, servers: list[Server], seen: Seen, seed: int) -> None:
        self.name, self._servers, self._seen = f"agent-{number}", servers, seen
        self._draw = random.Random(f"{seed} {number}")
        self._numbers = itertools.count()
        self._http = httpx.Client(trust_env=False, timeout=30)

    def play(self, stop: threading.Event) -> None:
        session = {"agent_id": "bot", "session_id": f"s-{self.name}"}
        self._ask("POST", "/v1/sessions", json=session)
        self._seen.turns[self.name], self._seen.snapshots[self.name] = [], set()
        while not stop.is_set():
            self._act()

    def _act(self) -> None:
        number, seen, text = next(self._numbers), self._seen, f"{self._draw.getrandbits(64):x}"
        kind = self._draw.choices(("file", "key", "turn", "snapshot"), (5, 2, 2, 1))[0]
        if kind == "file":
            path = f"{number}.txt"
            content = text * self._draw.choice((1, 200, 30_000))
            self._ask("PUT", f"/files/{path}", content=content.encode())
            seen.files[self.name, path] = content
        elif kind == "key":
            value = {"namespace": "soak", "key": str(number), "value": number}
            self._ask("PUT", "/v1/store/value", json=value)
            seen.keys[self.name, str(number)] = number
        elif kind == "turn":
            turn = {"input": text, "output": "yes"}
            self._ask("POST", f"/v1/sessions/s-{self.name}/turns", json=turn)
            seen.turns[self.name].append(text)
        else:
            made = self._ask("POST", "/v1/snapshots", json={"label": f"l-{number}"})
            seen.snapshots[self.name].add(made.json()["snapshot_id"])
        seen.answered.append(time.monotonic())

    def _ask(self, method: str, path: str, **more: object) -> httpx.Response:
        began, name = time.monotonic(), f"{self.name}-{self._draw.getrandbits(64):x}"
        headers = {
            "Authorization": f"Bearer {API_KEY}",
            "X-Namespace": self.name,
            "Idempotency-Key": name,
        }
        last = ""
        while time.monotonic() - began < TRIES_S:
            server = self._draw.choice(self._servers)
            try:
                url = f"{server.url}{path}"
                answer = self._http.request(method, url, headers=headers, **more)  # pyright: ignore[reportArgumentType] - as httpx takes it
            except httpx.TransportError as exc:
                last = repr(exc)
            else:
                if answer.is_success:
                    self._seen.longest_s = max(self._seen.longest_s, time.monotonic() - began)
                    return answer
                last = f"{answer.status_code} {answer.text[:200]}"
                # The one that was killed may have claimed it: it is free some seconds later.
                if answer.status_code not in (409, 503):
                    break
            self._seen.again += 1
            time.sleep(0.1)
        message = f"{self.name} {method} {path} was not answered: {last}"
        raise AssertionError(message)


def kill_some(servers: list[Server], stop: threading.Event, seed: int) -> int:
    """Kills a server every few seconds, and starts it anew; returns how often."""
    draw, kills = random.Random(seed), 0
    while not stop.wait(draw.uniform(1, 6)):
        server = draw.choice(servers)
        server.kill()
        kills += 1
        stop.wait(draw.uniform(0, 2))
        while True:
            try:
                server.start()
                break
            except AssertionError:  # The database may be away: then it does not start.
                server.kill()
                time.sleep(0.5)
    return kills


def collect_some(servers: list[Server], stop: threading.Event, seed: int) -> int:
    """Collects now and then, on any server; returns how often it was done."""
    draw, done = random.Random(seed), 0
    while not stop.wait(COLLECTS_S):
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        url = f"{draw.choice(servers).url}/v1/workspaces/me/collect"
        with suppress(httpx.TransportError):
            answer = httpx.post(url, headers=headers, trust_env=False, timeout=60)
            done += answer.is_success
            damaged = answer.json().get("damaged") if answer.is_success else None
            assert not damaged, damaged
    return done


@contextmanager
def database(*, failover: bool) -> Generator[tuple[str, PostgresServer, PostgresServer | None]]:
    """Starts one, with a replica that has what was acknowledged."""
    with ExitStack() as stack:
        primary = stack.enter_context(PostgresServer(settings=DURABLE))
        name = primary.create_database()
        if not failover:
            yield primary.dsn(name), primary, None
            return
        replica = stack.enter_context(PostgresServer(settings=DURABLE, standby_of=primary))
        with psycopg.connect(primary.dsn(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
        one, two = (
            each.dsn(name).partition("@")[2].partition("/")[0] for each in (primary, replica)
        )
        url = f"postgresql://postgres@{one},{two}/{name}?target_session_attrs=read-write"
        yield url, primary, replica


def fail_over(primary: PostgresServer, replica: PostgresServer, seen: Seen) -> float:
    """Kills the primary, and promotes the replica; returns when the first answer came after it."""
    os.kill(primary.pid, signal.SIGKILL)
    time.sleep(PROMOTED_AFTER_S)
    before = len(seen.answered)
    replica.promote()
    promoted_at = time.monotonic()
    while len(seen.answered) == before:
        time.sleep(0.01)
    return seen.answered[before] - promoted_at


def missing(server: Server, seen: Seen) -> list[str]:
    """Returns what was acknowledged, and a server does not show."""
    lost, http = list[str](), httpx.Client(trust_env=False, timeout=60, base_url=server.url)

    def ask(agent: str, path: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {API_KEY}", "X-Namespace": agent}
        return http.get(path, headers=headers)

    for (agent, path), content in seen.files.items():
        if ask(agent, f"/files/{path}").text != content:
            lost.append(f"{agent} {path}")
    for (agent, key), value in seen.keys.items():
        answer = ask(agent, f"/v1/store/value?namespace=soak&key={key}")
        if not answer.is_success or answer.json()["value"] != value:
            lost.append(f"{agent} key {key}")
    for agent, turns in seen.turns.items():
        with holdfast.Client(API_KEY, url=server.url, namespace=agent) as client:
            found = [turn.input.content for turn in client.sessions.iter_turns(f"s-{agent}")]
            lost += [f"{agent} turn {turn}" for turn in turns if found.count(turn) != 1]
            named = {each.id for each in client.timeline(limit=None)}
            lost += [f"{agent} {snapshot}" for snapshot in seen.snapshots[agent] - named]
    return lost


def soak(options: argparse.Namespace, folder: Path) -> bool:
    seen, stop, after_s = Seen(), threading.Event(), None
    with ExitStack() as stack:
        url, primary, replica = stack.enter_context(database(failover=options.failover))
        packs = str(folder / "packs")
        environ = {
            "HOLDFAST_DATABASE_URL": url,
            "HOLDFAST_OBJECTS_URL": packs,
            "HOLDFAST_LOG_REQUESTS": "0",
        }
        servers = [
            Server(data=folder / f"data-{n}", log=folder / f"server-{n}.log", environ=environ)
            for n in range(SERVERS)
        ]
        for server in servers:
            stack.callback(server.kill)
            server.start()
        agents = [Agent(n, servers, seen, options.seed) for n in range(options.clients)]
        threads = stack.enter_context(ThreadPoolExecutor(options.clients + 2))
        playing = [threads.submit(agent.play, stop) for agent in agents]
        killing = threads.submit(kill_some, servers, stop, options.seed)
        collecting = threads.submit(collect_some, servers, stop, options.seed)
        began = time.monotonic()
        try:
            while time.monotonic() - began < options.minutes * 60:
                time.sleep(0.5)
                for each in playing:
                    if each.done():
                        each.result()
                is_half = time.monotonic() - began > options.minutes * 30
                if replica is not None and after_s is None and is_half:
                    after_s = fail_over(primary, replica, seen)
        finally:
            stop.set()
        for each in playing:
            each.result()
        kills, collections = killing.result(), collecting.result()
        lost = {line for server in servers for line in missing(server, seen)}
        with holdfast.open(url, objects=packs) as vault:
            is_sound = verified(vault)
    print(
        f"{kills} kills, {collections} collections, {seen.acknowledged} acknowledged, "
        f"{len(lost)} lost, {seen.again} asked again, the longest took {seen.longest_s:.1f} s, "
        f"verify {'found nothing' if is_sound else 'FOUND SOMETHING'}"
    )
    for line in sorted(lost)[:20]:
        print("  lost:", line)
    is_quick = True
    if after_s is not None:
        print(f"first answer {after_s:.2f} s after the replica was promoted")
        is_quick = after_s <= MOST_AFTER_PROMOTION_S
    return not lost and is_sound and is_quick


def verified(vault: holdfast.Holdfast) -> bool:
    """Verifies once nobody else is at it: a lock of one that was killed ends by itself."""
    while True:
        try:
            return vault.verify().ok
        except Busy:
            time.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--failover", action="store_true")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder otherwise")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="holdfast-soak-"))
    print(f"seed {options.seed}, in {folder}")
    sys.exit(0 if soak(options, folder) else 1)


if __name__ == "__main__":
    main()
