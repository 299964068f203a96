"""Plays the C sources with whatever may meet them, watched by sanitizers, for as long as one likes.

    python bench/soak_c_sources.py                                # ten minutes for each source
    python bench/soak_c_sources.py --minutes 60 --source core
    python bench/soak_c_sources.py --source core --seed 4711 --rounds 1    # one round again

Compiles each source with AddressSanitizer and UndefinedBehaviorSanitizer (`sanitized.py`), and
plays it in processes of their own: random operations, held against a model in plain Python where
there is one (`play_core.py`, `play_statcheck.py`, `play_creating.py`, `play_resting.py`). A source
that nobody plays is a mistake. At the first report, wrong answer, crash, standstill or growth of
memory it stops, prints the seed, and keeps the report. Needs gcc or clang with the sanitizers'
libraries.

What it cannot play: memory that ends inside of `msgspec`, which does not survive that itself.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sanitized import HERE, CannotSanitize, build, find_parts, start

BLOCK = 500
"""Rounds that have the same hashes: those that go with a seed, so that it can be played again."""
QUICK = Path("/dev/shm")
"""Where files are made: in memory, if the system has such a place."""
PROCESS = 60.0
STANDSTILL = 120
"""Seconds that a process plays for, and after which one that does not end then stands still."""


@dataclass
class Played:
    """What one source has been through."""

    rounds: int = 0
    processes: int = 0
    growth: int = 0
    done: Counter[str] = field(default_factory=Counter)

    def add(self, told: dict[str, Any]) -> None:
        self.rounds += told["rounds"]
        self.processes += 1
        self.growth = max(self.growth, told["growth"])
        self.done.update(told["done"])


class Failed(Exception):
    """Says which round went wrong, and where the report is."""


def play_block(
    folder: Path, source: str, *, seed: int, rounds: int, seconds: float
) -> dict[str, Any]:
    """Plays some rounds in one process; returns what it tells."""
    note, report = folder / f"{source}.seed", folder / f"{source}.report"
    numbers = (f"--seed={seed}", f"--rounds={rounds}", f"--seconds={seconds}")
    told = ""
    with tempfile.TemporaryDirectory(dir=QUICK if QUICK.exists() else folder) as tree:
        process = start(
            folder,
            *(str(HERE / "play_sources.py"), source, *numbers),
            *(f"--folder={tree}", f"--note={note}"),
            hash_seed=seed // BLOCK,
            report=report,
        )
        try:
            told, _ = process.communicate(timeout=seconds + STANDSTILL)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            with report.open("a") as file:
                file.write(f"\nit did not end within {seconds + STANDSTILL:.0f} s\n")
    if process.returncode == 0:
        told_all: dict[str, Any] = json.loads(told)
        return told_all
    at = int(note.read_text()) if note.exists() else seed
    again = f"{HERE / Path(__file__).name} --source {source} --seed {at} --rounds 1"
    with report.open("a") as file:
        file.write(f"\nended with {process.returncode}; again: python {again}\n")
    raise Failed(f"{source}, seed {at}: ended with {process.returncode}; see {report}")


def soak(folder: Path, source: str, *, seed: int, rounds: int | None, minutes: float) -> Played:
    """Plays one source for a time, or for a number of rounds."""
    played, end, at = Played(), time.monotonic() + 60 * minutes, seed
    last = None if rounds is None else seed + rounds
    while at != last and (last is not None or time.monotonic() < end):
        block_end = (at // BLOCK + 1) * BLOCK
        upto = block_end if last is None else min(block_end, last)
        seconds = min(PROCESS, end - time.monotonic()) if last is None else PROCESS
        told = play_block(folder, source, seed=at, rounds=upto - at, seconds=seconds)
        played.add(told)
        at += told["rounds"]
        print(f"  {source}: {played.rounds} rounds, {played.done.total():,} operations", flush=True)
    return played


def main() -> None:
    parts = find_parts()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10, help="for each source")
    parser.add_argument("--source", choices=sorted(parts), action="append", help="only this one")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 10**9 % 10**6 * BLOCK)
    parser.add_argument("--rounds", type=int, help="so many instead of so long")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-c-sources-"))
    print(f"seed {options.seed}, in {folder}")
    try:
        for source in options.source or sorted(parts):
            begun = time.monotonic()
            build(folder, parts[source])
            played = soak(
                folder,
                source,
                seed=options.seed,
                rounds=options.rounds,
                minutes=options.minutes,
            )
            print(
                f"{source}: {time.monotonic() - begun:.0f} s, {played.rounds} rounds in "
                f"{played.processes} processes, {played.done.total():,} operations, no report; "
                f"memory grew by at most {played.growth:,} bytes"
            )
            print(
                "  " + ", ".join(f"{what} {times:,}" for what, times in sorted(played.done.items()))
            )
    except (CannotSanitize, Failed) as problem:
        sys.exit(str(problem))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
