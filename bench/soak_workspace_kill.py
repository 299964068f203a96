"""Kills a process at random moments of its work on a real directory, 200 times and more.

    python bench/soak_workspace_kill.py                   # 200 rounds: five minutes
    python bench/soak_workspace_kill.py --rounds 1000 --seed 7

One vault and one directory live through all rounds. In each, a process edits files, takes
snapshots, restores, undoes, redoes and collects, until it is killed with SIGKILL; then what it
left is checked (`tests/faults/test_workspace_kill.py`, which plays 20 rounds in every test run).
It stops at the first thing that is wrong, names the seed and the round, and leaves the evidence.
"""

import argparse
import tempfile
import time
from pathlib import Path

from checks import load_checks

CHECKS = "faults/test_workspace_kill.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder otherwise")
    options = parser.parse_args()
    root = options.folder or Path(tempfile.mkdtemp(prefix="holdfast-soak-"))
    root.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}, {options.rounds} rounds, in {root}")
    soak = load_checks(CHECKS).Soak(root, options.seed)
    start = time.perf_counter()
    for round_ in range(options.rounds):
        soak.play(round_)
        if (round_ + 1) % 20 == 0:
            print(f"{round_ + 1:5} kills, {time.perf_counter() - start:6.0f} s", flush=True)
    died_in = ", ".join(f"{act} {times}" for act, times in sorted(soak.died_in.items()))
    print(f"killed in: {died_in}")
    print(
        f"{options.rounds} kills: {soak.acknowledged} snapshots acknowledged, none lost; "
        f"{soak.compared} compared byte for byte; {soak.recovered} restores put right"
    )


if __name__ == "__main__":
    main()
