"""A directory in which somebody works against us, or at the same time as us.

Files change while they are read, folders become links between a check and its use, maps hold
keys that lead upwards, files cannot be read. Nothing outside of the directory is ever touched or
captured, no error leaves as anything but ours, and no snapshot claims what it does not hold.
"""

import ctypes
import itertools
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

import holdfast
from holdfast import errors
from holdfast.engine.capturing.captured import BUSY_LOOKS
from holdfast.engine.core.coverage import coverage_of
from holdfast.engine.directory import proof
from holdfast.engine.objects.stage import Stage
from holdfast.engine.pending.fold import Folded
from holdfast.engine.timeline.head import Mark, Move, advance
from holdfast.engine.workspace import Workspace
from holdfast.entries import Directory, Entry, Inline, InlineTwin, Link, encode_entry
from holdfast.model.basics import EMPTY_MAP, Kind, Size, SnapshotInfo
from holdfast.packs import ObjectKind
from holdfast.tree import apply
from holdfast.workspace import statcheck
from holdfast.workspace.statindex import Row, is_unsure
from holdfast.workspace.writing import Step, Writer

CANARY = b"canary: this lies outside\n"


# Looking


def walk(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    for folder, folders, files in os.walk(root):
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            yield os.path.relpath(path, root), os.lstat(path)


def states(root: Path) -> dict[str, tuple[Any, ...]]:
    """Returns everything that can be said of a tree but the time of reading, content included."""
    found: dict[str, tuple[Any, ...]] = {}
    for path, s in walk(root):
        content = (root / path).read_bytes() if stat.S_ISREG(s.st_mode) else b""
        target = os.readlink(root / path) if stat.S_ISLNK(s.st_mode) else ""
        own = (s.st_ino, s.st_mode, s.st_nlink, s.st_uid, s.st_size, s.st_mtime_ns, s.st_ctime_ns)
        found[path] = (*own, content, target)
    return found


def contents(root: Path) -> dict[str, bytes]:
    return {path: (root / path).read_bytes() for path, s in walk(root) if stat.S_ISREG(s.st_mode)}


def put(path: Path, data: bytes | str = b"1", mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    path.chmod(mode)
    return path


class Place:
    """A directory, its vault, and a tree outside that nobody may touch."""

    def __init__(self, folder: Path, vault: Path, **limits: int) -> None:
        self.folder = folder
        self.vault_folder = vault
        self.tree, self.outside = folder / "tree", folder / "outside"
        self.tree.mkdir()
        for name in ("keep", "f0", "f1", "f2", "d/f0", "d/f1", "new/f0"):
            put(self.outside / name, CANARY)
        self.vault = holdfast.open(vault, limits=replace(holdfast.Limits(), **limits))
        self.workspace: Workspace = self.vault.workspace(self.tree)
        self.before = states(self.outside)

    def close(self) -> None:
        self.workspace.close()
        self.vault.close()

    def known_rows(self) -> tuple[Row, ...]:
        """Returns what is known of the files in the directory's top."""
        directory = self.workspace._directory  # pyright: ignore[reportPrivateUsage] - not to be seen otherwise
        folder = directory.last.index.find(b"")
        return () if folder is None else folder.rows

    def assert_untouched(self) -> None:
        assert states(self.outside) == self.before, "something outside was touched"

    def assert_no_leak(self, snapshot: SnapshotInfo) -> dict[str, str]:
        """Returns what a snapshot holds, by kind; none of it is from outside."""
        at = self.workspace.namespace.at(snapshot).files
        found = {file.path: file.kind for file in at.list(recursive=True)}
        for path, kind in found.items():
            assert kind != "file" or CANARY not in at.read(path), f"{path} is from outside"
        return found


@contextmanager
def memory_folder() -> Generator[Path]:
    """Makes a folder in memory if there is room: these tests wait for no disk to sync."""
    memory = "/dev/shm"
    is_roomy = os.path.isdir(memory) and shutil.disk_usage(memory).free > 1 << 30
    with tempfile.TemporaryDirectory(
        prefix="holdfast-", dir=memory if is_roomy else None, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


@pytest.fixture
def make_place(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    """Makes a place with limits of its own."""
    with memory_folder() as vault, ExitStack() as made:

        def make(**limits: int) -> Place:
            place = Place(tmp_path, vault, **limits)
            made.callback(place.close)
            return place

        yield make


@pytest.fixture
def place(make_place: Callable[..., Place]) -> Place:
    return make_place()


def bind_at(path: Path) -> None:
    """Leaves a socket there; its path may be longer than sockets can say."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


def exchange(one: Path, other: Path) -> None:
    """Swaps two names at once: neither is ever missing."""
    libc = ctypes.CDLL(None, use_errno=True)
    here, both = -100, 2
    if libc.renameat2(here, os.fsencode(one), here, os.fsencode(other), both):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@contextmanager
def flipping(one: Path, other: Path) -> Generator[None]:
    """Swaps two names again and again, in another thread."""
    stop = threading.Event()

    def flip() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            # Gone for a moment, while a restore puts something else in its place.
            with suppress(FileNotFoundError):
                exchange(one, other)
            if number % 5 == 0:
                stop.wait(0.0003)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Interfering:
    """The module `os`, before one of whose calls somebody else does something."""

    CALLS: ClassVar = frozenset(
        {"open", "stat", "scandir", "listdir", "readlink", "mkdir", "rmdir", "unlink", "rename"}
        | {"symlink", "link", "utime", "fchmod", "fstat"}
    )

    def __init__(self, act: Callable[[], None], *, at: int, but: tuple[str, ...]) -> None:
        self._act, self._left = act, at
        self._calls = self.CALLS.difference(but)
        self.has_acted = False

    def __getattr__(self, name: str) -> Any:
        if name in self._calls and not self.has_acted:
            self._left -= 1
            if self._left < 0:
                self.has_acted = True
                self._act()
        return getattr(os, name)


@contextmanager
def interfering(
    act: Callable[[], None], *, at: int, but: tuple[str, ...] = ()
) -> Generator[Interfering]:
    """Lets somebody act before the n-th system call that a look or a restore makes.

    `but` are calls that do not count: between a last look and the call itself nobody can look.
    """
    proxy = Interfering(act, at=at, but=but)
    names = ("descent", "writing", "placing", "scan", "reading", "statcheck")
    modules = [sys.modules[f"holdfast.workspace.{name}"] for name in names]
    modules.append(sys.modules["holdfast.engine.directory.writer"])
    try:
        for module in modules:
            vars(module)["os"] = proxy
        yield proxy
    finally:
        for module in modules:
            vars(module)["os"] = os


def seconds(span_s: float) -> Iterator[int]:
    """Counts up for so long; at least twice."""
    end = time.monotonic() + span_s
    for number in itertools.count():
        if number >= 2 and time.monotonic() > end:
            return
        yield number


# Somebody swaps names while we look


def test_a_folder_that_is_swapped_for_a_link_while_it_is_scanned(place: Place) -> None:
    for name in ("f0", "f1", "f2"):
        put(place.tree / "d" / name, b"ours")
    link = place.folder / "link"
    link.symlink_to(place.outside)
    with flipping(place.tree / "d", link):
        for number in seconds(1.5):
            put(place.tree / "beside", b"%d" % number)
            snapshot = place.workspace.snapshot()
            found = place.assert_no_leak(snapshot)
            assert found.get("beside") == "file"
            is_whole = found.get("d") == "link" or {"d/f0", "d/f1", "d/f2"} <= found.keys()
            assert is_whole or snapshot.is_partial, f"part of it is missing: {sorted(found)}"
    place.assert_untouched()


def test_a_file_that_is_swapped_for_a_link_while_it_is_read(place: Place) -> None:
    put(place.tree / "f", b"ours")
    link = place.folder / "link"
    link.symlink_to(place.outside / "keep")
    with flipping(place.tree / "f", link):
        for _ in seconds(1.5):
            snapshot = place.workspace.snapshot()
            found = place.assert_no_leak(snapshot)
            assert "f" in found or snapshot.is_partial, "it was there all the time"
    place.assert_untouched()


@pytest.mark.parametrize("swapped", ["d", "d/e", "d/f0"])
def test_a_swap_before_any_system_call_of_a_scan_leaks_nothing(place: Place, swapped: str) -> None:
    put(place.tree / "d/e/f0", b"ours")
    put(place.tree / "d/e/f1", b"ours")
    put(place.tree / "d/f0", b"ours")
    link = place.folder / "link"
    link.symlink_to(place.outside / "keep" if swapped == "d/f0" else place.outside)
    at = 0
    for at in itertools.count():
        put(place.tree / "d/e/f1", b"ours, %d" % at)
        put(place.tree / "d/f0", b"ours, %d" % at)
        with interfering(lambda: exchange(place.tree / swapped, link), at=at) as somebody:
            snapshot = place.workspace.snapshot()
        place.assert_no_leak(snapshot)
        if not somebody.has_acted:
            break
        exchange(place.tree / swapped, link)
    assert at > 10
    place.assert_untouched()


# Somebody swaps names while we write


def two_states(place: Place) -> tuple[SnapshotInfo, SnapshotInfo]:
    for name in ("d/f0", "d/f1", "d/e/f0", "gone/f0"):
        put(place.tree / name, b"one")
    one = place.workspace.snapshot()
    shutil.rmtree(place.tree / "gone")
    for name in ("d/f0", "d/e/f0", "d/f2", "new/f0"):
        put(place.tree / name, b"the other")
    (place.tree / "d/l").symlink_to("f0")
    os.link(place.tree / "d/f2", place.tree / "d/e/f2")
    return one, place.workspace.snapshot()


RENAMES = {
    "a folder": [("x", "z")],
    "a folder, and another in its place": [("x", "z"), ("new", "x")],
    "a folder to where we have been": [("x", "a/x")],
    "a file to where we have been": [("x/f", "a/f")],
    "a file, and another in its place": [("x/f", "x/g"), ("new/f", "x/f")],
}


@pytest.mark.parametrize("before", ["nothing is known", "one file is changed"])
@pytest.mark.parametrize("renames", RENAMES.values(), ids=RENAMES)
def test_what_is_renamed_before_any_system_call_of_a_look_is_captured_under_one_of_its_names(
    place: Place, renames: list[tuple[str, str]], before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In Python: so that somebody can act between two of its calls.
    monkeypatch.setattr(statcheck, "load_library", lambda: None)

    def arrange() -> None:
        for path in (*place.tree.iterdir(), place.folder / "new"):
            shutil.rmtree(path, ignore_errors=True)
        for name, data in (("a/f0", "a"), ("x/e/deep", "e"), ("x/f", "ours"), ("y/f0", "y")):
            put(place.tree / name, data)
        put(place.folder / "new/f", "new")
        if before == "nothing is known":
            place.workspace._directory.forget_index()  # pyright: ignore[reportPrivateUsage] - as if it was lost
        else:
            time.sleep(0.06)  # So that what was there is sure.
            place.workspace.snapshot()
            put(place.tree / "x/f", "ours, too")

    def rename() -> None:
        for old, new in renames:
            there = place.folder if old.startswith("new") else place.tree
            (there / old).rename(place.tree / new)

    for number in itertools.count():
        arrange()
        want = set(contents(place.tree).values())
        with interfering(rename, at=number) as somebody:
            snapshot = place.workspace.snapshot()
        at = place.workspace.namespace.at(snapshot).files
        captured = {at.read(f.path) for f in at.list(recursive=True) if f.kind == "file"}
        assert want <= captured, f"missing after {number} calls: {want - captured}"
        assert not snapshot.is_partial
        if not somebody.has_acted:
            return


class Juggling:
    """The module `os`, with somebody who has a folder in one of two others, as a look lists them.

    Teasing, it is in each while that is listed, and gone a moment later; hiding, in neither.
    """

    def __init__(self, one: Path, other: Path) -> None:
        self._places = (one, other)
        self._inodes = [place.parent.stat().st_ino for place in self._places]
        self.is_teasing, self.hides = True, 0

    def _put(self, number: int) -> None:
        with suppress(FileNotFoundError):
            self._places[1 - number].rename(self._places[number])

    def scandir(self, fd: int) -> "os._ScandirIterator[str]":
        inode = os.fstat(fd).st_ino
        if inode in self._inodes:
            number = self._inodes.index(inode)
            if self.is_teasing:
                self._put(number)
            elif self.hides:
                self.hides -= 1
                self._put(1 - number)
        return os.scandir(fd)

    def fstat(self, fd: int) -> os.stat_result:
        state = os.fstat(fd)
        if self.is_teasing and state.st_ino in self._inodes:
            self._put(1 - self._inodes.index(state.st_ino))
        return state

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@pytest.mark.parametrize("is_reopened", [False, True])
def test_what_was_named_since_it_moved_is_missed_by_the_next_look(
    place: Place, monkeypatch: pytest.MonkeyPatch, is_reopened: bool
) -> None:
    for number in range(3):
        put(place.tree / "a/x" / str(number), b"of %d" % number)
    (place.tree / "b").mkdir()
    place.workspace.snapshot()
    somebody = Juggling(place.tree / "a/x", place.tree / "b/x")
    monkeypatch.setattr(sys.modules["holdfast.workspace.scan"], "os", somebody)
    named = place.workspace.snapshot()
    assert named.is_partial
    coverage = coverage_of(named)
    assert coverage is not None
    assert {each.path for each in coverage.failed} & {"a/x", "b/x"}
    if is_reopened:
        place.workspace.close()
        place.workspace = place.vault.workspace(place.tree)
    # As many looks as are made where nothing is missed: none of them sees it.
    somebody.is_teasing, somebody.hides = False, 2 * (1 + BUSY_LOOKS)
    snapshot = place.workspace.snapshot()
    assert somebody.hides == 0
    files = place.workspace.namespace.at(snapshot).files
    captured = {files.read(f.path) for f in files.list(recursive=True) if f.kind == "file"}
    assert captured == {b"of 0", b"of 1", b"of 2"}
    assert not snapshot.is_partial


@pytest.mark.parametrize("names", [("x", "z"), ("a/x", "b/x"), ("x/0", "x/z")])
def test_what_is_renamed_all_the_time_is_captured_or_named(
    place: Place, names: tuple[str, str]
) -> None:
    for folder in ("a", "b"):
        (place.tree / folder).mkdir()
    one, other = (place.tree / name for name in names)
    for number in range(3):
        put(place.tree / names[0].removesuffix("/0") / str(number), b"of %d" % number)
    place.workspace.snapshot()
    stop = threading.Event()

    def rename() -> None:
        while not stop.is_set():
            one.rename(other)
            other.rename(one)

    thread = threading.Thread(target=rename)
    thread.start()
    try:
        for _ in seconds(0.5):
            snapshot = place.workspace.snapshot()
            at = place.workspace.namespace.at(snapshot).files
            captured = {at.read(f.path) for f in at.list(recursive=True) if f.kind == "file"}
            is_whole = captured >= {b"of 0", b"of 1", b"of 2"}
            assert is_whole or snapshot.is_partial, f"missing in silence: {captured}"
    finally:
        stop.set()
        thread.join()
    assert not place.workspace.snapshot().is_partial


def test_folders_that_are_swapped_for_links_while_a_restore_writes(place: Place) -> None:
    one, other = two_states(place)
    link = place.folder / "link"
    link.symlink_to(place.outside)
    with flipping(place.tree / "d", link):
        for _ in seconds(2.5):
            for snapshot in (one, other):
                try:
                    place.workspace.restore(snapshot)
                except errors.HoldfastError:
                    continue
    place.assert_untouched()
    place.workspace.restore(one)
    names = ("d/f0", "d/f1", "d/e/f0", "gone/f0")
    assert contents(place.tree) == dict.fromkeys(names, b"one")
    place.assert_untouched()


@pytest.mark.parametrize("swapped", ["d", "d/e"])
def test_a_swap_before_any_system_call_of_a_restore_touches_nothing_outside(
    place: Place, swapped: str
) -> None:
    one, other = two_states(place)
    want = contents(place.tree)
    at = 0
    for at in itertools.count(0, 2):
        link = place.folder / f"link-{at}"
        link.symlink_to(place.outside)
        swap = partial(exchange, place.tree / swapped, link)
        with interfering(swap, at=at) as somebody, suppress(errors.HoldfastError):
            place.workspace.restore(one)
        place.assert_untouched()
        # Where it had become a link that is no work of ours: it is replaced as drift is.
        place.workspace.restore(other)
        place.assert_untouched()
        assert contents(place.tree) == want
        if not somebody.has_acted:
            break
    assert at > 20


@pytest.mark.parametrize("victim", ["d/f0", "d/f1", "d/f2", "gone", "new/f0"])
def test_a_file_that_changes_before_any_system_call_of_a_restore_is_not_lost(
    place: Place, victim: str
) -> None:
    one, other = two_states(place)
    there, namespace = place.tree / victim, place.workspace.namespace

    def holds(snapshot: SnapshotInfo, content: bytes) -> bool:
        files = namespace.at(snapshot).files
        return (
            files.exists(victim)
            and files.stat(victim).kind == "file"
            and (files.read(victim) == content)
        )

    at = 0
    for at in itertools.count(0, 3):
        precious, written = b"precious %d" % at, list[bytes]()

        def write(precious: bytes = precious, written: list[bytes] = written) -> None:
            with suppress(FileNotFoundError, IsADirectoryError):
                there.write_bytes(precious)
                written.append(precious)

        # The gap between the last look and the call itself cannot be closed.
        somebody = interfering(write, at=at, but=("rename", "unlink"))
        with somebody as other_hand, suppress(errors.HoldfastError):
            place.workspace.restore(one)
        if not other_hand.has_acted:
            break
        if written:
            is_there = there.is_file() and there.read_bytes() == precious
            is_kept = any(holds(snapshot, precious) for snapshot in namespace.timeline(limit=8))
            assert is_kept or is_there, f"what was written before call {at} is nowhere"
        place.workspace.restore(other)
    assert at > 20


@pytest.mark.parametrize(
    "deed", ["rewritten", "removed", "mode", "replaced by a link", "something beside it"]
)
def test_a_result_that_is_not_what_was_asked_for_is_not_called_verified(
    place: Place, monkeypatch: pytest.MonkeyPatch, deed: str
) -> None:
    one, _ = two_states(place)
    carry_out = Writer.carry_out
    victim = place.tree / "d/f0"
    name = "d/beside" if deed == "something beside it" else "d/f0"

    def meddle(writer: Writer, steps: Sequence[Step]) -> None:
        carry_out(writer, steps)
        if deed == "rewritten":
            victim.write_bytes(b"ONE")
        elif deed == "mode":
            victim.chmod(0o600)
        elif deed == "something beside it":
            put(place.tree / name, b"beside")
        else:
            victim.unlink()
        if deed == "replaced by a link":
            victim.symlink_to("f1")

    monkeypatch.setattr(Writer, "carry_out", meddle)
    done = place.workspace.restore(one)
    monkeypatch.undo()
    assert (done.verified, done.differing) == (False, [name])
    # It is seen as what it is, a change since, and the next restore puts it right.
    assert [change.name for change in place.workspace.diff()] == [name]
    assert place.workspace.restore(one).verified
    assert victim.read_bytes() == b"one"


def test_a_result_that_is_what_was_asked_for_is_not_made_into_a_map_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = two_states(place)
    monkeypatch.setattr(proof, "apply", None)
    assert place.workspace.restore(one).verified
    assert place.workspace.undo().verified


def test_a_link_in_the_place_of_a_folder_is_replaced_and_not_followed(place: Place) -> None:
    one, _ = two_states(place)
    shutil.rmtree(place.tree / "d")
    (place.tree / "d").symlink_to(place.outside)
    done = place.workspace.restore(one)
    assert done.verified
    assert not (place.tree / "d").is_symlink()
    place.assert_untouched()
    place.workspace.undo()
    assert os.readlink(place.tree / "d") == str(place.outside)
    place.assert_untouched()


def test_the_directory_itself_replaced_by_a_link_is_not_followed(place: Place) -> None:
    one, _ = two_states(place)
    os.rename(place.tree, place.folder / "moved")
    place.tree.symlink_to(place.outside)
    for act in (place.workspace.snapshot, lambda: place.workspace.restore(one)):
        with pytest.raises(errors.HoldfastError):
            act()
    place.assert_untouched()


@pytest.mark.parametrize("size", [10, 5 << 20])
def test_a_file_that_has_a_name_outside_is_cut_off_and_not_written_through(
    place: Place, size: int
) -> None:
    put(place.tree / "f", b"1" * size)
    snapshot = place.workspace.snapshot()
    shared = put(place.outside / "shared", b"1" * (size - 1) + b"2")
    place.before = states(place.outside)
    for change in ("content", "mode", "time", "gone"):
        (place.tree / "f").unlink()
        os.link(shared, place.tree / "f")
        if change in ("mode", "time"):
            shared.write_bytes(b"1" * size)
            then = os.stat(place.outside / "keep").st_mtime_ns
            os.utime(shared, ns=(then, then + 5))
            shared.chmod(0o600 if change == "mode" else 0o644)
        place.workspace.snapshot()
        before = shared.read_bytes(), os.stat(shared).st_mtime_ns, os.stat(shared).st_mode
        done = place.workspace.restore(snapshot)
        assert done.verified
        assert (place.tree / "f").read_bytes() == b"1" * size
        assert not os.path.samefile(place.tree / "f", shared)
        after = shared.read_bytes(), os.stat(shared).st_mtime_ns, os.stat(shared).st_mode
        assert after == before


# Content from elsewhere


def test_links_from_a_hosted_namespace_stay_links(place: Place) -> None:
    place.workspace.snapshot()
    files = place.workspace.namespace.files
    targets = {
        "up": "../outside/keep",
        "folder": "../outside",
        "absolute": str(place.outside / "keep"),
        "etc": "/etc/passwd",
        "loop": "loop",
    }
    for name, target in targets.items():
        files.symlink(f"links/{name}", target)
    files.symlink(b"\x1b[31m\xff", "\x1b]0;title\x07")
    files.write("script", b"#!/bin/sh\n", mode=0o755)
    snapshot = place.workspace.namespace.snapshot()
    assert place.workspace.restore(snapshot).verified
    assert {name: os.readlink(place.tree / "links" / name) for name in targets} == targets
    place.assert_untouched()
    place.workspace.undo()
    assert list(place.tree.iterdir()) == []
    place.workspace.redo()
    shutil.rmtree(place.tree / "links")
    place.workspace.restore(snapshot)
    place.assert_untouched()


def test_an_archive_that_was_imported_comes_out_as_it_went_in(place: Place) -> None:
    sender = place.vault.namespace("sender")
    sender.files.symlink("d", "../outside")
    sender.files.write("e/keep", b"theirs")
    archive = place.folder / "archive.tar"
    sender.snapshot()
    sender.export(archive)
    put(place.tree / "d/keep", b"mine")
    (place.tree / "e").symlink_to("../outside")
    place.workspace.snapshot()
    place.workspace.namespace.import_(archive)
    snapshot = place.workspace.namespace.get_snapshot("@")
    assert (place.tree / "d/keep").read_bytes() == b"mine", "an import is not a restore"
    assert place.workspace.restore(snapshot).verified
    assert os.readlink(place.tree / "d") == "../outside"
    assert contents(place.tree) == {"e/keep": b"theirs"}
    place.assert_untouched()
    place.workspace.undo()
    assert contents(place.tree) == {"d/keep": b"mine"}
    assert os.readlink(place.tree / "e") == "../outside"
    place.assert_untouched()


def plant(place: Place, entries: dict[bytes, Entry]) -> SnapshotInfo:
    """Puts a snapshot on the timeline that no use case would make."""
    handle = place.workspace.namespace._handle  # pyright: ignore[reportPrivateUsage] - no door leads there
    handle.ensure()

    def plan(_: object, folded: Folded) -> Move[None]:
        encoded = {key: encode_entry(entry) for key, entry in entries.items()}
        applied = apply(folded.source, EMPTY_MAP, encoded)
        folded.stage.add_nodes(applied.nodes)
        root = folded.root.replacing(files=applied.root)
        mark = Mark(
            id=handle.context.ids.snapshot(),
            kind=Kind.SNAPSHOT,
            root=folded.stage.add(root.encode(), ObjectKind.NODE),
            size=Size(len(entries), 0),
            parent=folded.head.position,
        )
        return Move(marks=[mark], position=mark.id, result=None)

    return advance(handle, plan)[0][-1]


def test_names_that_lie_about_being_one_file_get_content_of_their_own(place: Place) -> None:
    def twin(data: bytes, first: bytes) -> InlineTwin:
        return InlineTwin(data, 0o644, 5, first)

    entries: dict[bytes, Entry] = {
        b"a": twin(b"A", b"a"),
        b"b": twin(b"B", b"a"),
        b"c": twin(b"A", b"a"),
        b"d": twin(b"D", b"no/such/name"),
        b"e": twin(b"E", b"../outside/keep"),
        b"f": twin(b"F", os.fsencode(place.outside / "keep")),
        b"g": twin(b"G", b"h"),
        b"h": twin(b"H", b"g"),
        b"i": twin(b"I", b"link"),
        b"j": twin(b"J", b""),
        b"link": Link(b"../outside/keep", 5),
    }
    snapshot = plant(place, entries)
    want = {key.decode(): entry.data for key, entry in entries.items() if isinstance(entry, Inline)}
    place.workspace.restore(snapshot)
    assert contents(place.tree) == want
    place.workspace.checkout(snapshot, place.folder / "copy")
    assert contents(place.folder / "copy") == want
    for root in (place.tree, place.folder / "copy"):
        put(root / "b", b"changed")
        assert (root / "a").read_bytes() == b"A"
        assert (root / "c").read_bytes() == b"A"
    place.assert_untouched()


FILE = Inline(b"planted", 0o644, 5)
LIES: dict[str, dict[bytes, Entry]] = {
    "upwards": {b"../escaped": FILE},
    "upwards from inside": {b"a/../../escaped": FILE},
    "upwards into a folder": {b"../outside/keep": FILE},
    "a folder upwards": {b"../escaped": Directory(0o700)},
    "the folder above": {b"..": Directory(0o777)},
    "the folder itself": {b".": Directory(0o777)},
    "a link upwards": {b"../escaped": Link(b"x", 5)},
    "absolute": {b"/tmp/holdfast-escaped": FILE},
    "a dot": {b"./x": FILE},
    "an empty name": {b"a//b": FILE},
    "no name": {b"": FILE},
    "a zero byte": {b"a\0b": FILE},
    "a long name": {b"n" * 300: FILE},
    "a link with something below": {b"l": Link(b"../outside", 5), b"l/keep": FILE},
    "a link with a folder below": {b"l": Link(b"../outside", 5), b"l/d": Directory(0o700)},
    "a file with something below": {b"l": FILE, b"l/keep": FILE},
    "a link to nothing at all": {b"l": Link(b"", 5)},
    "a link with a zero byte": {b"l": Link(b"a\0b", 5)},
    "a link that is too long": {b"l": Link(b"x" * 5000, 5)},
}


@pytest.mark.parametrize("entries", LIES.values(), ids=LIES)
def test_a_map_that_no_directory_could_have_made_does_no_harm(
    place: Place, entries: dict[bytes, Entry]
) -> None:
    put(place.tree / "mine", b"mine")
    place.workspace.snapshot()
    snapshot = plant(place, {b"mine": FILE, b"z/y/x": FILE, **entries})
    place.workspace.snapshot()
    before, around = contents(place.tree), sorted(os.listdir(place.folder))
    folders = sorted(path for path, s in walk(place.tree) if stat.S_ISDIR(s.st_mode))
    mode = os.stat(place.folder).st_mode
    with pytest.raises(errors.HoldfastError):
        place.workspace.restore(snapshot)
    place.assert_untouched()
    assert sorted(os.listdir(place.folder)) == around
    assert os.stat(place.folder).st_mode == mode
    assert not os.path.lexists("/tmp/holdfast-escaped")
    assert contents(place.tree) == before
    left = sorted(path for path, s in walk(place.tree) if stat.S_ISDIR(s.st_mode))
    assert left == folders, "folders of a restore that failed were left behind"

    with pytest.raises(errors.HoldfastError):
        place.workspace.checkout(snapshot, place.folder / "copies" / "copy")
    place.assert_untouched()
    assert sorted(os.listdir(place.folder)) == sorted([*around, "copies"])
    assert os.listdir(place.folder / "copies") == ["copy"]
    assert not os.path.lexists("/tmp/holdfast-escaped")


def test_bits_of_privilege_in_a_map_do_not_reach_a_directory(place: Place) -> None:
    snapshot = plant(
        place,
        {
            b"file": Inline(b"#!", 0o106755, 5),
            b"folder": Directory(0o47777),
            b"twin": InlineTwin(b"#!", 0o7777, 5, b"twin"),
        },
    )
    place.workspace.restore(snapshot)
    for name in ("file", "folder", "twin"):
        mode = os.lstat(place.tree / name).st_mode
        assert not mode & (stat.S_ISUID | stat.S_ISGID), name
    assert stat.S_ISREG(os.lstat(place.tree / "file").st_mode)


# Files that change


def test_a_rewrite_of_the_same_size_right_after_a_snapshot_is_seen(place: Place) -> None:
    file = put(place.tree / "f", b"000000")
    put(place.tree / "d/beside", b"x")
    for number in range(250):
        # Right after it was read: same size, and where clocks are coarse the same times.
        place.workspace.snapshot()
        file.write_bytes(b"%06d" % (number + 1))
        changes = place.workspace.diff()
        assert [change.name for change in changes] == ["f"], f"missed after {number}"
        assert isinstance(changes.items[0].new, Inline)
        assert changes.items[0].new.data == b"%06d" % (number + 1)


def test_a_change_whose_time_was_set_back_is_seen(place: Place) -> None:
    file = put(place.tree / "f", b"before")
    then = os.stat(file)
    place.workspace.snapshot()
    # Until what is known of it is sure: it then is not read again.
    while any(is_unsure(row.ctime_ns) for row in place.known_rows()):
        place.workspace.snapshot()
    file.write_bytes(b"behind")
    os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))
    snapshot = place.workspace.snapshot()
    assert place.workspace.namespace.at(snapshot).files.read("f") == b"behind"


def test_a_file_that_is_written_while_it_is_read_is_one_version_or_said_to_be_in_motion(
    place: Place,
) -> None:
    size = 3 << 20
    file = put(place.tree / "f", bytes(size))
    stop = threading.Event()

    def write() -> None:
        fd = os.open(file, os.O_WRONLY)
        for number in itertools.count(1):
            if stop.is_set():
                break
            os.pwrite(fd, bytes([number % 256]) * size, 0)
        os.close(fd)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in seconds(3):
            snapshot = place.workspace.snapshot()
            assert not snapshot.is_partial
            is_mixture = len(set(place.workspace.namespace.at(snapshot).files.read("f"))) > 1
            found = coverage_of(snapshot)
            assert found is not None
            assert not is_mixture or [each.path for each in found.in_motion] == ["f"]
    finally:
        stop.set()
        thread.join()
    last = place.workspace.snapshot()
    found = coverage_of(last)
    assert found is not None
    assert not found.in_motion
    assert place.workspace.namespace.at(last).files.read("f") == file.read_bytes()


def test_files_that_come_and_go_while_we_look_are_no_error(place: Place) -> None:
    put(place.tree / "stays", b"1")
    stop = threading.Event()

    def churn() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            put(place.tree / f"d{number % 3}" / f"f{number % 7}", b"%d" % number)
            if number % 5 == 0:
                shutil.rmtree(place.tree / f"d{number % 3}", ignore_errors=True)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in seconds(1):
            snapshot = place.workspace.snapshot()
            assert place.workspace.namespace.at(snapshot).files.read("stays") == b"1"
    finally:
        stop.set()
        thread.join()
    snapshot = place.workspace.snapshot()
    want = contents(place.tree)
    for path in place.tree.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert place.workspace.restore(snapshot).verified
    assert contents(place.tree) == want


# Files that cannot be read

UNPRIVILEGED = """
    import ctypes, os, struct, sys
    from pathlib import Path
    import holdfast
    from holdfast import errors
    from holdfast.engine.core.coverage import coverage_of

    if os.geteuid() == 0:
        # Whoever runs the tests as root may read everything. Without capabilities, root is
        # an ordinary user, who owns what it made.
        header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
        assert ctypes.CDLL(None).capset(header, ctypes.create_string_buffer(24)) == 0

    base = Path(sys.argv[1])
    tree = base / "tree"
    tree.mkdir()
    vault = holdfast.open(base / "vault")
    workspace = vault.workspace(tree)

    def put(path, data):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(data)

    def failed(snapshot):
        return [omission.path for omission in coverage_of(snapshot).failed]

    def contents():
        return {str(p.relative_to(tree)): p.read_bytes() for p in tree.rglob("*") if p.is_file()}

    def drift(act):
        try:
            act()
        except errors.DriftFound as exc:
            return exc.paths
        raise AssertionError("nothing was found to be lost")
"""


def as_nobody(tmp_path: Path, body: str) -> None:
    """Runs lines in a process that may not read everything."""
    script = textwrap.dedent(UNPRIVILEGED) + textwrap.dedent(body)
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_file_that_cannot_be_read_makes_the_snapshot_partial(tmp_path: Path) -> None:
    as_nobody(
        tmp_path,
        """
        for name in ("a", "b", "c/d"):
            put(name, b"1")
        (tree / "a").chmod(0)
        snapshot = workspace.snapshot()
        assert snapshot.is_partial
        assert failed(snapshot) == ["a"]
        covered = coverage_of(snapshot)
        assert "ermission" in covered.failed[0].reason
        assert covered.captured == 2, covered
        assert workspace.namespace.at(snapshot).files.read("b") == b"1"
        # Once it can be read it is, and the old one stays what it was.
        (tree / "a").chmod(0o644)
        whole = workspace.snapshot()
        assert not whole.is_partial
        assert workspace.namespace.get_snapshot(snapshot.id).is_partial
        assert workspace.namespace.at(whole).files.read("a") == b"1"
        """,
    )


def test_what_could_not_be_captured_is_left_alone_when_that_snapshot_comes_back(
    tmp_path: Path,
) -> None:
    as_nobody(
        tmp_path,
        """
        put("a", b"1"), put("b", b"1"), put("c/d", b"1")
        (tree / "a").chmod(0)
        (tree / "c").chmod(0)
        partial = workspace.snapshot()
        assert failed(partial) == ["a", "c"]
        (tree / "a").chmod(0o644), (tree / "c").chmod(0o755)
        put("a", b"newer"), put("b", b"newer"), put("c/d", b"newer"), put("c/e", b"newer")
        wrecked = contents()
        preview = workspace.restore(partial, dry_run=True)
        done = workspace.restore(partial)
        assert done.verified
        assert contents() == wrecked | {"b": b"1"}, contents()
        names = [(change.name, change.change) for change in done.changes]
        assert names == [(change.name, change.change) for change in preview.changes]
        assert names == [("b", "changed")], names
        workspace.undo()
        assert contents() == wrecked, contents()
        """,
    )


def test_what_cannot_be_captured_is_not_overwritten_unless_forced(tmp_path: Path) -> None:
    as_nobody(
        tmp_path,
        """
        put("a", b"1"), put("b", b"1")
        snapshot = workspace.snapshot()
        put("a", b"2"), put("b", b"2")
        (tree / "a").chmod(0)
        assert drift(lambda: workspace.restore(snapshot)) == ["a"]
        assert (tree / "b").read_bytes() == b"2"
        assert (tree / "a").stat().st_mode & 0o777 == 0
        (tree / "a").chmod(0o644)
        assert (tree / "a").read_bytes() == b"2"
        (tree / "a").chmod(0)
        assert workspace.restore(snapshot, force=True).verified
        assert contents() == {"a": b"1", "b": b"1"}
        """,
    )


def test_what_cannot_be_read_is_said_to_be_and_once_it_can_undo_brings_all_back(
    tmp_path: Path,
) -> None:
    as_nobody(
        tmp_path,
        """
        put("a", b"1"), put("b", b"1"), put("d/e/x", b"1")
        workspace.snapshot()
        put("b", b"2")
        for names in (["a"], ["d"], ["d/e"], ["a", "d"]):
            for name in names:
                (tree / name).chmod(0)
            try:
                workspace.undo()
                raise AssertionError("what was there was overwritten")
            except errors.DriftFound as exc:
                assert exc.cause == "unreadable" and exc.paths == names, (exc.cause, exc.paths)
                assert "chmod -R u+rwX" in exc.hint
            for name in names:
                (tree / name).chmod(0o700)
        assert workspace.undo().verified
        assert contents() == {"a": b"1", "b": b"1", "d/e/x": b"1"}, contents()
        # What is no file is told apart: nothing makes that readable.
        (tree / "a").unlink()
        os.mkfifo(tree / "a")
        try:
            workspace.undo()
            raise AssertionError("what was there was overwritten")
        except errors.DriftFound as exc:
            assert exc.cause == "lost" and "chmod" not in exc.hint
        """,
    )


def test_a_folder_that_cannot_be_entered_is_not_overwritten(tmp_path: Path) -> None:
    as_nobody(
        tmp_path,
        """
        put("d/x", b"1"), put("b", b"1")
        snapshot = workspace.snapshot()
        put("d/x", b"2"), put("b", b"2")
        for mode in (0, 0o444, 0o111):
            (tree / "d").chmod(mode)
            taken = workspace.snapshot()
            assert taken.is_partial
            assert failed(taken) == ["d"], failed(taken)
            assert drift(lambda: workspace.restore(snapshot))[0].startswith("d")
            assert (tree / "b").read_bytes() == b"2"
            assert (tree / "d").stat().st_mode & 0o777 == mode
        (tree / "d").chmod(0o755)
        assert (tree / "d/x").read_bytes() == b"2"
        assert workspace.restore(snapshot).verified
        assert contents() == {"d/x": b"1", "b": b"1"}
        """,
    )


def test_folders_that_may_not_be_written_to_are_restored_and_stay_so(tmp_path: Path) -> None:
    as_nobody(
        tmp_path,
        """
        put("d/e/f", b"1"), put("d/g", b"1")
        (tree / "d/g").chmod(0o444)
        (tree / "d/e").chmod(0o555), (tree / "d").chmod(0o555)
        snapshot = workspace.snapshot()
        (tree / "d").chmod(0o755), (tree / "d/e").chmod(0o755)
        (tree / "d/e/f").unlink(), (tree / "d/e").rmdir(), (tree / "d/g").unlink()
        put("d/g", b"2"), put("d/n/m", b"2")
        (tree / "d/n").chmod(0o555), (tree / "d").chmod(0o555)
        wrecked = contents()
        assert workspace.restore(snapshot).verified
        assert contents() == {"d/e/f": b"1", "d/g": b"1"}
        modes = [(tree / name).stat().st_mode & 0o777 for name in ("d", "d/e", "d/g")]
        assert modes == [0o555, 0o555, 0o444]
        workspace.undo()
        assert contents() == wrecked
        assert [(tree / n).stat().st_mode & 0o777 for n in ("d", "d/n")] == [0o555, 0o555]
        workspace.checkout(snapshot, base / "copy")
        assert (base / "copy/d/e").stat().st_mode & 0o777 == 0o555
        """,
    )


# Git


def test_a_git_that_is_junk_or_not_there_changes_nothing(tmp_path: Path) -> None:
    script = """
        import os, sys
        from pathlib import Path
        import holdfast

        base = Path(sys.argv[1])
        tree = base / "tree"
        (tree / ".git/hooks").mkdir(parents=True)
        (tree / ".git/HEAD").write_text("ref: refs/heads/main")
        (tree / ".git/config").write_text("[core]\\n\\tfsmonitor = touch pwned")
        (tree / ".git/hooks/post-checkout").write_text("#!/bin/sh\\ntouch pwned\\n")
        (tree / ".git/hooks/post-checkout").chmod(0o755)
        (tree / "f").write_bytes(b"1")

        def git():
            found = {}
            for p in [tree / ".git", *(tree / ".git").rglob("*")]:
                s = p.lstat()
                content = p.read_bytes() if p.is_file() else b""
                found[p] = (s.st_ino, s.st_mode, s.st_mtime_ns, s.st_ctime_ns, content)
            return found

        before = git()
        with holdfast.open(base / "vault") as vault, vault.workspace(tree) as workspace:
            first = workspace.snapshot()
            (tree / "f").write_bytes(b"2")
            workspace.status(), workspace.diff(), workspace.restore(first, dry_run=True)
            assert workspace.restore(first).verified
            workspace.undo(), workspace.redo(), workspace.restore(first, paths=["f"])
        assert (tree / "f").read_bytes() == b"1"
        assert git() == before
        assert sorted(os.listdir(tree)) == [".git", "f"]
        assert sorted(os.listdir(base)) == ["tree", "vault"]
        """
    names = ("DIR", "WORK_TREE", "INDEX_FILE", "OBJECT_DIRECTORY", "EXEC_PATH", "CONFIG_GLOBAL")
    junk = {f"GIT_{name}": "/no/such\x1bplace" for name in names}
    empty = tmp_path / "empty"
    empty.mkdir()
    base = tmp_path / "base"
    base.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(base)],
        env={"PATH": str(empty), "HOME": str(empty), **junk},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# What is refused


def test_the_root_the_home_and_what_holds_it_are_refused(tmp_path: Path) -> None:
    home = tmp_path / "houses" / "mine"
    (home / "project").mkdir(parents=True)
    script = """
        import os, sys
        from pathlib import Path
        import holdfast
        from holdfast import errors

        base, home = Path(sys.argv[1]), Path(os.environ["HOME"])
        (base / "link").symlink_to(home)
        with holdfast.open(base / "vault") as vault:
            above = home / "project" / ".."
            for place in ["/", home, home.parent, base, "~", base / "link", above]:
                try:
                    vault.workspace(place)
                except errors.DirectoryRefused as exc:
                    assert exc.hint
                    continue
                raise AssertionError(f"{place} was not refused")
            assert vault.workspaces() == []
            assert vault.namespaces() == []
            vault.workspace(home / "project").snapshot()
            forced = vault.workspace(home, force=True)
            assert forced.snapshot().id
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_what_is_no_directory_is_refused(place: Place) -> None:
    for path in (place.folder / "missing", put(place.folder / "file", b"1")):
        with pytest.raises(errors.HoldfastError):
            place.vault.workspace(path)


def test_a_directory_in_the_vault_is_refused(place: Place) -> None:
    inside = place.vault_folder / "inside"
    inside.mkdir()
    for path in (place.vault_folder, inside):
        with pytest.raises(errors.DirectoryRefused):
            place.vault.workspace(path)


@pytest.mark.parametrize("where", [".holdfast", "deep/down/vault"])
def test_a_vault_in_the_directory_is_never_captured_and_never_removed(
    tmp_path: Path, where: str
) -> None:
    tree = tmp_path / "tree"
    put(tree / "f", b"1")
    with holdfast.open(tree / where) as vault, vault.workspace(tree) as workspace:
        first = workspace.snapshot()
        files = workspace.namespace.at(first).files.list(recursive=True)
        names = {file.path for file in files if file.kind == "file"}
        assert names == {"f"}
        found = coverage_of(first)
        assert found is not None
        assert [omission.path for omission in found.excluded] == [where]
        assert workspace.snapshot().root == first.root
        put(tree / "f", b"2")
        put(tree / "deep/down/g", b"2")
        assert workspace.restore(first).verified
        assert contents(tree)["f"] == b"1"
        assert not (tree / "deep/down/g").exists()
        workspace.undo()
        assert contents(tree)["f"] == b"2"
        assert vault.verify().ok


@pytest.mark.parametrize(
    ("limits", "word"),
    [({"workspace_files": 5}, "files"), ({"workspace_bytes": 5_000}, "bytes")],
    ids=["files", "bytes"],
)
def test_a_directory_over_its_budget_is_refused_and_leaves_no_snapshot(
    make_place: Callable[..., Place], limits: dict[str, int], word: str
) -> None:
    place = make_place(**limits)
    put(place.tree / "d/f0", b"1")
    first = place.workspace.snapshot()
    timeline = place.workspace.namespace.timeline()
    for number in range(1, 6):
        put(place.tree / f"d/f{number}", b"x" * 1000)
    for act in (place.workspace.snapshot, place.workspace.status, place.workspace.is_dirty):
        with pytest.raises(errors.TooLarge) as caught:
            act()
        assert word in str(caught.value)
        assert ".holdfastignore" in str(caught.value)
    assert place.workspace.namespace.timeline() == timeline
    put(place.tree / ".holdfastignore", "f[1-4]\n")
    second = place.workspace.snapshot()
    assert not second.is_partial
    assert second.id != first.id


def test_content_over_the_budget_is_not_put_into_a_directory_by_halves(
    make_place: Callable[..., Place],
) -> None:
    place = make_place(workspace_files=5)
    put(place.tree / "mine", b"mine")
    place.workspace.snapshot()
    for number in range(10):
        place.workspace.namespace.files.write(f"many/f{number}", b"1")
    snapshot = place.workspace.namespace.snapshot()
    with pytest.raises(errors.TooLarge):
        place.workspace.restore(snapshot)
    assert contents(place.tree) == {"mine": b"mine"}
    assert place.workspace.status().coverage.captured == 1


def test_what_is_written_below_a_new_file_during_a_snapshot_is_kept_apart(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(place.tree / "old", b"old")
    place.workspace.snapshot()
    put(place.tree / "new", b"new" * 1000)
    namespace, seal, written = place.workspace.namespace, Stage.seal, list[str]()

    def writing(stage: Stage, *args: Any) -> None:
        seal(stage, *args)
        if not written:
            written.append("new/below")
            namespace.files.write("new/below", b"mine")

    monkeypatch.setattr(Stage, "seal", writing)
    place.workspace.snapshot()
    taken = namespace.snapshot()
    assert {info.path for info in namespace.at(taken).files.list(recursive=True)} == {"new", "old"}
    kept = next(each for each in namespace.timeline() if each.kind is Kind.SAFETY)
    assert namespace.at(kept).files.read("new/below") == b"mine"
    assert place.workspace.restore(taken).verified


def test_a_file_over_its_budget_makes_the_snapshot_partial_and_says_why(
    make_place: Callable[..., Place],
) -> None:
    place = make_place(file_bytes=1000)
    put(place.tree / "small", b"x" * 1000)
    put(place.tree / "large", b"x" * 1001)
    snapshot = place.workspace.snapshot()
    found = coverage_of(snapshot)
    assert found is not None
    assert snapshot.is_partial
    ((path, reason),) = [(omission.path, omission.reason) for omission in found.failed]
    assert path == "large"
    assert "1001" in reason
    assert "1000" in reason
    # What no snapshot holds is not given up by going back.
    (place.tree / "large").write_bytes(b"y" * 2000)
    put(place.tree / "small", b"2")
    assert place.workspace.restore(snapshot).verified
    assert (place.tree / "large").read_bytes() == b"y" * 2000
    assert (place.tree / "small").read_bytes() == b"x" * 1000


@pytest.mark.parametrize(
    "rules", [b"x" * ((1 << 20) + 1), b"[a\n", b"*.o\n" * 2000], ids=["large", "bad", "many"]
)
def test_rules_that_cannot_be_read_do_not_keep_anybody_from_going_back(
    place: Place, rules: bytes
) -> None:
    put(place.tree / "kept", b"1")
    put(place.tree / "left-out" / "f", b"1")
    put(place.tree / ".holdfastignore", b"left-out\n")
    before = place.workspace.snapshot()
    put(place.tree / "kept", b"2")
    (place.tree / ".holdfastignore").write_bytes(rules)
    assert place.workspace.restore(before, dry_run=True).changes
    undone = place.workspace.restore(before)
    assert undone.verified
    assert (place.tree / ".holdfastignore").read_bytes() == b"left-out\n"
    assert (place.tree / "kept").read_bytes() == b"1"
    assert (place.tree / "left-out" / "f").read_bytes() == b"1"
    # What was there is on the timeline, the rules that were none included.
    assert place.workspace.undo().verified
    assert (place.tree / ".holdfastignore").read_bytes() == rules
    assert (place.tree / "kept").read_bytes() == b"2"


UNREAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "too long": (lambda path: put(path, b"*.o\n#" + b"x" * (1 << 18)), "after line 1: 262,144"),
    "too many": (lambda path: put(path, b"*.o\n" * 1001), "after line 1000: 1,000 patterns"),
    "no patterns": (lambda path: put(path, b"*.o\n" + b"!\n" * 30), "has 10 more lines"),
    "a bracket": (lambda path: put(path, b"*.o\n[\n"), "line 2, leaves nothing out: a bracket"),
}
NO_RULES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link": (lambda path: path.symlink_to("rules"), "it is a link, or no file"),
    "a fifo": (os.mkfifo, "it is a link, or no file"),
    "a folder": (lambda path: path.mkdir(), "it is a link, or no file"),
    "a socket": (bind_at, "No such device"),
}


@pytest.mark.parametrize(("make", "why"), [*UNREAD.values(), *NO_RULES.values()])
def test_what_cannot_be_read_of_the_rules_leaves_nothing_out_and_is_named(
    place: Place, make: Callable[[Path], object], why: str
) -> None:
    put(place.tree / "f", b"1")
    put(place.tree / "f.o", b"1")
    put(place.tree / "rules", b"*\n")
    make(place.tree / ".holdfastignore")
    is_read = (make, why) in UNREAD.values()
    assert why in place.workspace.status().coverage.unread_rules[-1]
    with place.workspace.task("work"):
        put(place.tree / "f", b"2")
    snapshot = place.workspace.snapshot()
    coverage = coverage_of(snapshot)
    assert coverage is not None
    assert not coverage.is_partial
    assert why in coverage.unread_rules[-1]
    assert len(coverage.unread_rules) <= 22
    paths = place.assert_no_leak(snapshot).keys()
    assert {"f", "rules"} <= paths
    assert ("f.o" in paths) is not is_read
    assert place.workspace.undo().verified
    assert (place.tree / "f").read_bytes() == b"1"


def test_rules_that_nobody_may_read_leave_nothing_out_and_make_the_snapshot_partial(
    tmp_path: Path,
) -> None:
    as_nobody(
        tmp_path,
        """
        put("f", b"1")
        put(".holdfastignore", b"f")
        (tree / ".holdfastignore").chmod(0)
        snapshot = workspace.snapshot()
        assert failed(snapshot) == [".holdfastignore"]
        assert vault.namespace(workspace.namespace.name).at(snapshot).files.read("f") == b"1"
        (said,) = coverage_of(snapshot).unread_rules
        assert said == ".holdfastignore leaves nothing out: Permission denied", said
        """,
    )


@pytest.mark.parametrize("pattern", ["*a" * 11 + "*ab", "**/a*" * 20 + "b", "[ab]*" * 30 + "c"])
def test_rules_that_made_matchers_go_back_for_ever_keep_nobody_waiting(
    place: Place, pattern: str
) -> None:
    """With one of these and such a name, going back had not come to an end after ten minutes."""
    put(place.tree / "kept", b"1")
    before = place.workspace.snapshot()
    put(place.tree / "kept", b"2")
    for length in (25, 60, 250):
        put(place.tree / ("a" * length), b"x")
    put(place.tree / ".holdfastignore", f"{pattern}\n".encode())
    begun = time.process_time()
    assert place.workspace.status().changes
    assert place.workspace.snapshot().id
    assert place.workspace.undo().verified
    assert place.workspace.restore(before).verified
    assert time.process_time() - begun < 5
    assert (place.tree / "kept").read_bytes() == b"1"
    assert not (place.tree / ".holdfastignore").exists()
