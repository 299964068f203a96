"""A real directory against a model: whatever was done to it, going back is exact.

The model is a list of trees: every byte, mode, time and group of names of the directory, copied
when a snapshot was taken. Random changes are made to the directory; then it has to come back as
the model says, by restore (whole or some paths), undo and redo, with nothing else changed.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import holdfast
from holdfast.errors import NameNotFound
from holdfast.model.basics import SnapshotInfo

NAMES = ["a", "b", "c", "é"]
PATHS = [f"{x}{y}{z}" for x in NAMES for y in ("", "/a", "/b", "/c") for z in ("", "/a", "/b")]
SIZES = [0, 1, 256, 257, 3000, 70_000]

paths = st.sampled_from(sorted(set(PATHS)))
modes = st.sampled_from([0o644, 0o600, 0o755, 0o444])
folder_modes = st.sampled_from([0o755, 0o700, 0o555, 0o1777])
times = st.sampled_from([None, 0, -1, 1_700_000_000_123_456_789, 10_413_792_000_000_000_007])


class Seen(NamedTuple):
    """What can be seen at one path."""

    kind: str
    mode: int = 0
    content: bytes = b""
    mtime_ns: int = 0
    names: tuple[str, ...] = ()


Tree = dict[str, Seen]


def look(root: Path) -> Tree:
    """Returns all that a directory holds."""
    found: Tree = {}
    groups: dict[int, list[str]] = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            place = Path(folder, name)
            state = place.lstat()
            path, mode = str(place.relative_to(root)), stat.S_IMODE(state.st_mode)
            if stat.S_ISDIR(state.st_mode):
                found[path] = Seen("folder", mode)
            elif stat.S_ISLNK(state.st_mode):
                target = os.fsencode(os.readlink(place))
                found[path] = Seen("link", 0, target, state.st_mtime_ns)
            else:
                found[path] = Seen("file", mode, place.read_bytes(), state.st_mtime_ns)
                groups.setdefault(state.st_ino, []).append(path)
    for names in groups.values():
        for path in names:
            found[path] = found[path]._replace(names=tuple(sorted(names)))
    return found


def picked(tree: Tree, chosen: Callable[[str], bool]) -> dict[str, tuple[object, ...]]:
    """Returns files and links, without their groups: those may be cut by a restore of some."""
    return {path: seen[:4] for path, seen in tree.items() if chosen(path) and seen.kind != "folder"}


class Directory(RuleBasedStateMachine):
    """One directory under somebody's hands."""

    def __init__(self) -> None:
        super().__init__()
        # Where files in memory are to be had: hundreds of commits wait for no disk there.
        roomy = "/dev/shm" if shutil.disk_usage("/dev/shm").free > 1 << 30 else None
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-property-", dir=roomy))
        self.tree = self.folder / "tree"
        self.tree.mkdir()
        self.vault = holdfast.open(self.folder / "vault")
        self.workspace = self.vault.workspace(self.tree)
        self.taken: list[tuple[SnapshotInfo, Tree]] = []
        self.back: list[Tree] = []
        self.forth: list[Tree] = []

    def teardown(self) -> None:
        self.workspace.close()
        self.vault.close()
        for folder, _, _ in os.walk(self.folder):
            os.chmod(folder, 0o700)
        shutil.rmtree(self.folder)

    @initialize()
    def begin(self) -> None:
        self.write("a/a", 1, 0, 0o644, None)
        self.snapshot()

    # Changes

    def clear(self, path: str) -> Path:
        """Makes room for something at a path, and folders above it."""
        place = self.tree
        for name in Path(path).parent.parts:
            place = place / name
            if place.is_symlink() or place.is_file():
                place.unlink()
            place.mkdir(exist_ok=True)
        place = self.tree / path
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        return place

    @rule(
        path=paths,
        seed=st.integers(0, 3),
        size=st.sampled_from(range(len(SIZES))),
        mode=modes,
        mtime_ns=times,
    )
    def write(self, path: str, seed: int, size: int, mode: int, mtime_ns: int | None) -> None:
        place = self.clear(path)
        place.write_bytes(bytes([seed + 65]) * SIZES[size])
        place.chmod(mode)
        if mtime_ns is not None:
            os.utime(place, ns=(mtime_ns, mtime_ns))

    @rule(path=paths, data=st.binary(max_size=3))
    def write_into(self, path: str, data: bytes) -> None:
        place = self.tree / path
        if place.is_file() and not place.is_symlink():
            with place.open("r+b") as file:
                file.write(data)

    @rule(path=paths, goal=st.sampled_from(["a", "../b", "/etc", "nowhere", "."]))
    def link(self, path: str, goal: str) -> None:
        self.clear(path).symlink_to(goal)

    @rule(path=paths, mode=folder_modes)
    def make(self, path: str, mode: int) -> None:
        place = self.clear(path)
        place.mkdir()
        place.chmod(mode)

    @rule(path=paths, first=paths)
    def twin(self, path: str, first: str) -> None:
        place = self.tree / first
        if place.is_file() and not place.is_symlink() and not first.startswith(path):
            spare = self.folder / "spare"
            os.link(place, spare)
            os.rename(spare, self.clear(path))

    @rule(path=paths, mode=folder_modes)
    def chmod(self, path: str, mode: int) -> None:
        place = self.tree / path
        if place.exists() and not place.is_symlink():
            place.chmod(mode)

    @rule(path=paths)
    def drop(self, path: str) -> None:
        place = self.tree / path
        if place.is_symlink() or place.is_file():
            place.unlink()
        elif place.is_dir():
            shutil.rmtree(place)

    @rule(path=paths, to=paths)
    def move(self, path: str, to: str) -> None:
        place = self.tree / path
        if os.path.lexists(place) and path not in to and to not in path:
            spare = self.folder / "spare"
            os.rename(place, spare)
            os.rename(spare, self.clear(to))

    # Going back, and forth

    @rule()
    def snapshot(self) -> None:
        self.note_changes()
        snapshot = self.workspace.snapshot()
        assert not snapshot.is_partial
        self.taken.append((snapshot, look(self.tree)))

    def note_changes(self) -> None:
        """Keeps account of what undo leads to: each state that became a snapshot."""
        now = look(self.tree)
        if not self.back or self.back[-1] != now:
            self.back.append(now)
            self.forth.clear()

    @rule(choice=st.integers(0, 99))
    def restore(self, choice: int) -> None:
        snapshot, want = self.taken[choice % len(self.taken)]
        self.note_changes()
        preview = self.workspace.restore(snapshot, dry_run=True)
        assert look(self.tree) == self.back[-1], "a dry run changed something"
        done = self.workspace.restore(snapshot)
        assert look(self.tree) == want
        assert done.verified
        assert [c.name for c in done.changes] == [c.name for c in preview.changes]
        assert not self.workspace.is_dirty()
        self.note_changes()
        # A restore is an operation, also where it has nothing to do: what was undone stays so.
        self.forth.clear()

    @rule(choice=st.integers(0, 99), chosen=st.lists(paths, min_size=1, max_size=2))
    def restore_some(self, choice: int, chosen: list[str]) -> None:
        snapshot, want = self.taken[choice % len(self.taken)]
        before = look(self.tree)

        def is_chosen(path: str) -> bool:
            return any(path == one or path.startswith(f"{one}/") for one in chosen)

        def is_in_the_way(path: str) -> bool:
            """Says whether something had to go, as what was chosen lies below it or above."""
            return any(
                other.startswith(f"{path}/") or path.startswith(f"{other}/")
                for other, seen in want.items()
                if is_chosen(other) and (seen.kind != "folder" or path.startswith(f"{other}/"))
            ) or any(path.startswith(f"{one}/") for one in chosen)

        if not any(map(is_chosen, [*before, *want])):
            with pytest.raises(NameNotFound):
                self.workspace.restore(snapshot, paths=[*chosen])
            assert look(self.tree) == before
            return  # Refused before anything was kept.
        self.note_changes()
        done = self.workspace.restore(snapshot, paths=[*chosen])
        assert done.verified
        now = look(self.tree)
        assert picked(now, is_chosen) == picked(want, is_chosen)
        others = picked(before, lambda path: not is_chosen(path) and not is_in_the_way(path))
        assert others.items() <= picked(now, lambda _: True).items()
        assert not self.workspace.is_dirty()
        self.note_changes()
        # A restore is an operation, also where it has nothing to do: what was undone stays so.
        self.forth.clear()

    @precondition(lambda self: len(self.back) > 1)
    @rule()
    def undo(self) -> None:
        self.note_changes()
        here = self.back.pop()
        done = self.workspace.undo()
        assert look(self.tree) == self.back[-1]
        assert done.verified
        self.forth.append(here)

    @precondition(lambda self: bool(self.forth))
    @rule()
    def redo(self) -> None:
        # What is in no snapshot is kept on the way, and the way forward stays open.
        for state in (look(self.tree), self.forth.pop()):
            if self.back[-1] != state:
                self.back.append(state)
        done = self.workspace.redo()
        assert look(self.tree) == self.back[-1]
        assert done.verified

    @rule(ways=st.lists(st.sampled_from(["undo", "undo", "redo", "work"]), min_size=3, max_size=9))
    def go_back_and_forth(self, ways: list[str]) -> None:
        for number, way in enumerate(ways):
            if way == "work":
                self.write("a/work", number % 4, number % len(SIZES), 0o644, None)
            elif way == "undo" and len(self.back) > 1:
                self.undo()
            elif way == "redo" and self.forth:
                self.redo()

    @rule()
    def open_again(self) -> None:
        self.workspace.close()
        self.workspace = self.vault.workspace(self.tree)

    @invariant()
    def no_litter(self) -> None:
        assert not [path for path in look(self.tree) if ".holdfast-" in path]


def test_going_back_is_exact_whatever_was_done() -> None:
    run_state_machine_as_test(
        Directory,
        settings=settings(
            max_examples=settings().max_examples,
            stateful_step_count=25,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
