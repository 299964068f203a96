"""What a real directory costs to capture and to bring back, beside what others would use.

    make bench-peers                                    # installs git, restic, borg and zstd
    make bench ONLY=workspace
    python bench/bench_workspace.py --quick             # 2 k files, one round
    python bench/bench_workspace.py --size 50k --rounds 5 --json 50k.json
    python bench/bench_workspace.py --from *.json --chart docs/benchmarks-workspace.svg

For every size one tree is made, and everybody captures that same tree into a repository of its
own. Rounds are interleaved: in each of them everybody has a turn, in a rotating order, so that
a noisy machine is noisy for all of them. In a turn the tree is captured unchanged, ten files
are edited, it is captured again, and rolled back; what came back is compared byte by byte.
The disk is synced before a turn and never within one: nobody waits for the bytes of another.

All sizes take about 25 minutes on two cores, and 60 GB of disk until they are done. Start it
some minutes after anything big was deleted on that disk.
"""

import argparse
import contextlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import chart
import workspace_report as report
from workspace_ours import OURS, floors
from workspace_peers import PEERS, Contender, versions
from workspace_trees import SPECS, Spec, Tree, make_tree

SNAPSHOTS = 20
"""After how many the repository is weighed a second time."""

ROUNDS = {"2k": 9, "3k": 9, "50k": 5, "big": 3, "250k": 3}
REPEATED = {"2k": 3, "3k": 3}
"""How often the first snapshot is timed; once where it takes long."""
RESTORED = {"2k": 4, "3k": 4, "50k": 2, "big": 2, "250k": 1}
"""How often the full restore is timed. An even number makes up for the order: the file system is
slow for whoever comes first, as it spares for minutes what was freed before."""

PAUSE_S = 0.1

QUICK_BUDGET_S = 2
"""For each contender, in place of the usual minute."""

EVERYBODY = {kind.name: kind for kind in (*OURS, *PEERS)}


@dataclass
class Trial:
    """One size: a tree, who captures it, and what it took them."""

    tree: Tree
    folder: Path
    budget_s: float
    result: report.Result
    contenders: list[Contender] = field(default_factory=list[Contender])
    started: float = field(default_factory=time.monotonic)

    def say(self, what: str) -> None:
        print(f"  {time.monotonic() - self.started:6.0f} s  {what}", flush=True)

    def timed(self, row: str, contender: Contender, call: Callable[[], object]) -> float:
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
        self.result.add(row, contender.name, seconds)
        return seconds

    def in_turn(self, number: int) -> Iterator[Contender]:
        """Yields everybody, each time beginning with the next one."""
        first = number % len(self.contenders)
        yield from self.contenders[first:] + self.contenders[:first]

    @contextlib.contextmanager
    def turn(self, contender: Contender) -> Generator[None]:
        os.sync()
        # Whoever keeps an index does not trust what changed a moment ago, and reads it again:
        # what the one before did to the tree is not to be somebody else's work.
        time.sleep(PAUSE_S)
        contender.begin_turn()
        try:
            yield
        finally:
            contender.end_turn()

    def take_first(self, kinds: list[type[Contender]], repeated: int) -> None:
        for number in range(repeated):
            for contender in self.contenders:
                contender.close()
            homes = self.folder / f"homes-{number}"
            self.contenders = [
                kind(self.tree, homes / str(place)) for place, kind in enumerate(kinds)
            ]
            for contender in self.in_turn(number):
                contender.open()
                with self.turn(contender):
                    self.timed("first", contender, contender.snapshot)
                if number == repeated - 1:
                    self.result.stored.setdefault(contender.name, {})["1"] = weigh(contender)
        self.say("first snapshots")

    def grow(self) -> None:
        """Takes snapshots of ten changed files each, for the size after twenty."""
        for contender in self.contenders:
            taken, spent = 0, 0.0
            with self.turn(contender):
                while contender.shares and taken < SNAPSHOTS - 1 and spent < self.budget_s / 2:
                    self.tree.edit(taken)
                    start = time.perf_counter()
                    contender.snapshot()
                    spent += time.perf_counter() - start
                    taken += 1
                self.tree.reset()
            stored = self.result.stored[contender.name]
            # What shares nothing grows by the same again; what takes too long is projected.
            each = (weigh(contender) - stored["1"]) / taken if taken else stored["1"]
            stored[str(SNAPSHOTS)] = round(stored["1"] + each * (SNAPSHOTS - 1))
            stored["measured"] = taken + 1
        self.say(f"{SNAPSHOTS} snapshots")

    def play(self, rounds: int) -> None:
        spent = dict.fromkeys(self.contenders_by_name(), 0.0)
        for number in range(rounds):
            for name, seconds in floors(self.tree.path, self.contenders).items():
                self.result.add("floor", name, seconds)
            for contender in self.in_turn(number):
                if spent[contender.name] < self.budget_s:
                    spent[contender.name] += self.play_turn(contender, 100 + number)
            self.say(f"round {number + 1} of {rounds}")

    def contenders_by_name(self) -> dict[str, Contender]:
        return {contender.name: contender for contender in self.contenders}

    def play_turn(self, contender: Contender, version: int) -> float:
        start = time.perf_counter()
        with self.turn(contender):
            if contender.remembers:
                # Others have touched the tree since; who keeps an index sees that first.
                contender.snapshot()
            self.timed("unchanged", contender, contender.snapshot)
            originals = self.tree.digests(self.tree.choose(version))
            changed = self.tree.edit(version)
            self.timed("changed", contender, contender.snapshot)
            self.timed("rollback", contender, lambda: contender.roll_back(changed))
        self.tree.expect(originals, of=contender.name)
        return time.perf_counter() - start

    def check_out(self, repeated: int) -> None:
        restored = self.folder / "restored"
        restored.mkdir()
        for number in range(repeated):
            there_and_back = self.contenders[:: -1 if number % 2 else 1]
            for contender in there_and_back:
                # Side by side: what a file system does for a folder depends on where it lies.
                target = restored / f"{self.contenders.index(contender)}-{number}"
                target.mkdir()
                with self.turn(contender):
                    contender.snapshot()
                    os.sync()
                    self.timed("restore", contender, lambda c=contender, t=target: c.check_out(t))
                self.tree.expect_copy(target, of=contender.name)
        self.say("full restores")


def weigh(contender: Contender) -> int:
    return contender.stored_bytes()


def run_size(
    spec: Spec, kinds: list[type[Contender]], scratch: Path, options: argparse.Namespace
) -> report.Result:
    folder = scratch / spec.name
    tree = make_tree(spec, folder)
    result = report.Result(spec.name, spec.title, len(tree.names), tree.total_bytes)
    trial = Trial(tree, folder, QUICK_BUDGET_S if options.quick else options.budget, result)
    print(f"{spec.title}, {tree.total_bytes / 1e6:,.0f} MB")
    repeated = 1 if options.quick else REPEATED.get(spec.name, 1)
    try:
        trial.take_first(kinds, repeated)
        trial.grow()
        trial.play(options.rounds or (1 if options.quick else ROUNDS[spec.name]))
        trial.check_out(1 if options.quick else RESTORED[spec.name])
    finally:
        for contender in trial.contenders:
            contender.close()
    return result


def choose(names: Iterable[str] | None) -> list[type[Contender]]:
    """Returns who takes part, and says who cannot."""
    kinds: list[type[Contender]] = []
    for kind in EVERYBODY.values():
        if names and not any(kind.name.startswith(name) for name in names):
            continue
        if missing := kind.is_missing():
            print(f"left out: {kind.name}: {missing}")
        else:
            kinds.append(kind)
    return kinds


def describe_machine() -> dict[str, str]:
    return {
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        **versions(),
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--size", choices=SPECS, nargs="+", default=list(SPECS))
    parser.add_argument("--rounds", type=int, help="turns for everybody, in place of the defaults")
    parser.add_argument("--peers", help="who takes part, by the beginnings of names: holdfast,git")
    parser.add_argument("--quick", action="store_true", help="2 k files alone, one round")
    parser.add_argument(
        "--budget",
        type=float,
        default=60,
        help="seconds after which a contender sits out the remaining rounds of a size",
    )
    parser.add_argument("--json", type=Path, help="write the raw results here")
    parser.add_argument("--from", type=Path, nargs="+", dest="sources", help="read, do not run")
    parser.add_argument("--chart", type=Path, help="draw cost against file count here")
    parser.add_argument("--scratch", type=Path, help="where trees and repositories are put")
    return parser.parse_args()


def main() -> None:
    options = parse()
    if options.sources:
        machine, results = report.load(options.sources)
    else:
        machine = describe_machine()
        results: list[report.Result] = []
        kinds = choose(options.peers.split(",") if options.peers else None)
        scratch = Path(tempfile.mkdtemp(prefix="hf-bench-", dir=options.scratch))
        try:
            for name in ["2k"] if options.quick else options.size:
                results.append(run_size(SPECS[name], kinds, scratch, options))
                if options.json:  # after each size: what was measured outlives a later failure
                    report.save(options.json, machine, results)
        finally:
            # Not before the end: ext4 passes over inodes that were freed in the last minutes,
            # one by one, and whoever makes files next would be several times slower for it.
            shutil.rmtree(scratch, ignore_errors=True)
    report.show(machine, results)
    if options.chart:
        chart.draw(results, options.chart)


if __name__ == "__main__":
    main()
