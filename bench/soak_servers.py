"""Kills servers at random, of three that share one PostgreSQL and one bucket.

    python bench/soak_servers.py                        # ten minutes
    python bench/soak_servers.py --minutes 2 --seed 7
    python bench/soak_servers.py --minutes 2 --failover --packs directory

Clients write files, keys, turns, states and memories, and take snapshots: some over HTTP at a
server of their choice, some by the vendors' own packages (`trove-sdk`, `statebase`) behind a
balancer. What is not answered, or told to come later, is asked again until it is. Meanwhile servers
are killed (SIGKILL) and started anew, collections run, somebody follows all events, and a webhook
is told of some. In the end:

- everything that was acknowledged is there, whichever server is asked, and `verify` finds nothing;
- the follower has heard of each event once, and in order;
- the webhook's receiver has missed nothing, and heard twice of nothing but what was on its way when
  a server was killed.

With `--failover` the database has a synchronous replica. Half-way the primary is killed while all
servers are asked to collect, and five seconds later the replica takes its place: nothing may be
lost by that either, no damage be told, and the first answer has to come within two seconds.

The bucket is SeaweedFS where its package is installed, else moto's; `--packs` chooses.
It ends with 1 if anything is missing.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import httpx
import psycopg
from servers_clients import Agent, Seen, StateBaseAgent, TroveAgent, Writer, urls_of
from servers_listeners import Follower, Hook, all_events, is_wanted

import holdfast
from holdfast.errors import Busy
from holdfast.testing.buckets import (
    BUCKET,
    BucketNotStarted,
    SeaweedServer,
    environ_of,
    find_weed,
    make_bucket,
)
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.proxies import Proxy
from holdfast.testing.servers import ADMIN_KEY, Server

SERVERS = 3
KINDS = (Agent, Agent, TroveAgent, StateBaseAgent)
"""Of every four clients."""

DURABLE = {"fsync": "on", "full_page_writes": "on", "autovacuum": "on"}
MOST_AFTER_PROMOTION_S = 2.0
PROMOTED_AFTER_S = 5.0
COLLECTS_S = 10.0
LATE_S = 1.0
"""How much later a busy receiver may read what a server had sent before it was killed."""
SETTLED_S = 5.0
"""How long each server may take to find out where its database is, and note what it delivers."""


@dataclass
class Harm:
    """What was done to servers, and when: a beginning and an end."""

    kills: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    failovers: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    collections: int = 0
    after_s: float | None = None
    """How long after a promotion the first answer came."""

    def kill_some(self, servers: list[Server], stop: threading.Event, seed: int) -> None:
        """Kills a server every few seconds, and starts it anew."""
        draw = random.Random(seed)
        while not stop.wait(draw.uniform(1, 6)):
            server = draw.choice(servers)
            server.kill()
            self.kills.append((time.monotonic(), time.monotonic() + LATE_S))
            stop.wait(draw.uniform(0, 2))
            while True:
                try:
                    server.start()
                    break
                except AssertionError:  # The database may be away: then it does not start.
                    server.kill()
                    time.sleep(0.5)

    def collect_some(self, servers: list[Server], stop: threading.Event, seed: int) -> None:
        """Collects now and then, on any server."""
        draw = random.Random(seed)
        while not stop.wait(COLLECTS_S):
            self.collect(draw.choice(servers))

    def collect(self, server: Server) -> None:
        """Collects on a server, and has it find no damage."""
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        with suppress(httpx.TransportError):
            url = f"{server.url}/v1/workspaces/me/collect"
            answer = httpx.post(url, headers=headers, trust_env=False, timeout=60)
            self.collections += answer.is_success
            damaged = answer.json().get("damaged") if answer.is_success else None
            assert not damaged, damaged

    def fail_over(
        self, primary: PostgresServer, replica: PostgresServer, servers: list[Server], seen: Seen
    ) -> None:
        """Kills the primary in the middle of collections, and promotes the replica."""
        began = time.monotonic()
        with ThreadPoolExecutor(SERVERS) as threads:
            collecting = [threads.submit(self.collect, each) for each in servers]
            time.sleep(0.1)
            os.kill(primary.pid, signal.SIGKILL)
            self._promote(replica, seen)
            for each in collecting:
                each.result()
        self.failovers.append((began, time.monotonic() + SETTLED_S))

    def _promote(self, replica: PostgresServer, seen: Seen) -> None:
        time.sleep(PROMOTED_AFTER_S)
        before = len(seen.answered)
        replica.promote()
        promoted_at = time.monotonic()
        while len(seen.answered) == before:
            time.sleep(0.01)
        self.after_s = seen.answered[before] - promoted_at


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


@contextmanager
def store(kind: str, folder: Path) -> Generator[dict[str, str]]:
    """Starts what packs are kept in; gives the variables that say where that is."""
    if kind == "directory":
        yield {"HOLDFAST_OBJECTS_URL": str(folder / "packs")}
    elif kind == "seaweedfs":
        with SeaweedServer() as server:
            yield {**server.environ, "HOLDFAST_OBJECTS_URL": server.url("soak")}
    else:
        from moto.server import ThreadedMotoServer  # noqa: PLC0415 - only when asked for

        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        try:
            host, port = server.get_host_and_port()
            make_bucket(f"http://{host}:{port}")
            found = environ_of(f"http://{host}:{port}")
            yield {**found, "HOLDFAST_OBJECTS_URL": f"s3://{BUCKET}/soak"}
        finally:
            server.stop()


def usual_store() -> str:
    try:
        find_weed()
    except BucketNotStarted:
        return "moto"
    return "seaweedfs"


def soak(options: argparse.Namespace, folder: Path) -> bool:
    seen, stop, harm = Seen(), threading.Event(), Harm()
    with ExitStack() as stack:
        url, primary, replica = stack.enter_context(database(failover=options.failover))
        kept = stack.enter_context(store(options.packs, folder))
        # What verifies in the end is this process.
        os.environ.update(kept)
        os.environ["HOLDFAST_CACHE"] = str(folder / "cache")
        environ = {
            **kept,
            "HOLDFAST_DATABASE_URL": url,
            "HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1",
            "HOLDFAST_LOG_REQUESTS": "0",
        }
        servers = [
            Server(data=folder / f"data-{n}", log=folder / f"server-{n}.log", environ=environ)
            for n in range(SERVERS)
        ]
        for server in servers:
            stack.callback(server.kill)
            server.start()
        balancer = stack.enter_context(Proxy(*(server.port for server in servers)))
        behind = f"http://127.0.0.1:{balancer.port}"
        follower = stack.enter_context(Follower(servers[0], behind))
        hook = stack.enter_context(Hook(servers[0]))
        before = {event for event, _ in all_events(servers[0])}
        writers = writers_of(options, servers, behind, seen)
        threads = stack.enter_context(ThreadPoolExecutor(len(writers) + 2))
        stack.callback(stop.set)
        playing = [threads.submit(each.play, stop) for each in writers]
        harming = [
            threads.submit(harm.kill_some, servers, stop, options.seed),
            threads.submit(harm.collect_some, servers, stop, options.seed),
        ]
        began = time.monotonic()
        while time.monotonic() - began < options.minutes * 60:
            time.sleep(0.5)
            for each in playing:
                if each.done():
                    each.result()
            is_half = time.monotonic() - began > options.minutes * 30
            if replica is not None and harm.after_s is None and is_half:
                harm.fail_over(primary, replica, servers, seen)
        stop.set()
        for each in (*playing, *harming):
            each.result()
        told = [each for each in all_events(servers[0]) if each[0] not in before]
        verdicts = [
            judge_writers(writers, servers, seen, harm),
            judge_follower(follower, [event for event, _ in told]),
            judge_hook(hook, [event for event, kind in told if is_wanted(kind)], harm),
            judge_vault(url, kept["HOLDFAST_OBJECTS_URL"]),
        ]
        if harm.after_s is not None:
            print(f"first answer {harm.after_s:.2f} s after the replica was promoted")
            verdicts.append(harm.after_s <= MOST_AFTER_PROMOTION_S)
    return all(verdicts)


def writers_of(
    options: argparse.Namespace, servers: list[Server], behind: str, seen: Seen
) -> list[Writer]:
    draw, made = random.Random(options.seed), list[Writer]()
    for number, kind in zip(range(options.clients), cycle(KINDS), strict=False):
        urls = (lambda: draw.choice(servers).url) if kind is Agent else lambda: behind
        made.append(kind(number, urls, seen, options.seed))
    return made


def judge_writers(writers: Sequence[Writer], servers: list[Server], seen: Seen, harm: Harm) -> bool:
    with ThreadPoolExecutor(SERVERS) as threads:
        found = threads.map(lambda each: [*each.missing(urls_of(servers))], writers)
        lost = [line for lines in found for line in lines]
    later = ", ".join(f"{count} {name}" for name, count in seen.told_later.most_common())
    print(
        f"{len(harm.kills)} kills, {harm.collections} collections, "
        f"{sum(each.acknowledged for each in writers)} acknowledged, {len(lost)} lost, "
        f"{seen.again} asked again ({later}), the longest took {seen.longest_s:.1f} s"
    )
    for line in sorted(lost)[:20]:
        print("  lost:", line)
    return not lost


def judge_follower(follower: Follower, told: list[str]) -> bool:
    follower.wait_for(told[-1])
    faults = follower.faults(told)
    print(f"follower: {len(told)} events, cut off {follower.cuts} times: {faults or 'all, once'}")
    return not faults


def judge_hook(hook: Hook, told: list[str], harm: Harm) -> bool:
    missed = hook.wait_for(told)
    repeated, unexcused = hook.repeats([*harm.kills, *harm.failovers])
    print(
        f"webhook: {len(told)} events, {len(missed)} missed, {repeated} twice, "
        f"{len(unexcused)} of them with nobody killed"
    )
    return not missed and not unexcused


def judge_vault(url: str, objects: str) -> bool:
    """Verifies once nobody else is at it: a lock of one that was killed ends by itself."""
    with holdfast.open(url, objects=objects) as vault:
        while True:
            try:
                is_sound = vault.verify().ok
                break
            except Busy:
                time.sleep(1)
    print(f"verify {'found nothing' if is_sound else 'FOUND SOMETHING'}")
    return is_sound


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--failover", action="store_true")
    parser.add_argument(
        "--packs", choices=["seaweedfs", "moto", "directory"], default=usual_store()
    )
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder otherwise")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="holdfast-soak-"))
    print(f"seed {options.seed}, packs in {options.packs}, in {folder}", flush=True)
    sys.exit(0 if soak(options, folder) else 1)


if __name__ == "__main__":
    main()
