"""Types random command sequences through the client in C, the client in Python, and cold.

    python bench/soak_clients.py                          # 1,000 sequences
    python bench/soak_clients.py --sequences 50 --seed 7
    python bench/soak_clients.py --forks                  # cold ones without what loading takes

`three_ways.py` says what has to be the same. Stops at the first difference, with its seed.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path

from three_ways import Differs, play

import holdfast

COMMANDS = ("status", "diff", "log", "snapshot", "restore", "undo", "redo", "show", "pin", "unpin")
BLOCK = 25
"""Sequences that go on in the same three vaults."""


def warm(folder: Path) -> None:
    """Loads what commands load."""
    with holdfast.open(folder / "vault") as vault:
        (folder / "directory").mkdir()
        vault.workspace(folder / "directory").snapshot()
    for name in ("app", "console", *(f"commands.{name}" for name in COMMANDS)):
        import_module(f"holdfast.cli.{name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=time.time_ns() // 10**9 % 10**6)
    parser.add_argument("--forks", action="store_true", help="fork what is cold; see three_ways.py")
    options = parser.parse_args()
    if options.forks:
        with tempfile.TemporaryDirectory() as folder:
            warm(Path(folder))
    done, seed = Counter[str](), options.seed
    while done["sequences"] < options.sequences:
        count = min(BLOCK, options.sequences - done["sequences"])
        with tempfile.TemporaryDirectory(prefix="holdfast-three-ways-") as folder:
            try:
                done.update(play(Path(folder), seed, count, forks=options.forks))
            except Differs as problem:
                sys.exit(f"seed {seed}, {count} sequences: {problem}")
        seed += 1
        print(", ".join(f"{what} {times:,}" for what, times in done.items()), flush=True)


if __name__ == "__main__":
    main()
