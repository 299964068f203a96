"""What a hosted namespace costs as it grows: 10 changed files in 1 k, 10 k, 100 k, 1 M.

    make bench ONLY=namespace
    python bench/bench_namespace.py --sizes 1000 10000 --rounds 20
    python bench/bench_namespace.py --postgres          # the same on a real PostgreSQL

Rounds are interleaved over the sizes, so that a noisy machine is noisy for all of them. Beside
ours stands what an archive of the same tree costs: `tar` piped into `zstd -3`, of the same
files on disk.
"""

import argparse
import contextlib
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import holdfast
from holdfast.model.basics import SnapshotInfo

T = TypeVar("T")

CHANGED = 10
STEPS = ("write", "snapshot", "diff", "restore", "fork", "read")


@dataclass
class Subject:
    """One vault with one namespace of so many files."""

    size: int
    vault: holdfast.Holdfast
    base: SnapshotInfo
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    added: list[int] = field(default_factory=list)
    forks: int = 0

    def timed(self, step: str, call: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = call()
        self.times[step].append(time.perf_counter() - start)
        return result

    def median_ms(self, step: str) -> float:
        return statistics.median(self.times[step]) * 1e3


def path_of(number: int) -> str:
    return f"src/package{number % 997:03d}/part{number // 997 % 31:02d}/module{number:07d}.py"


def body_of(number: int, version: int = 0) -> str:
    line = f"value_{number * 7919 % 100003} = {number * 104729 % 999983}  # {version}\n"
    return f'"""Module {number}."""\n' + line * 12


def play_round(subject: Subject, version: int, rng: random.Random) -> None:
    namespace = subject.vault.namespace("agent")
    for number in rng.sample(range(subject.size), CHANGED):
        subject.timed(
            "write",
            lambda n=number: namespace.files.write(path_of(n), body_of(n, version)),
        )
    before = subject.vault.stored_bytes()
    taken = subject.timed("snapshot", namespace.snapshot)
    subject.added.append(subject.vault.stored_bytes() - before)
    changes = subject.timed("diff", lambda: namespace.diff(subject.base, taken))
    restored = subject.timed("restore", lambda: namespace.restore(subject.base))
    subject.forks += 1
    subject.timed("fork", lambda: namespace.fork(f"fork-{subject.forks}"))
    subject.timed("read", lambda: namespace.files.read(path_of(rng.randrange(subject.size))))
    assert len(changes) == len(restored.changes) == CHANGED
    assert restored.verified


def open_subject(size: int, folder: Path, url: str | None) -> Subject:
    vault = holdfast.open(url or folder, objects=folder / "packs" if url else None)
    namespace = vault.namespace("agent")
    start = time.perf_counter()
    namespace.files.write_many((path_of(n), body_of(n)) for n in range(size))
    base = namespace.snapshot("base")
    print(f"  {size:>9,} files written and captured in {time.perf_counter() - start:.1f} s")
    return Subject(size, vault, base)


def tar_seconds(size: int, folder: Path) -> float:
    """Writes the same tree to disk and returns how long tar and zstd take to archive it."""
    tree = folder / "tree"
    for number in range(size):
        path = tree / path_of(number)
        if number < 997 * 31:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body_of(number))
    start = time.perf_counter()
    command = f"tar -C {tree} -cf - . | zstd -q -3 -o {folder / 'tree.tar.zst'}"
    subprocess.run(["/bin/sh", "-c", command], check=True)
    seconds = time.perf_counter() - start
    shutil.rmtree(tree)
    return seconds


def print_table(subjects: list[Subject], archive: dict[int, float]) -> None:
    print("\n| files |", " | ".join(f"{step} ms" for step in STEPS), end="")
    print(" | bytes added per snapshot | tar + zstd ms | tar / snapshot |")
    print("|---" * (len(STEPS) + 4) + "|")
    for subject in subjects:
        cells = [f"{subject.median_ms(step):.2f}" for step in STEPS]
        tar = archive.get(subject.size)
        ratio = "" if tar is None else f"{tar * 1e3 / subject.median_ms('snapshot'):,.0f}x"
        shown = "" if tar is None else f"{tar * 1e3:,.0f}"
        added = f"{statistics.median(subject.added):,.0f}"
        print(f"| {subject.size:,} |", " | ".join(cells), f"| {added} | {shown} | {ratio} |")
    first, last = subjects[0], subjects[-1]
    ratios = [f"{last.median_ms(step) / first.median_ms(step):.2f}x" for step in STEPS]
    print(f"| {last.size:,} / {first.size:,} |", " | ".join(ratios), "| | | |")


@contextlib.contextmanager
def databases(count: int, *, wanted: bool) -> Iterator[list[str | None]]:
    """Yields a URL for each vault: of a real PostgreSQL, or None for SQLite."""
    if not wanted:
        yield [None] * count
        return
    from holdfast.testing.postgres import PostgresServer  # noqa: PLC0415 - only when asked for

    with PostgresServer() as server:
        yield [server.dsn(server.create_database()) for _ in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--no-tar", action="store_true", help="leave the archive out")
    parser.add_argument("--postgres", action="store_true", help="catalog in PostgreSQL")
    options = parser.parse_args()
    rng = random.Random(7433)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
    print("PostgreSQL" if options.postgres else "SQLite", f"catalog, {CHANGED} files changed")
    with databases(len(options.sizes), wanted=options.postgres) as urls:
        subjects = [
            open_subject(size, folder / str(size), url)
            for size, url in zip(options.sizes, urls, strict=True)
        ]
        for version in range(1, options.rounds + 1):
            for subject in subjects:
                play_round(subject, version, rng)
        archive: dict[int, float] = {}
        if not options.no_tar:
            archive = {size: tar_seconds(size, folder / str(size)) for size in options.sizes}
        print_table(subjects, archive)
        for subject in subjects:
            subject.vault.close()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
