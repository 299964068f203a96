"""Many tasks with restores, undos and forks, pushed over a real ssh server, and compared.

    python bench/soak_git.py
    python bench/soak_git.py --tasks 1000 --every 1

Each snapshot is a commit. Every tenth of them is checked out of a clone and compared with its
snapshot, byte for byte, and `git fsck --strict` looks at all of it. It exits with 0 if nothing
differs. The suite does the same with 50 tasks.
"""

import argparse
import tempfile
import time
from pathlib import Path

import holdfast
from holdfast.testing.gitcopies import compare, git, play
from holdfast.testing.sshd import MISSING, PROGRAM, Sshd


def run(folder: Path, tasks: int, every: int) -> None:
    bare = folder / "theirs.git"
    git("init", "-q", "--bare", "-b", "main", str(bare))
    with (
        Sshd(folder / "sshd") as sshd,
        holdfast.open(folder / "vault", secrets_key="x" * 32) as vault,
    ):
        agent = vault.namespace("agent")
        sshd.admit(agent.git.configure(sshd.url(bare), patterns=[]).public_key or "")
        agent.git.confirm_host(agent.git.host_keys()[0].fingerprint)
        pushes = list[float]()

        def push() -> None:
            agent.git.push()
            start = time.perf_counter()
            vault.push_backups()
            pushes.append(time.perf_counter() - start)
            said = agent.git.get().last_error
            assert said is None, said

        start = time.perf_counter()
        play(agent, tasks=tasks, push=push)
        played = time.perf_counter() - start
        start = time.perf_counter()
        compared = compare(agent, bare, folder / "clone", every=every)
        looked = time.perf_counter() - start
        print(f"{tasks} tasks, {len(agent.timeline())} snapshots: {played:.1f} s")
        print(f"{len(pushes)} pushes: {sum(pushes):.1f} s, the longest {max(pushes):.2f} s")
        print(f"{compared} commits are what their snapshots were: {looked:.1f} s")
        print("git fsck --strict finds nothing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--every", type=int, default=10, help="compare every so many commits")
    arguments = parser.parse_args()
    if PROGRAM is None:
        raise SystemExit(MISSING)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        run(Path(folder), arguments.tasks, arguments.every)


if __name__ == "__main__":
    main()
