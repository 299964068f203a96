"""Kills real processes that work on a real directory, and lets several work on one at once.

The victim says through a pipe what it is about to do, how the directory is then, and which
snapshots have been acknowledged; the pipe outlives it. Afterwards every acknowledged snapshot
that is still on the timeline must give back exactly what it held, the directory must be what it
was or what it was to become, and nothing may be left lying about. The seed of a round that fails
is in its message; `bench/soak_workspace_kill.py` plays as many rounds as one likes.
"""

import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Self

import msgspec
import pytest

import holdfast
from holdfast.engine.core.limits import Limits
from holdfast.engine.objects import stage
from holdfast.engine.vault import Holdfast
from holdfast.engine.workspace import Workspace
from holdfast.errors import DriftFound, NothingToUndo, PathNotFound
from holdfast.testing.faults import find_litter
from holdfast.workspace import amending, writing

ROUNDS = int(os.environ.get("HOLDFAST_KILL_ROUNDS", "8"))
SEED = int(os.environ.get("HOLDFAST_KILL_SEED", "1"))
LIMITS = Limits(inline_bytes=4096, free_floor_bytes=0, grace=timedelta(0))
KEPT = 40
"""Snapshots that stay on the timeline: collections have something to take away."""
LARGE_BYTES = 400_000
STATE = {"attachment.json", "index", "journal", "lock"}
MOVES = {"restore", "restore paths", "undo", "redo"}


def test_what_was_acknowledged_outlives_any_kill(tmp_path: Path) -> None:
    soak = Soak(tmp_path, SEED)
    for round_ in range(ROUNDS):
        soak.play(round_)
    assert soak.acknowledged > ROUNDS
    assert soak.compared > ROUNDS


@dataclass
class Soak:
    """One vault and one directory, through many rounds of work and death."""

    root: Path
    seed: int
    acknowledged: int = 0
    compared: int = 0
    recovered: int = 0
    died_in: dict[str, int] = field(default_factory=dict[str, int])
    _held: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    """What was acknowledged: number, and name of the tree."""

    def play(self, round_: int) -> None:
        """Lets a victim work and die, then checks all that it has left."""
        random = Random(self.seed * 100_003 + round_)
        at = f"seed {self.seed}, round {round_}"
        said = self._run_and_kill(random)
        fresh = [line for line in said if "snapshot" in line]
        self._held |= {line["snapshot"]: (line["number"], line["holds"]) for line in fresh}
        self.acknowledged += len(fresh)
        last = [line for line in said if "act" in line][-1]
        self.died_in[last["act"]] = self.died_in.get(last["act"], 0) + 1
        with open_vault(self.root) as vault, vault.workspace(self.root / "tree") as work:
            self._check_directory(work, last, at)
            assert vault.verify().faults == [], at
            self._check_snapshots(work, random, at)
            tree = name_of(work.path)
            vault.collect(now=True)
            assert vault.verify().faults == [], at
            self._check_snapshots(work, random, at)
            assert name_of(work.path) == tree, at
            self._check_files(vault, at)

    def _run_and_kill(self, random: Random) -> list[dict[str, Any]]:
        command = [sys.executable, __file__, "work", str(self.root), str(random.randrange(1 << 30))]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as victim:
            assert victim.stdout is not None
            lines = [victim.stdout.readline() for _ in range(random.randrange(2, 40))]
            # Not a wait for anything: it moves the blow to anywhere within the next few acts.
            time.sleep(random.random() * 0.03)
            victim.kill()
            lines += victim.stdout.readlines()
        assert victim.returncode == -signal.SIGKILL, "it ended by itself"
        return [msgspec.json.decode(line) for line in lines if line.endswith(b"\n")]

    def _check_directory(self, work: Workspace, last: dict[str, Any], at: str) -> None:
        """Checks that the directory is as it was, or as the catalog says that it has become."""
        status = work.status()
        self.recovered += status.recovered is not None
        found = name_of(work.path)
        at = f"{at}, died in {last['act']}"
        if last["act"] == "edit":
            return
        if last["act"] not in MOVES:
            assert found == last["tree"], at
            return
        if found != last["tree"]:
            assert not status.changes, at
            # What it replaced is on the timeline: as one of the last few, it was just taken.
            latest = work.namespace.timeline(limit=4)
            assert last["tree"] in [self._checked_out(work, s.id) for s in latest], at

    def _check_snapshots(self, work: Workspace, random: Random, at: str) -> None:
        there = {snapshot.id: snapshot.number for snapshot in work.namespace.timeline()}
        for snapshot_id, (number, _) in [*self._held.items()]:
            if snapshot_id not in there:
                assert number <= max(there.values()) - KEPT, (at, "not retention's doing")
                del self._held[snapshot_id]
        for snapshot_id in random.sample([*self._held], k=min(len(self._held), 3)):
            assert self._checked_out(work, snapshot_id) == self._held[snapshot_id][1], at
            self.compared += 1

    def _checked_out(self, work: Workspace, snapshot_id: str) -> str:
        target = self.root / "checked-out"
        try:
            assert work.checkout(snapshot_id, target).verified
            return name_of(target)
        finally:
            shutil.rmtree(target, ignore_errors=True)

    def _check_files(self, vault: Holdfast, at: str) -> None:
        """Checks that nothing is in the vault but what is expected there."""
        assert find_litter(vault._context) == set(), at
        root = self.root / "vault"
        with vault._context.catalog.read() as transaction:
            tenants = [tenant.id for tenant in transaction.iter_tenants()]
            packs = [pack for tenant in tenants for pack in transaction.iter_packs(tenant)]
        named = {f"{pack.name}.pack" for pack in packs if not pack.is_inline}
        files = [path.name for path in (root / "packs").rglob("*") if path.is_file()]
        assert sorted(files) == sorted(named), at
        [state] = (root / "workspaces").iterdir()
        assert {path.name for path in state.iterdir()} <= STATE, at
        names = {path.name for path in root.iterdir() if not path.name.startswith("catalog.sqlite")}
        assert names == {"catalog.mark", "locks", "packs", "reserve", "workspaces"}, at
        litter = [path.name for path in (self.root / "tree").rglob(".holdfast-*")]
        assert litter == [], at


def open_vault(root: Path) -> Holdfast:
    return holdfast.open(root / "vault", limits=LIMITS)


def name_of(tree: Path) -> str:
    """A short name for all that a directory holds: equal trees have equal names."""
    found: list[object] = []
    twins: dict[tuple[int, int], str] = {}
    for top, folders, files in os.walk(tree):
        folders.sort()
        for name in sorted((*folders, *files)):
            path = os.path.join(top, name)
            state, key = os.lstat(path), os.path.relpath(path, tree)
            if stat.S_ISLNK(state.st_mode):
                found.append((key, os.readlink(path), state.st_mtime_ns))
            elif stat.S_ISDIR(state.st_mode):
                found.append((key, state.st_mode))
            else:
                with open(path, "rb") as file:
                    digest = hashlib.sha256(file.read()).hexdigest()
                first = twins.setdefault((state.st_dev, state.st_ino), key)
                found.append((key, state.st_mode, state.st_mtime_ns, digest, first))
    return hashlib.sha256(repr(sorted(found, key=repr)).encode()).hexdigest()[:16]


class Victim:
    """Does one thing after another to a directory, until it is killed."""

    def __init__(self, vault: Holdfast, work: Workspace, random: Random) -> None:
        self._vault = vault
        self._work = work
        self._tree = work.path
        self._random = random

    def run(self) -> None:
        """Works, and never returns."""
        if not (self._tree / "large.bin").exists():
            (self._tree / "large.bin").write_bytes(self._random.randbytes(LARGE_BYTES))
        if not self._work.namespace.timeline(limit=1):
            self._work.snapshot()
            self._work.namespace.set_retention(keep_last=KEPT)
        acts: dict[str, tuple[Callable[[], object], int]] = {
            "edit": (self._edit, 6),
            "snapshot": (self._snapshot, 5),
            "restore": (self._restore, 6),
            "restore paths": (self._restore_paths, 3),
            "undo": (self._work.undo, 4),
            "redo": (self._work.redo, 3),
            "collect": (self._vault.collect, 2),
            "status": (self._work.status, 1),
        }
        weights = [weight for _, weight in acts.values()]
        while True:
            [name] = self._random.choices([*acts], weights=weights)
            say(act=name, tree=name_of(self._tree))
            with suppress(NothingToUndo):
                acts[name][0]()

    def _edit(self) -> None:
        for _ in range(self._random.randrange(1, 12)):
            change = self._random.choice(
                [self._write, self._write, self._write, self._remove, self._link, self._patch]
            )
            with suppress(OSError):  # what is there may not be what the change is for
                change()

    def _snapshot(self) -> None:
        taken = self._work.snapshot()
        say(snapshot=taken.id, number=taken.number, holds=name_of(self._tree))

    def _restore(self) -> None:
        self._work.restore(self._random.choice(self._work.namespace.timeline(limit=20)))

    def _restore_paths(self) -> None:
        target = self._random.choice(self._work.namespace.timeline(limit=20))
        self._work.restore(target, paths=[f"d{self._random.randrange(3)}", "large.bin"])

    def _write(self) -> None:
        path = self._path()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._random.randbytes(self._random.choice([0, 20, 2000, 9000, 90_000])))
        path.chmod(self._random.choice([0o644, 0o600, 0o755]))

    def _remove(self) -> None:
        path = self._random.choice([self._path(), self._path().parent])
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    def _link(self) -> None:
        path, kind = self._path(), self._random.randrange(3)
        if kind == 0:
            path.symlink_to(f"../{self._random.randrange(9)}")
        elif kind == 1:
            os.link(self._path(), path)
        else:
            path.mkdir(mode=self._random.choice([0o755, 0o700]))

    def _patch(self) -> None:
        with open(self._tree / "large.bin", "r+b") as file:
            file.seek(self._random.randrange(LARGE_BYTES))
            file.write(self._random.randbytes(100))

    def _path(self) -> Path:
        folder = self._tree / f"d{self._random.randrange(3)}"
        name = f"{self._random.randrange(8)}"
        return folder / name if self._random.random() < 0.8 else folder / "deep" / name


def say(**values: object) -> None:
    # One write, so that a line is there as a whole or is recognised as torn.
    os.write(1, msgspec.json.encode(values) + b"\n")


# Several at once


@pytest.mark.parametrize(
    "others",
    [["snapshot", "snapshot"], ["snapshot", "restore"], ["snapshot", "undo"]],
    ids=" and ".join,
)
def test_processes_at_one_directory_take_turns_and_lose_nothing(
    tmp_path: Path, others: list[str]
) -> None:
    (tmp_path / "tree").mkdir()
    with open_vault(tmp_path) as vault, vault.workspace(tmp_path / "tree") as work:
        (work.path / "shared.txt").write_text("at first")
        work.snapshot()
    said: list[dict[str, str]] = []
    with ExitStack() as stack:
        workers = [
            stack.enter_context(start_worker(tmp_path, number, act))
            for number, act in enumerate(others)
        ]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.close()
        for worker in workers:
            assert worker.stdout is not None
            said += [msgspec.json.decode(line) for line in worker.stdout.readlines()]
            assert worker.wait() == 0
    assert len(said) == 2 * TURNS
    with open_vault(tmp_path) as vault, vault.workspace(tmp_path / "tree") as work:
        work.snapshot()
        timeline = work.namespace.timeline()
        assert vault.verify().ok
        assert {line["snapshot"] for line in said if "snapshot" in line} <= {s.id for s in timeline}
        kept: dict[str, set[bytes]] = {}
        for snapshot in timeline:
            moment = work.namespace.at(snapshot)
            for file in moment.files.list(recursive=True):
                if file.kind != "file":
                    continue
                kept.setdefault(file.path, set()).add(moment.files.read(file.path))
        for line in said:
            assert line["data"].encode() in kept.get(line["path"], set()), line
        assert not work.status().changes


TURNS = 12


def start_worker(root: Path, number: int, act: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, __file__, "turns", str(root), f"{number}", act],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def take_turns(root: Path, number: str, act: str) -> None:
    """Writes a file and acts, again and again, beside another process that does so too."""
    with open_vault(root) as vault, vault.workspace(root / "tree") as work:
        first = work.namespace.timeline()[-1]
        os.write(1, b"ready\n")
        sys.stdin.read()
        for turn in range(TURNS):
            # A name of its own each time: between a look and a replacement there is a moment,
            # and here it is the turns that are looked at.
            path, data = f"of-{number}/{turn}.txt", f"{act} {number} {turn}"
            (work.path / path).parent.mkdir(exist_ok=True)
            (work.path / path).write_text(data)
            if act == "snapshot":
                say(path=path, data=data, snapshot=work.snapshot().id)
                continue
            with suppress(DriftFound, NothingToUndo):
                work.restore(first) if act == "restore" else work.undo()
            say(path=path, data=data)


def test_what_somebody_writes_during_restores_is_in_the_directory_or_in_a_snapshot(
    tmp_path: Path,
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    names = [f"{number}.txt" for number in range(6)]
    with open_vault(tmp_path) as vault, vault.workspace(tree) as work:
        moments = []
        for version in ("first", "second"):
            for name in names:
                (tree / name).write_text(f"{version} {name}")
            moments.append(work.snapshot())
        writer = Writer(tree, names)
        spans: list[tuple[float, float]] = []
        with writer:
            for turn in range(40):
                begun = time.monotonic()
                with suppress(DriftFound):
                    work.restore(moments[turn % 2])
                spans.append((begun, time.monotonic()))
                # Not a wait for anything: somebody shall write between two restores as well.
                time.sleep(0.02)
        work.snapshot()
        assert vault.verify().ok
        assert not work.status().changes
        kept: dict[str, set[str]] = {name: set() for name in names}
        for snapshot in work.namespace.timeline():
            for name in names:
                # One that never held still is left out; then a restore leaves it alone.
                with suppress(PathNotFound):
                    kept[name].add(work.namespace.at(snapshot).files.read(name).decode())
        # What was written during a restore may have come between its look and its replacement.
        # What was written between two of them was there when the second one looked.
        checked = 0
        for name in names:
            for (_, earlier), (begun, ended) in pairwise(spans):
                last = [w for w in writer.written[name] if w.begun <= ended][-1:]
                if last and last[0].begun > earlier and last[0].ended < begun:
                    checked += 1
                    assert last[0].data in kept[name], (name, last)
        assert checked > 5


@dataclass(frozen=True)
class Written:
    data: str
    begun: float
    ended: float


class Writer:
    """Edits files in a thread of its own, and remembers when."""

    def __init__(self, tree: Path, names: list[str]) -> None:
        self.written: dict[str, list[Written]] = {name: [] for name in names}
        self._tree = tree
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        random = Random(SEED)
        for number in range(1 << 30):
            # Not a wait for anything: the pace of a quick typist.
            if self._stop.wait(random.random() * 0.03):
                return
            name, data = random.choice([*self.written]), f"edit {number}"
            begun = time.monotonic()
            (self._tree / name).write_text(data)
            self.written[name].append(Written(data, begun, time.monotonic()))


def work_until_killed(root: Path, seed: str) -> None:
    stage.PACK_TARGET_BYTES = 128 << 10  # pyright: ignore[reportConstantRedefinition] - packs spill
    amending.PATCH_BYTES = 128 << 10  # pyright: ignore[reportConstantRedefinition] - as a large file
    # Every other one creates its few files as many are created: with one call, in C.
    writing.WORTH_IT = 1 + int(seed) % 2 * 100  # pyright: ignore[reportConstantRedefinition]
    (root / "tree").mkdir(exist_ok=True)
    with open_vault(root) as vault:
        Victim(vault, vault.workspace(root / "tree"), Random(int(seed))).run()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work_until_killed(Path(sys.argv[2]), sys.argv[3])
    else:
        take_turns(Path(sys.argv[2]), sys.argv[3], sys.argv[4])
