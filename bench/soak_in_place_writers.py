"""Writes to files in place, slowly, beside constant snapshots, 500 times and more.

    python bench/soak_in_place_writers.py                 # 500 writes: ten minutes
    python bench/soak_in_place_writers.py --writes 3000 --seed 7

A writer is a process that replaces one version of a file by another, each of one byte repeated, so
that a mixture can be told from a version. It is slowed down: by the idle class among processes that
never rest, by a low priority, or by a group that gets a twentieth of a processor. While it runs,
snapshots are taken without a pause; when it has ended one more, and at times what was there before
is restored and that undone. Counted are, on each file system:

- mixtures: snapshots that hold one, with the file named as in motion (fine) or not (wrong);
- what the snapshot after the writer's end holds: it has to be the file, and to vouch for it (but
  for large files on an overlay, which are named for as long as the margin is);
- files after a restore and an undo that are not byte for byte what they were.

What no kernel shows is not played: on an overlay the writer keeps the descriptor of what it maps,
and nowhere does it read a mapping before it writes to it, which on tmpfs moves no time at all.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import holdfast
from holdfast.engine.core.coverage import coverage_of

SIZES = {4 << 10: 6, 64 << 10: 5, 1 << 20: 5, 8 << 20: 4, 48 << 20: 3, 256 << 20: 1}
"""Bytes of a file, and how often such a one is written."""
METHODS = ("write", "pwrite", "mmap", "rename", "truncate")
SLOWNESS = ("idle", "nice", "group")
WRITER = str(Path(__file__).with_name("in_place_writer.py"))
FRESH = 20
"""Writes to one directory and vault, before others take their place."""


@contextmanager
def busy() -> Generator[None]:
    """Keeps all processors busy with what never rests."""
    count = os.cpu_count() or 1
    loop = f"import os\nos.nice(15)\nwhile os.getppid() == {os.getpid()}: pass"
    running = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(count)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


@contextmanager
def throttled() -> Generator[str]:
    """Makes a group that gets a twentieth of a processor; yields nothing where that cannot be."""
    name = f"holdfast-soak-{os.getpid()}"
    try:
        if Path("/sys/fs/cgroup/cpu/tasks").exists():
            group = Path("/sys/fs/cgroup/cpu", name)
            group.mkdir()
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text("5000")
        else:
            group = Path("/sys/fs/cgroup", name)
            group.mkdir()
            (group / "cpu.max").write_text("5000 100000")
    except OSError as exc:
        print(f"no throttled group ({exc.strerror}): such writers get a low priority instead")
        yield ""
        return
    try:
        yield str(group)
    finally:
        group.rmdir()


@contextmanager
def disk() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="holdfast-soak-") as folder:
        yield Path(folder)


@contextmanager
def memory() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="holdfast-soak-", dir="/dev/shm") as folder:
        yield Path(folder)


@contextmanager
def overlay() -> Generator[Path]:
    with memory() as folder:
        for name in ("lower", "upper", "work", "merged"):
            (folder / name).mkdir()
        places = f"lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work"
        mounting = ["mount", "-t", "overlay", "overlay", "-o", places, str(folder / "merged")]
        done = subprocess.run(mounting, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(0, done.stderr.strip() or "mount has failed")
        try:
            yield folder / "merged"
        finally:
            subprocess.run(["umount", str(folder / "merged")], check=True)


class Soak:
    """Writes on one file system."""

    def __init__(self, folder: Path, name: str, choose: random.Random, group: str) -> None:
        self._folder, self._name, self._choose, self._group = folder, name, choose, group
        self._byte = 1
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def play(self, writes: int) -> None:
        for first in range(0, writes, FRESH):
            with (
                tempfile.TemporaryDirectory(prefix="tree-", dir=self._folder) as tree,
                tempfile.TemporaryDirectory(prefix="holdfast-soak-vault-") as vault,
                holdfast.open(vault) as opened,
                opened.workspace(tree) as self._workspace,
            ):
                for _ in range(min(FRESH, writes - first)):
                    self._write_once(Path(tree))

    def _write_once(self, tree: Path) -> None:
        workspace = self._workspace
        size = self._choose.choices(list(SIZES), weights=list(SIZES.values()))[0]
        method = self._choose.choice(METHODS)
        if method == "mmap" and self._name == "overlay":
            method = "mmap, open"
        how = self._choose.choice(SLOWNESS)
        what = f"{self._name}: {method}, {how}, {size} bytes"
        file = tree / f"f{size}"
        if not file.exists():
            file.write_bytes(bytes([self._byte]) * size)
        before = workspace.snapshot()
        old = file.read_bytes()
        self._byte = self._byte % 255 + 1
        told = [str(file), method, str(self._byte), str(size), how, self._group]
        writer = subprocess.Popen([sys.executable, "-S", WRITER, *told])
        while writer.poll() is None:
            self._look(file, size, what)
        if writer.returncode:
            raise SystemExit(f"{what}: the writer ended with {writer.returncode}")
        self.counts["writes"] += 1
        new = file.read_bytes()
        if not is_whole(new, size) or new == old:
            raise SystemExit(f"{what}: the writer did not write")
        taken = workspace.snapshot()
        held = workspace.namespace.at(taken).files.read(file.name)
        # Where writers cannot be seen, a large file is named until it has not changed for long.
        is_named = file.name in named(taken)
        self.counts["named after the end"] += is_named
        if held != new or (is_named and self._name != "overlay"):
            found = f"{taken.id} is whole: {is_whole(held, size)}, in motion: {is_named}"
            self.wrong.append(f"{what}: after the writer's end {found}")
        if size <= 8 << 20 or self._choose.random() < 0.3:
            self.counts["restored and undone"] += 1
            restored = workspace.restore(before)
            is_old = file.read_bytes() == old
            undone = workspace.undo()
            if not (is_old and file.read_bytes() == new and restored.verified and undone.verified):
                self.wrong.append(f"{what}: a restore and an undo did not bring it back")

    def _look(self, file: Path, size: int, what: str) -> None:
        taken = self._workspace.snapshot()
        self.counts["snapshots"] += 1
        held = self._workspace.namespace.at(taken).files.read(file.name)
        moving = file.name in named(taken)
        self.counts["in motion"] += moving
        if is_whole(held, size):
            return
        self.counts["mixtures, named"] += moving
        if not moving:
            self.counts["mixtures, not named"] += 1
            self.wrong.append(f"{what}: {taken.id} holds a mixture that it does not name")


def named(snapshot: holdfast.SnapshotInfo) -> list[str]:
    coverage = coverage_of(snapshot)
    assert coverage is not None
    return [each.path for each in coverage.in_motion]


def is_whole(data: bytes, size: int) -> bool:
    return len(data) == size and data.count(data[0]) == size


PLACES: dict[str, Callable[[], AbstractContextManager[Path]]] = {
    "disk": disk,
    "memory": memory,
    "overlay": overlay,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--writes", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--on", nargs="+", choices=list(PLACES), default=list(PLACES))
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.writes} writes")
    wrong: list[str] = []
    left = options.writes
    with busy(), throttled() as group:
        for number, name in enumerate(options.on):
            share = left // (len(options.on) - number)
            start = time.perf_counter()
            with ExitStack() as stack:
                try:
                    folder = stack.enter_context(PLACES[name]())
                except OSError as exc:
                    print(f"{name:8} left out: {exc.strerror}")
                    continue
                choose = random.Random(options.seed * 1000 + number)
                soak = Soak(folder, name, choose, group)
                soak.play(share)
            left -= share
            wrong += soak.wrong
            told = ", ".join(f"{count} {what}" for what, count in sorted(soak.counts.items()))
            print(f"{name:8} {time.perf_counter() - start:5.0f} s: {told}", flush=True)
    for each in wrong[:20]:
        print(f"WRONG {each}")
    print(f"{options.writes - left} writes, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
