"""What it costs a new process to have a client: ours, the HTTP library alone, and other vendors'.

    make bench ONLY=import
    python bench/bench_import.py --rounds 15

Each line is a process of its own; they take turns, so that a busy moment meets all of them. `cpu`
is processor time, `clock` what somebody waits for; medians, less what Python itself takes to
start. Ratios are others' processor time by that of making our client.
"""

import argparse
import importlib.util
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field

BARE = "python itself"
OURS = "a holdfast.Client is made"
LIMIT_S = 0.150

LINES: dict[str, tuple[str, str]] = {
    # What is measured: the module that has to be there, and the code.
    BARE: ("sys", "pass"),
    "import holdfast": ("holdfast", "import holdfast"),
    "from holdfast import Client": ("holdfast", "from holdfast import Client"),
    OURS: ("holdfast", "from holdfast import Client\nClient('key', namespace='alice')"),
    "from holdfast import AsyncClient": ("holdfast", "from holdfast import AsyncClient"),
    "a holdfast.AsyncClient is made": (
        "holdfast",
        "from holdfast import AsyncClient\nAsyncClient('key', namespace='alice')",
    ),
    "holdfast.open": ("holdfast", "from holdfast import open"),
    "import httpx2": ("httpx2", "import httpx2"),
    "an httpx2.Client is made": ("httpx2", "import httpx2\nhttpx2.Client()"),
    "import trove_sdk": ("trove_sdk", "import trove_sdk"),
    "a trove_sdk.TroveClient is made": (
        "trove_sdk",
        "from trove_sdk import TroveClient\nTroveClient('key', 'alice')",
    ),
    "import statebase": ("statebase", "import statebase"),
    "a statebase.StateBase is made": (
        "statebase",
        "from statebase import StateBase\nStateBase(api_key='key')",
    ),
}


@dataclass
class Samples:
    """Seconds that a line took, on the clock and of the processor."""

    clock: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])

    def add(self, code: str) -> None:
        start, before = time.perf_counter(), spent_s()
        subprocess.run([sys.executable, "-P", "-c", code], check=True)
        self.clock.append(time.perf_counter() - start)
        self.cpu.append(spent_s() - before)


def spent_s() -> float:
    """Returns the processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(rounds: int) -> dict[str, Samples]:
    there = {
        name: code for name, (module, code) in LINES.items() if importlib.util.find_spec(module)
    }
    found = {name: Samples() for name in there}
    for number in range(rounds + 1):
        for name, code in there.items():
            if number == 0:
                Samples().add(code)  # Once for nothing: files come into memory, bytecode is kept.
            else:
                found[name].add(code)
    return found


def report(found: dict[str, Samples]) -> None:
    start = found[BARE]
    bare = statistics.median(start.clock), statistics.median(start.cpu)
    ours = statistics.median(found[OURS].cpu) - bare[1]
    print(f"{BARE}: {bare[0] * 1e3:.0f} ms, {bare[1] * 1e3:.0f} ms cpu; not counted below")
    print(f"{'':34}  clock      cpu   by ours")
    for name, samples in found.items():
        if name == BARE:
            continue
        clock = max(0.0, statistics.median(samples.clock) - bare[0])
        cpu = max(0.0, statistics.median(samples.cpu) - bare[1])
        print(f"{name:34}  {clock * 1e3:5.0f} ms  {cpu * 1e3:4.0f} ms  {cpu / ours:7.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    given = parser.parse_args()
    found = measure(given.rounds)
    report(found)
    best = min(found["from holdfast import Client"].clock)
    print(f"from holdfast import Client, with Python's own start, at best: {best * 1e3:.0f} ms")
    if best >= LIMIT_S:
        raise SystemExit(f"more than {LIMIT_S * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
