"""What the in-process store costs beside swarmstate's, and the durable forms beside DiskStore.

    make bench ONLY=store
    python bench/bench_store.py --quick                     # under a minute, small stores only
    python bench/bench_store.py --only memory threads       # some groups
    python bench/bench_store.py --only "diff of" --sizes 10 100000
    python bench/bench_store.py --json store.json
    python bench/bench_store.py --from store.json           # read, do not run

Everybody holds the same entries in the same process. Rounds are interleaved: in each of them
everybody has a turn, in a rotating order, so that a noisy machine is noisy for all of them, and
a turn lasts some milliseconds. The garbage collector is off during a turn and runs between the
cases. Medians of the rounds are compared: ratio = the peer's time / ours, above 1 we are ahead.

Groups: calls (one for each kind of value), spaces, threads, memory, disk. A full run took 15
minutes on two busy cores; a million values of 1 KB, three times, need more than 3 GB of memory.
"""

import argparse
import contextlib
import gc
import os
import platform
import random
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final

import store_cases as cases
import store_memory as memory
import store_report as report
import store_threads as threads
from store_cases import Case
from store_contenders import DURABLE, IN_MEMORY, VALUES, open_in_memory, present
from store_subjects import Pair, Subject, Turn, in_many_spaces, in_one_space

SIZES: Final = (10, 1000, 100_000, 1_000_000)
GROUNDS: Final = {
    "dict": SIZES,
    "int": (1000, 100_000),
    "1 KB": SIZES,
    "10 KB": SIZES[:3],
    "1 KB str": (1000, 100_000),
    "10 KB str": (1000, 100_000),
}
"""How many entries of each kind; a million of 10 KB would not fit three times."""

SPACES_SIZES: Final = (1000, 100_000)
DISK_SIZES: Final = (1000, 100_000)
THREADS_GROUNDS: Final = (("dict", 100_000), ("10 KB", 1000))

ROUNDS: Final = 15
FEWEST: Final = 3
ROW_S: Final = 15
"""A row that takes longer has fewer rounds, down to the fewest."""

TURN_S: Final = 0.005
WARM_UP: Final = 2
"""Rounds that do not count; they also find out how many calls fill a turn."""

MOST_CALLS: Final = 2000
"""In a turn of five milliseconds; keys and values for all of them are made before it."""


@dataclass
class Trial:
    """A run: what is asked for, and what was found."""

    options: argparse.Namespace
    contenders: list[str]
    scratch: Path
    results: report.Results = field(default_factory=report.Results)
    started: float = field(default_factory=time.monotonic)

    def say(self, what: str) -> None:
        print(f"  {time.monotonic() - self.started:6.0f} s  {what}", flush=True)

    def wants(self, *words: str) -> bool:
        """Says whether `--only` has the beginning of one of these."""
        only: Sequence[str] | None = self.options.only
        return not only or any(word.startswith(tuple(only)) for word in words)

    def choose(self, group: str, named: dict[str, Case]) -> dict[str, Case]:
        return {name: case for name, case in named.items() if self.wants(group, name)}

    def choose_sizes(self, sizes: Sequence[int]) -> list[int]:
        asked: Sequence[int] | None = self.options.sizes
        most = 1000 if self.options.quick else SIZES[-1]
        return [size for size in sizes if (size in asked if asked else size <= most)]

    def subjects(
        self, size: int, kind: str, pair_of: Callable[[int], Pair] = in_one_space
    ) -> list[Subject]:
        return [
            Subject(name, open_in_memory(name), size, VALUES[kind], pair_of)
            for name in self.contenders
        ]

    def play(self, row: report.Row, case: Case, subjects: list[Subject], longer: int = 1) -> None:
        """Lets everybody do the same, round by round and in a rotating order."""
        gc.collect()
        quicker = 5 if self.options.quick else 1
        rounds, turn_s = self.options.rounds or ROUNDS // quicker, TURN_S * longer / quicker
        calls = {subject.contender: 1 for subject in subjects}
        ends = time.monotonic() + ROW_S
        for number in range(-WARM_UP, rounds):
            if number >= FEWEST and time.monotonic() > ends:
                break
            first = number % len(subjects)
            for subject in subjects[first:] + subjects[:first]:
                count = calls[subject.contender]
                # One seed for everybody: who makes as many calls is asked for the same keys.
                turn = Turn(subject, count, random.Random(f"{row.name} {number}"))
                began = time.perf_counter()
                spent = time_turn(case, turn)
                if number >= 0:
                    row.add(subject.contender, spent / count)
                else:
                    # What is prepared for the calls may take longer than they do.
                    spent = max(spent, (time.perf_counter() - began) / 10, 1e-9)
                    fitting = int(turn_s * count / spent)
                    calls[subject.contender] = min(max(fitting, 1), MOST_CALLS * longer)
            if any(subject.is_durable for subject in subjects):
                # Not all of them clean up what they wrote: they are to write the same.
                calls = dict.fromkeys(calls, min(calls.values()))

    def play_all(self, group: str, chosen: dict[str, Case], subjects: list[Subject]) -> None:
        for subject in subjects:
            subject.fill()
        agree(subjects)
        size = subjects[0].size
        for name, case in chosen.items():
            row = self.results.row(group, name, f"{size:,}")
            # A disk answers more unevenly than memory: longer turns even it out.
            self.play(row, case, subjects, longer=5 if subjects[0].is_durable else 1)
        self.say(f"{group}: {size:,} entries")


def time_turn(case: Case, turn: Turn) -> float:
    gc.disable()
    try:
        return case(turn)
    finally:
        gc.enable()


def agree(subjects: list[Subject]) -> None:
    """Raises unless everybody holds the same: who keeps less is fast."""
    for subject in subjects:
        number = subject.size // 2
        found = subject.store.get(*subject.pair_of(number))
        assert found == subject.value_of(number), subject.contender
        assert len(subject.store) == subject.size, subject.contender


def run_calls(trial: Trial) -> None:
    for kind, sizes in GROUNDS.items():
        group = f"calls, {kind}"
        named = cases.BY_VALUE | cases.BY_COUNT if kind == "dict" else cases.BY_VALUE
        if chosen := trial.choose(group, named):
            for size in trial.choose_sizes(sizes):
                trial.play_all(group, chosen, trial.subjects(size, kind))


def run_spaces(trial: Trial) -> None:
    group = "spaces, ten entries in each"
    if chosen := trial.choose(group, cases.IN_MANY_SPACES):
        for size in trial.choose_sizes(SPACES_SIZES):
            subjects = trial.subjects(size, "dict", in_many_spaces)
            trial.play_all(group, chosen, subjects)


def run_threads(trial: Trial) -> None:
    for kind, most in THREADS_GROUNDS:
        size = min(most, 1000) if trial.options.quick else most
        group = f"threads, {kind}, {size:,} entries"
        works = {name: work for name, work in threads.WORKS.items() if trial.wants(group)}
        subjects = trial.subjects(size, kind) if works else []
        for subject in subjects:
            subject.fill()
        for name, work in works.items():
            for count in threads.THREADS:
                row = trial.results.row(group, name, f"{count} at once")
                case = threads.in_threads(work, count)
                trial.play(row, case, subjects, threads.LONGER)
        if works:
            trial.say(group)


def run_memory(trial: Trial) -> None:
    for kind, count in memory.grounds(is_quick=trial.options.quick):
        for name in trial.contenders if trial.wants("memory") else []:
            found = memory.measure_apart(name, kind, count)
            column = f"{count:,} of {kind}"
            for what, amount in found.items():
                trial.results.row("memory", what, column, "bytes").add(name, amount)
            trial.say(f"memory: {name}, {column}")


def run_disk(trial: Trial) -> None:
    chosen = trial.choose("disk", cases.ON_DISK)
    for size in trial.choose_sizes(DISK_SIZES) if chosen else []:
        with contextlib.ExitStack() as stack:
            subjects: list[Subject] = []
            for place, kind in enumerate(DURABLE):
                folder = trial.scratch / f"{size}-{place}"
                folder.mkdir()
                try:
                    store = stack.enter_context(kind.opened(folder))
                except (ImportError, AttributeError) as error:
                    print(f"left out: {kind.name}: {error}")
                    continue
                subjects.append(Subject(kind.name, store, size, VALUES["dict"], is_durable=True))
            trial.play_all("disk", chosen, subjects)


GROUPS: Final = (run_calls, run_spaces, run_threads, run_memory, run_disk)


def describe_machine() -> dict[str, str]:
    return {
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "swarmstate": metadata.version("swarmstate"),
        "msgspec": metadata.version("msgspec"),
        "sqlite": sqlite3.sqlite_version,
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="up to 1,000 entries, few rounds")
    parser.add_argument("--only", nargs="+", help="beginnings of groups or of rows")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of entries, of those known")
    parser.add_argument("--rounds", type=int, help=f"turns for everybody, {ROUNDS} by default")
    parser.add_argument("--contenders", nargs="+", help=f"some of {', '.join(IN_MEMORY)}")
    parser.add_argument("--json", type=Path, help="write the raw results here")
    parser.add_argument("--from", type=Path, nargs="+", dest="sources", help="read, do not run")
    parser.add_argument("--scratch", type=Path, help="the disk that durable stores are put on")
    return parser.parse_args()


def main() -> None:
    options = parse()
    if options.sources:
        report.show(*report.load(options.sources))
        return
    scratch = Path(tempfile.mkdtemp(prefix="hf-bench-", dir=options.scratch))
    trial = Trial(options, present(options.contenders or IN_MEMORY), scratch)
    machine = describe_machine()
    try:
        for run in GROUPS:
            run(trial)
            if options.json:  # After each: what was measured outlives a later failure.
                report.save(options.json, machine, trial.results)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    report.show(machine, trial.results)


if __name__ == "__main__":
    main()
