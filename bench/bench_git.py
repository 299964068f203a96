"""What a push of a git backup costs against what changed, over a real ssh server.

    make bench ONLY=git
    python bench/bench_git.py --files 50000 --rounds 5

The first push makes a commit of all files; each line after it is a snapshot in which so many files
of 1 KB are new, made into a commit and pushed: medians. `sent` is by how much the repository at the
other end has grown. Without an sshd the commits alone are made.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

import holdfast
from holdfast.engine.gitbackup.exporting import export
from holdfast.engine.gitbackup.rules import Rules
from holdfast.git.program import Program
from holdfast.git.repository import Repository
from holdfast.testing.sshd import MISSING, PROGRAM, Sshd

CHANGED = (0, 1, 10, 100, 1000)
SIZE = 1024


def fill(agent: holdfast.Namespace, count: int) -> None:
    step = 5000
    for start in range(0, count, step):
        stop = min(start + step, count)
        agent.files.write_many((name(n), text(n, "first")) for n in range(start, stop))


def name(number: int) -> str:
    return f"d{number // 100}/f{number}.txt"


def text(number: int, word: str) -> bytes:
    return f"{word} {number} ".encode().ljust(SIZE, b"%d" % (number % 10))


def push(vault: holdfast.Holdfast, agent: holdfast.Namespace) -> float:
    agent.git.push()
    start = time.perf_counter()
    vault.push_backups()
    taken = time.perf_counter() - start
    said = agent.git.get().last_error
    assert said is None, said
    return taken


def commit(bare: Path, agent: holdfast.Namespace) -> float:
    start = time.perf_counter()
    repository = Repository(Program(bare.parent), bare)
    export(agent._handle, repository, branch="main", rules=Rules())  # noqa: SLF001 - what a push does before it is sent
    return time.perf_counter() - start


def stored(bare: Path) -> int:
    return sum(path.stat().st_size for path in (bare / "objects").rglob("*") if path.is_file())


def measure(folder: Path, files: int, rounds: int) -> None:
    bare = folder / "theirs.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(bare)], check=True)
    with holdfast.open(folder / "vault", secrets_key="x" * 32) as vault:
        agent = vault.namespace("agent")
        fill(agent, files)
        agent.snapshot()
        if PROGRAM is None:
            print(f"{MISSING}: commits alone")
            take_turns(agent, bare, files, rounds, bring=partial(commit, bare))
            return
        with Sshd(folder / "sshd") as sshd:
            made = agent.git.configure(sshd.url(bare), on_tasks=False)
            sshd.admit(made.public_key or "")
            agent.git.confirm_host(agent.git.host_keys()[0].fingerprint)
            take_turns(agent, bare, files, rounds, bring=partial(push, vault))


def take_turns(agent, bare: Path, files: int, rounds: int, *, bring) -> None:  # noqa: ANN001 - of this file
    print(f"first {files} files: {bring(agent):.2f} s, {stored(bare) / 1e6:.1f} MB stored")
    print(f"{'changed':>8} {'snapshot':>10} {'push':>10} {'sent':>10}")
    for count in CHANGED:
        taken, spent, sent = list[float](), list[float](), list[int]()
        for number in range(rounds):
            step = max(1, files // max(1, count))
            chosen = range(0, min(files, count * step), step)
            agent.files.write_many((name(n), text(n, f"{count}-{number}")) for n in chosen)
            start = time.perf_counter()
            agent.snapshot()
            taken.append(time.perf_counter() - start)
            before = stored(bare)
            spent.append(bring(agent))
            sent.append(stored(bare) - before)
        took, pushed, grown = (statistics.median(values) for values in (taken, spent, sent))
        line = f"{count:>8} {took * 1e3:>7.1f} ms {pushed * 1e3:>7.0f} ms {grown / 1e3:>7.1f} kB"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        measure(Path(folder), arguments.files, arguments.rounds)


if __name__ == "__main__":
    main()
