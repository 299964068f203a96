"""What a command costs in a namespace of many files, when few of them change.

    make bench ONLY=exec
    python bench/bench_exec.py --files 100 10000 --calls 20

`first` fills the directory; after that it is warm. `nothing` runs `true`, `three` writes three
files, `between` does so after a file was written through the namespace, and `bare` is the sandbox
alone, without a namespace: what no call can be faster than. Medians in milliseconds; the lines
take turns, so that a busy moment meets all of them.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import holdfast
from holdfast.sandbox.confining import WORKSPACE
from holdfast.sandbox.limits import Allowance
from holdfast.sandbox.probing import Sandbox
from holdfast.sandbox.running import Order
from holdfast.settings import ExecSettings

BATCH = 1000


class Lines:
    """What was measured."""

    def __init__(self) -> None:
        self._samples: dict[str, list[float]] = {}

    def measure(self, name: str, act: Callable[[], object]) -> None:
        begun = time.perf_counter()
        act()
        self._samples.setdefault(name, []).append((time.perf_counter() - begun) * 1000)

    def show(self, files: int) -> str:
        medians = {name: statistics.median(found) for name, found in self._samples.items()}
        cells = " | ".join(f"{each:,.1f}" for each in medians.values())
        return f"| {files:,} | {cells} |"

    @property
    def names(self) -> list[str]:
        return list(self._samples)


def fill(agent: holdfast.Namespace, files: int) -> None:
    for start in range(0, files, BATCH):
        many = {
            f"{number % 100}/{number}.txt": f"{number}\n" * 20
            for number in range(start, min(start + BATCH, files))
        }
        agent.files.write_many(many.items())
    agent.snapshot("filled")


def measure(files: int, calls: int) -> Lines:
    lines, sandbox = Lines(), Sandbox()
    sandbox.check()
    with (
        tempfile.TemporaryDirectory() as folder,
        holdfast.open(Path(folder) / "vault", commands=ExecSettings(is_on=True)) as vault,
    ):
        agent = vault.namespace("bench")
        fill(agent, files)
        empty = Path(folder) / "empty"
        empty.mkdir()
        bare = Order(
            command=["/bin/bash", "-c", "true"],
            folder=str(empty),
            cwd=WORKSPACE,
            allowance=Allowance(),
        )
        lines.measure("first", lambda: agent.exec("true"))
        for number in range(calls):
            three = "; ".join(f"echo {number} > {place}/new.txt" for place in (1, 2, 3))
            lines.measure("bare", lambda: sandbox.run(bare, lambda *_: None))
            lines.measure("nothing", lambda: agent.exec("true"))
            lines.measure("three", lambda three=three: agent.exec(f"mkdir -p 1 2 3; {three}"))
            agent.files.write("between.txt", str(number))
            lines.measure("between", lambda three=three: agent.exec(f"{three}; cat between.txt"))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, nargs="+", default=[100, 10_000, 100_000])
    parser.add_argument("--calls", type=int, default=15)
    wanted = parser.parse_args()
    for position, files in enumerate(wanted.files):
        lines = measure(files, wanted.calls)
        if position == 0:
            print(f"| files | {' | '.join(lines.names)} |\n|---|{'---|' * len(lines.names)}")
        print(lines.show(files), flush=True)


if __name__ == "__main__":
    main()
