"""Several writers at once on PostgreSQL: whether they hold each other up, and whether that is fair.

    make bench ONLY=writers
    python bench/bench_writers.py --seconds 5 --rounds 5
    python bench/bench_writers.py --no-fsync

Tenants: eight threads update the state of a session, each in a namespace of its own; all of them
of one tenant, or each of its own. Rounds alternate. What is asked for is at least 90 %.

Namespace: four processes update one session for a while; how many updates each got done, and that
none was lost.
"""

import argparse
import multiprocessing
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import holdfast
from holdfast.testing.postgres import PostgresServer

THREADS = 8
PROCESSES = 4


def begin(vault: Any, name: str) -> Any:  # noqa: ANN401 - the door's class has no public name
    sessions = vault.namespace(name).sessions
    sessions.create("bench", session_id="s", initial_state={"n": 0})
    return sessions


def write_for(sessions: Any, seconds: float, barrier: Any) -> int:  # noqa: ANN401 - likewise
    """Updates a session for so long; returns how often."""
    barrier.wait()
    done, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        sessions.update_state("s", {"n": done})
        done += 1
    return done


def at_once(doors: list[Any], seconds: float) -> float:
    """Returns how many updates a second all of them get done together."""
    barrier, counts = threading.Barrier(len(doors)), [0] * len(doors)

    def write(place: int) -> None:
        counts[place] = write_for(doors[place], seconds, barrier)

    threads = [threading.Thread(target=write, args=(place,)) for place in range(len(doors))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def compare_tenants(url: str, folder: Path, seconds: float, rounds: int) -> None:
    with holdfast.open(url, objects=folder / "packs") as vault:
        vault.events.list()  # Somebody listens, as behind a server.
        one = [begin(vault.tenant("one"), f"agent-{place}") for place in range(THREADS)]
        own = [begin(vault.tenant(f"tenant-{place}"), "agent") for place in range(THREADS)]
        rates: dict[str, list[float]] = {"one tenant": [], "eight tenants": []}
        for number in range(-1, rounds):
            for name, doors in (("one tenant", one), ("eight tenants", own)):
                rate = at_once(doors, seconds)
                if number >= 0:
                    rates[name].append(rate)
    middle = {name: statistics.median(found) for name, found in rates.items()}
    for name, found in rates.items():
        shown = ", ".join(f"{rate:,.0f}" for rate in found)
        print(f"{name:14} {middle[name]:8,.0f} updates/s   ({shown})")
    print(f"one tenant has {middle['one tenant'] / middle['eight tenants']:.0%} of eight tenants'")


def _work(url: str, packs: str, seconds: float, barrier: Any, results: Any) -> None:  # noqa: ANN401
    with holdfast.open(url, objects=packs) as vault:
        results.put(write_for(vault.namespace("shared").sessions, seconds, barrier))


def share_a_namespace(url: str, folder: Path, seconds: float) -> None:
    packs = str(folder / "packs")
    with holdfast.open(url, objects=packs) as vault:
        sessions = begin(vault, "shared")
    spawn = multiprocessing.get_context("spawn")
    barrier, results = spawn.Barrier(PROCESSES), spawn.Queue()
    workers = [
        spawn.Process(target=_work, args=(url, packs, seconds, barrier, results))
        for _ in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    counts = sorted(results.get() for _ in workers)
    for worker in workers:
        worker.join()
    with holdfast.open(url, objects=packs) as vault:
        sessions = vault.namespace("shared").sessions
        assert sessions.get_state("s").version == sum(counts)
    shown = ", ".join(f"{count:,}" for count in counts)
    print(
        f"four processes on one session: {shown} updates in {seconds:g} s; "
        f"the least has {counts[0] / counts[-1]:.0%} of the most, none is lost"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-fsync", action="store_true")
    options = parser.parse_args()
    settings = {} if options.no_fsync else {"fsync": "on", "full_page_writes": "on"}
    with (
        tempfile.TemporaryDirectory(prefix="hf-bench-") as name,
        PostgresServer(settings=settings) as server,
    ):
        folder = Path(name)
        compare_tenants(
            server.dsn(server.create_database()), folder / "a", options.seconds, options.rounds
        )
        share_a_namespace(server.dsn(server.create_database()), folder / "b", options.seconds)


if __name__ == "__main__":
    main()
