"""The command line against a tuned shadow git, command by command.

    python bench/bench_cli.py                    # 2 k, 12 k and 50 k files
    python bench/bench_cli.py --size 2k --rounds 30
    python bench/bench_cli.py --size 250k
    python bench/bench_cli.py --before ../other/.venv/bin/holdfast    # another build, cold

Everybody captures the same tree into a repository of its own, in turns and in a rotating order: it
unchanged, then with ten files changed, then the ten rolled back, which is compared byte by byte.
git adds and commits, and resets to the commit before; ours takes snapshots, and restores the one
before, and keeps what it replaces. Timed is a whole process, as a shell starts it:

- *client in C* and *client in Python*, answered by the process that a command has left behind: it
  looks at every file each time;
- *watch*, the client in C while `holdfast watch` tells where something has changed;
- *cold*, with no process left behind.

A ratio is git's median by ours: above 1 we are ahead.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from workspace_peers import Contender, Git
from workspace_trees import MIDDLE, SPECS, Tree, make_tree

STEPS = ("unchanged", "10 changed", "roll back 10")
SCRIPTS = Path(sys.executable).parent
TREES = SPECS | {MIDDLE.name: MIDDLE}
ROUNDS = {"2k": 20, "12k": 12, "50k": 6, "250k": 3}


class Ours(Contender):
    """The command line; `launcher` is what is typed, and `stay` how long a process stays."""

    launcher = SCRIPTS / "holdfast"
    stay = "600"

    def open(self) -> None:
        self.env = {"HOLDFAST_DATA": str(self.repository), "HOLDFAST_STAY": self.stay}
        super().open()
        session = self.repository.with_name(f"{self.repository.name}-session")
        session.mkdir(mode=0o700, exist_ok=True)
        self.env["XDG_RUNTIME_DIR"] = str(session)
        self.run(self.launcher, "init", "-q")

    def snapshot(self) -> None:
        self.run(self.launcher, "snapshot", "-q")

    def roll_back(self, paths: Sequence[str]) -> None:
        del paths  # the index knows
        self.run(self.launcher, "restore", "-q", "@-1")

    def close(self) -> None:
        if self.stay != "0":
            self.run(self.launcher, "watch", "--stop", "-q")


class InPython(Ours):
    """The same, typed through the client in Python."""

    launcher = SCRIPTS / "holdfast-python"


class Watched(Ours):
    """The client in C, while somebody watches during its own turns alone."""

    stay = "0"

    def begin_turn(self) -> None:
        self.run(self.launcher, "watch", "--background", "--no-snapshots", "-q")
        self.run(self.launcher, "status", "-q")

    def end_turn(self) -> None:
        self.run(self.launcher, "watch", "--stop", "-q")


class Cold(Ours):
    """A process of its own for each command."""

    launcher = SCRIPTS / "holdfast-python"
    stay = "0"


class Before(Ours):
    """The same of another build."""

    stay = "0"


CONTENDERS: dict[str, type[Contender]] = {
    "git": Git,
    "client in C": Ours,
    "client in Python": InPython,
    "watch, client in C": Watched,
    "cold": Cold,
}


Samples = dict[str, dict[str, list[float]]]
"""Of each contender, of each step, the seconds that it took."""


def play(tree: Tree, name: str, contender: Contender, samples: Samples, *, version: int) -> None:
    """Plays one turn: three timed commands of one contender."""
    subprocess.run(["sync"], check=True)
    contender.begin_turn()
    told = samples.setdefault(name, {step: [] for step in STEPS})
    contender.snapshot()  # Whatever the others have changed is captured, untimed.
    told["unchanged"].append(seconds(contender.snapshot))
    wanted = tree.digests(tree.choose(version))
    paths = tree.edit(version)
    told["10 changed"].append(seconds(contender.snapshot))
    told["roll back 10"].append(seconds(lambda: contender.roll_back(paths)))
    tree.expect(wanted, of=name)
    contender.end_turn()


def seconds(step: Callable[[], None]) -> float:
    begun = time.perf_counter()
    step()
    return time.perf_counter() - begun


def measure(size: str, contenders: dict[str, type[Contender]], *, rounds: int) -> Samples:
    samples: Samples = {}
    with tempfile.TemporaryDirectory(prefix="holdfast-cli-") as folder:
        tree = make_tree(TREES[size], Path(folder))
        opened = {
            name: kind(tree, Path(folder, f"home{number}"))
            for number, (name, kind) in enumerate(contenders.items())
        }
        try:
            for contender in opened.values():
                contender.open()
                contender.snapshot()
            names = list(opened)
            for turn in range(rounds):
                for name in names[turn % len(names) :] + names[: turn % len(names)]:
                    play(tree, name, opened[name], samples, version=turn)
        finally:
            for contender in opened.values():
                contender.close()
    return samples


def show(size: str, samples: Samples, *, rounds: int) -> None:
    """Prints medians, and git's by each."""
    print(f"### {TREES[size].title}, {rounds} rounds\n")
    print("|  | " + " | ".join(f"{step} | git by it" for step in STEPS) + " |")
    print("|---" * (1 + 2 * len(STEPS)) + "|")
    for name, told in samples.items():
        cells: list[str] = []
        for step in STEPS:
            mine, theirs = statistics.median(told[step]), statistics.median(samples["git"][step])
            cells += [f"{1000 * mine:.1f} ms", f"{theirs / mine:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |")
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", choices=("2k", "12k", "50k", "250k"), action="append")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--before", type=Path, help="the command of another build, to run cold")
    options = parser.parse_args()
    contenders = dict(CONTENDERS)
    if options.before:
        Before.launcher = options.before.absolute()
        contenders["cold, before"] = Before
    for size in options.size or ("2k", "12k", "50k"):
        rounds = options.rounds or ROUNDS[size]
        show(size, measure(size, contenders, rounds=rounds), rounds=rounds)


if __name__ == "__main__":
    main()
