"""What a session costs beside LangGraph's savers: update, read, rollback, fork, and bytes.

    make bench ONLY=sessions
    python bench/bench_sessions.py --quick                   # under a minute, small states
    python bench/bench_sessions.py --only calls "list that"  # some groups
    python bench/bench_sessions.py --no-postgres --json sessions.json
    python bench/bench_sessions.py --from sessions.json      # read, do not run

Everybody keeps equal states in the same process, on the same disk or on the same PostgreSQL
server. Rounds are interleaved: in each of them everybody has a turn, in a rotating order, so that
a noisy machine is noisy for all of them. The garbage collector is off during a turn. Medians of
single calls are compared: ratio = the peer's time / ours, above 1 we are ahead.

Groups: calls (by size of the state), history (rollback and fork by length of the history), bytes
(per version, after 200 of them), list (one that grows by a message 1,000 times).
"""

import argparse
import contextlib
import gc
import os
import platform
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import sessions_contenders as contenders
import sessions_report as report
from sessions_contenders import Call, Contender
from sessions_states import SHAPES, Shape, message

ROUNDS: Final = 12
CALLS: Final = {"1 KB": 10, "10 KB": 10, "100 KB": 5, "1 MB": 3}
"""In a turn of one contender."""

WARM_UP: Final = 2
"""Rounds that do not count."""

LENGTHS: Final = (10, 100, 1000)
VERSIONS: Final = 200
STEPS: Final = 1000
NEAR: Final = 10
"""Steps around the tenth, hundredth and thousandth of which a median is taken."""


@dataclass
class Trial:
    """A run: what is asked for, and what was found."""

    options: argparse.Namespace
    scratch: Path
    server: Any
    results: report.Results = field(default_factory=report.Results)
    started: float = field(default_factory=time.monotonic)
    places: int = 0

    def say(self, what: str) -> None:
        print(f"  {time.monotonic() - self.started:6.0f} s  {what}", flush=True)

    def wants(self, *words: str) -> bool:
        """Says whether `--only` has the beginning of one of these."""
        only: Sequence[str] | None = self.options.only
        return not only or any(word.startswith(tuple(only)) for word in words)

    @property
    def shapes(self) -> Sequence[Shape]:
        named = self.options.sizes
        if named:
            return [shape for shape in SHAPES if shape.name in named]
        return SHAPES[:2] if self.options.quick else SHAPES

    @property
    def rounds(self) -> int:
        return self.options.rounds or (3 if self.options.quick else ROUNDS)

    @contextlib.contextmanager
    def opened(self) -> Generator[list[Contender]]:
        """Yields everybody, each with an empty place of its own."""
        self.places += 1
        folder = self.scratch / str(self.places)
        with contextlib.ExitStack() as stack:
            makers: dict[str, Callable[[Path], contextlib.AbstractContextManager[Contender]]] = {
                contenders.SQLITE_OURS: contenders.open_sqlite_ours,
                contenders.SQLITE_PEER: contenders.open_sqlite_peer,
            }
            if self.server is not None:
                ours, peer = (self.server.dsn(self.server.create_database()) for _ in range(2))
                makers |= {
                    contenders.POSTGRES_OURS: lambda f: contenders.open_postgres_ours(f, ours),
                    contenders.POSTGRES_PEER: lambda _: contenders.open_postgres_peer(peer),
                }
            found: list[Contender] = []
            for number, (name, make) in enumerate(makers.items()):
                if name not in self.options.missing:
                    place = folder / str(number)
                    place.mkdir(parents=True)
                    found.append(stack.enter_context(make(place)))
            yield found
        shutil.rmtree(folder)

    def play(
        self, rows: Callable[[str], report.Row], steps: "Steps", everybody: list[Contender]
    ) -> None:
        """Lets everybody do the same, round by round and in a rotating order."""
        for number in range(-WARM_UP, self.rounds):
            first = number % len(everybody)
            for contender in everybody[first:] + everybody[:first]:
                for name, prepare in steps.items():
                    for seconds in timed_turn(contender, prepare, number):
                        if number >= 0:
                            rows(name).add(contender.name, seconds)


Prepare = Callable[[Contender, int], list[Call]]
"""Returns the calls of one turn."""

Steps = dict[str, Prepare]


def timed_turn(contender: Contender, prepare: Prepare, number: int) -> list[float]:
    found: list[float] = []
    gc.disable()
    try:
        for call in prepare(contender, number):
            start = time.perf_counter()
            call()
            found.append(time.perf_counter() - start)
    finally:
        gc.enable()
    return found


def agree(everybody: list[Contender], thread: str) -> None:
    """Raises unless everybody holds the same: who keeps less is fast."""
    states = {contender.name: contender.state_of(thread) for contender in everybody}
    first = next(iter(states.values()))
    for name, state in states.items():
        assert state == first, name


def steps_of(shape: Shape, length: int, times: int) -> Steps:
    """Returns what is done to a session that has so many versions."""
    thread, middle = "thread", length // 2

    def update(contender: Contender, number: int) -> list[Call]:
        seeds = [f"{number} {place}" for place in range(times)]
        return [contender.updating(thread, shape.changes(seed)) for seed in seeds]

    return {
        "update": update,
        "read": lambda contender, _: [contender.reading(thread) for _ in range(times)],
        "rollback": lambda contender, number: [
            contender.rolling_back(thread, middle + (number + place) % 3) for place in range(times)
        ],
        "fork": lambda contender, number: [
            contender.forking(thread, middle + (number + place) % 3) for place in range(times)
        ],
    }


def fill(everybody: list[Contender], shape: Shape, length: int, done: int = 0) -> None:
    """Gives a session so many versions; `done` are there."""
    for contender in everybody:
        if not done:
            contender.start("thread", shape.state())
        for number in range(max(done, 1), length):
            contender.updating("thread", shape.changes(f"fill {number}"))()


def run_calls(trial: Trial) -> None:
    for shape in trial.shapes if trial.wants("calls") else ():
        with trial.opened() as everybody:
            fill(everybody, shape, 20)
            steps = steps_of(shape, 20, CALLS[shape.name])
            trial.play(
                lambda name, s=shape: trial.results.row("calls", name, s.name), steps, everybody
            )
            agree(everybody, "thread")
        trial.say(f"calls, {shape.name}")


def run_history(trial: Trial) -> None:
    lengths = LENGTHS[:2] if trial.options.quick else LENGTHS
    for shape in trial.shapes if trial.wants("history") else ():
        with trial.opened() as everybody:
            done = 0
            for length in lengths:
                fill(everybody, shape, length, done)
                done = length
                steps = steps_of(shape, length, max(CALLS[shape.name] // 2, 2))
                chosen = {name: steps[name] for name in ("rollback", "fork")}
                column = f"{length:,} versions"

                def row_of(name: str, at: str = column, size: str = shape.name) -> report.Row:
                    return trial.results.row("history", f"{name}, {size}", at)

                trial.play(row_of, chosen, everybody)
            agree(everybody, "thread")
        trial.say(f"history, {shape.name}")


def run_bytes(trial: Trial) -> None:
    for shape in trial.shapes if trial.wants("bytes") else ():
        with trial.opened() as everybody:
            row = trial.results.row("bytes", "bytes per version", shape.name, "bytes")
            fill(everybody, shape, 1)
            before = {contender.name: contender.stored_bytes() for contender in everybody}
            fill(everybody, shape, VERSIONS + 1, 1)
            for contender in everybody:
                added = contender.stored_bytes() - before[contender.name]
                row.add(contender.name, added / VERSIONS)
            agree(everybody, "thread")
        trial.say(f"bytes, {shape.name}")


def run_list(trial: Trial) -> None:
    if not trial.wants("list"):
        return
    group, steps = "list that grows", STEPS // 10 if trial.options.quick else STEPS
    points = [10, 100] if trial.options.quick else [10, 100, 1000]
    sized = [steps // 4, steps // 2, steps]
    with trial.opened() as everybody:
        messages: list[Any] = []
        for contender in everybody:
            contender.start("thread", {"messages": []})
        before = {contender.name: contender.stored_bytes() for contender in everybody}
        for step in range(1, steps + 1):
            messages = [*messages, message(step)]
            first = step % len(everybody)
            for contender in everybody[first:] + everybody[:first]:
                calls = [contender.updating("thread", {"messages": messages})]
                seconds = timed_turn(contender, lambda _, __, calls=calls: calls, 0)[0]
                for point in points:
                    if point - NEAR < step <= point:
                        row = trial.results.row(group, "time per step", f"step {point:,}")
                        row.add(contender.name, seconds)
            if step in sized:
                for contender in everybody:
                    row = trial.results.row(f"{group}, bytes", "in all", f"{step:,} steps", "bytes")
                    row.add(contender.name, contender.stored_bytes() - before[contender.name])
        agree(everybody, "thread")
    trial.say(group)


GROUPS: Final = (run_calls, run_history, run_bytes, run_list)


def describe_machine(scratch: Path) -> dict[str, str]:
    known = {
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    for name in ("langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            known[name] = metadata.version(name)
    return known | {"with": contenders.describe_syncing(scratch)}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="1 KB and 10 KB, few rounds")
    parser.add_argument("--only", nargs="+", help="beginnings of groups")
    parser.add_argument("--sizes", nargs="+", help="some of " + ", ".join(s.name for s in SHAPES))
    parser.add_argument("--rounds", type=int, help=f"turns for everybody, {ROUNDS} by default")
    parser.add_argument("--no-postgres", action="store_true", help="SQLite alone")
    parser.add_argument("--json", type=Path, help="write the raw results here")
    parser.add_argument("--from", type=Path, nargs="+", dest="sources", help="read, do not run")
    parser.add_argument("--scratch", type=Path, help="the disk that everything is put on")
    return parser.parse_args()


@contextlib.contextmanager
def opened_server(*, wanted: bool) -> Generator[Any]:
    if not wanted:
        yield None
        return
    from holdfast.testing.postgres import PostgresServer  # noqa: PLC0415 - only when asked for

    with PostgresServer() as server:
        yield server


def main() -> None:
    options = parse()
    if options.sources:
        report.show(*report.load(options.sources))
        return
    options.missing = [name for name in contenders.MODULES if contenders.is_missing(name)]
    scratch = Path(tempfile.mkdtemp(prefix="hf-bench-", dir=options.scratch))
    try:
        with opened_server(wanted=not options.no_postgres) as server:
            trial, machine = Trial(options, scratch, server), describe_machine(scratch)
            for run in GROUPS:
                run(trial)
                if options.json:  # After each: what was measured outlives a later failure.
                    report.save(options.json, machine, trial.results)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    report.show(machine, trial.results)


if __name__ == "__main__":
    main()
