"""A restore into a directory that does not let all of it happen.

A folder of somebody else's, a file that is locked or mounted, a folder that lets no name go, a full
disk: what failed is named, and what helps; the directory is as it was, and can be used.
"""

import errno
import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli.console import Console
from holdfast.cli.exits import report
from holdfast.engine.workspace import Workspace
from holdfast.errors import HoldfastError, StorageFull, Unavailable
from holdfast.model.names import Name
from holdfast.workspace import placing, writing


class Refusing:
    """The operating system, which refuses to do something to a name, or to put it there."""

    def __init__(self, number: int, *names: bytes, keeps: bytes = b"") -> None:
        self.number, self.names, self.keeps = number, names, keeps

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _check(self, *names: object) -> None:
        if any(name in self.names for name in names):
            raise OSError(self.number, os.strerror(self.number), names[0])

    def rename(self, old: bytes, new: bytes, **more: Any) -> None:
        self._check(old, new)
        os.rename(old, new, **more)

    def unlink(self, name: bytes, **more: Any) -> None:
        self._check(name)
        if name == self.keeps:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), name)
        os.unlink(name, **more)

    def open(self, name: bytes, *how: Any, **more: Any) -> int:
        self._check(name)
        return os.open(name, *how, **more)


class Place:
    """A directory and its vault: of two snapshots, the first lacks a file and has another."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        (self.tree / "data").mkdir(parents=True)
        self.write("a", "1")
        self.vault = holdfast.open(folder / "vault")
        self.work: Workspace = self.vault.workspace(self.tree)
        self.write("gone", "x" * 9_000)
        self.write("data/run", "1", mode=0o755)
        self.first = self.work.snapshot().id
        (self.tree / "gone").unlink()
        self.write("data/run", "22", mode=0o755)
        self.write("data/new", "1")
        self.write("data/newer", "1")
        self.write("a", "2")
        self.second = self.work.snapshot().id
        self.here = self.files()

    def write(self, name: str, text: str, *, mode: int = 0o644) -> None:
        path = self.tree / name
        path.write_text(text)
        path.chmod(mode)

    def files(self) -> dict[str, str]:
        found = [path for path in self.tree.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.tree)): path.read_text() for path in found}

    def fails(self) -> HoldfastError:
        """Restores what cannot be; the directory is as it was, and so is the timeline."""
        with pytest.raises(HoldfastError) as caught:
            self.work.restore(self.first)
        assert self.files() == self.here
        assert not self.work.is_half_way
        assert [*self.work.status().changes] == []
        assert self.work.namespace.get_snapshot("@").id == self.second
        return caught.value


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.work.close()
    made.vault.close()


def said(error: Exception) -> tuple[str, Any]:
    """Returns what people are told of an error, and what programs are."""
    texts: list[str] = []
    for is_json in (False, True):
        err = io.StringIO()
        console = Console(
            out=io.StringIO(),
            err=err,
            is_terminal=False,
            cwd="/",
            environ={},
            is_json=is_json,
        )
        report(error, console)
        texts.append(err.getvalue())
    return texts[0], json.loads(texts[1])["error"]


@pytest.mark.parametrize(
    ("number", "path", "what", "helps"),
    [
        (errno.EACCES, "data/new", "removed", "--except data/new"),
        (errno.EPERM, "data/new", "removed", "lsattr -d"),
        (errno.EPERM, "data/run", "written", "--except data/run"),
        (errno.EBUSY, "data/run", "written", "unmount it"),
        (errno.ENOSPC, "gone", "written", "df -h"),
        (errno.EROFS, "gone", "written", "findmnt -T"),
        (errno.EIO, "gone", "written", "--except gone"),
    ],
)
def test_what_could_not_be_written_is_named_and_what_helps(
    place: Place, number: int, path: str, what: str, helps: str
) -> None:
    name = path.rpartition("/")[2].encode()
    with pytest.MonkeyPatch.context() as patch:
        for module in (writing, placing):
            patch.setattr(module, "os", Refusing(number, name))
        error = place.fails()
    begin = f"{path} could not be {what}, and {place.tree} is as it was"
    assert str(error) == f"{begin}: {os.strerror(number)}"
    people, programs = said(error)
    assert programs["paths"] == [path]
    for hint in (people, programs["hint"], error.hint):
        assert helps in hint
        for astray in ("doctor", "database", "holdfast gc", "`collect`", "copy the vault"):
            assert astray not in hint
    # Once, in the sentence, and not again below it.
    assert people.count(f"holdfast: {begin}") == 1
    assert f"\n    {path}" not in people
    # What helps is true: all else comes back.
    if "--except" in helps:
        place.work.restore(place.first, except_=[Name.file(path)])
        assert "gone" in place.files() or path == "gone"
        assert (place.tree / "a").read_text() == "1"


def half_done(place: Place) -> None:
    """Leaves a restore half-done: what it took away could not be put back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "os", Refusing(errno.ENOSPC, b"gone", b"new"))
        with pytest.raises(Unavailable) as caught:
            place.work.restore(place.first)
    assert caught.value.paths == ["data/new"]
    assert "data/new could not be written (No space left on device)" in str(caught.value)
    assert f"df -h {place.tree}" in caught.value.hint
    assert not isinstance(caught.value, StorageFull)
    assert place.work.is_half_way


def test_a_disk_that_is_full_on_the_way_back_is_named_too(place: Place) -> None:
    half_done(place)
    assert [*place.work.status().changes] == []
    assert place.files() == place.here


def test_what_cannot_be_taken_back_is_kept_and_nobody_waits_for_it(place: Place) -> None:
    half_done(place)
    heard: list[str] = []
    place.work.on_recovery = heard.append
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "os", Refusing(errno.ENOSPC, b"new"))
        status = place.work.status()
        assert status.recovered is not None
        assert "could not be taken back: data/new could not be written" in status.recovered
        assert heard == [status.recovered]
        assert [*status.changes] == []
        assert place.work.snapshot_if_changed() is None
    place.work.undo()
    assert place.files() == place.here


LOOKS: dict[str, Callable[[Place], object]] = {
    "status": lambda place: place.work.status(),
    "diff": lambda place: place.work.diff(),
    "text_diffs": lambda place: place.work.text_diffs(),
    "history": lambda place: place.work.history("a"),
    "is_dirty": lambda place: place.work.is_dirty(),
    "restore": lambda place: place.work.restore(place.first, dry_run=True),
    "undo": lambda place: place.work.undo(dry_run=True),
}


@pytest.mark.parametrize("what", [*LOOKS, "snapshot"])
def test_who_only_looks_can_while_a_restore_waits_to_be_put_right(place: Place, what: str) -> None:
    half_done(place)
    heard: list[str] = []
    place.work.on_recovery = heard.append
    with pytest.MonkeyPatch.context() as patch:
        # One file comes back, the next does not, and the first cannot be removed again.
        patch.setattr(writing, "os", Refusing(errno.ENOSPC, b"newer", keeps=b"new"))
        if what == "snapshot":
            with pytest.raises(Unavailable):
                place.work.snapshot()
        else:
            LOOKS[what](place)
            assert "is not taken back yet: data/new could not be removed" in heard[0]
        assert place.work.is_half_way
    assert [*place.work.status().changes] == []
    assert "An interrupted restore was taken back." in heard[-1]
    assert place.files() == place.here


def test_what_a_restore_left_behind_is_nobodys_file(place: Place) -> None:
    name = ".holdfast-0123456789abcdef-back-7.tmp"
    left = place.tree / "data" / name
    left.write_text("half of a file")
    (place.tree / "data" / "notes").write_text("1")
    taken = place.work.snapshot()
    held = [each.path for each in place.work.namespace.at(taken.id).files.list(recursive=True)]
    assert "data/notes" in held
    assert f"data/{name}" not in held
    assert [each.path for each in place.work.status().coverage.excluded] == [f"data/{name}"]
    # It is in nobody's way, and goes when one that was interrupted is put right.
    assert place.work.restore(place.first).verified
    place.work.undo()
    assert left.exists()
    place.here, place.second = place.files(), taken.id
    half_done(place)
    place.work.status()
    assert not left.exists()


class Locks:
    """Attributes that only root sets, on file systems that have them."""

    def __init__(self) -> None:
        self.set: list[tuple[str, Path]] = []

    def __call__(self, attribute: str, path: Path) -> None:
        command = ["chattr", f"+{attribute}", str(path)]
        if shutil.which("chattr") is None or subprocess.run(command, check=False).returncode:
            pytest.skip("needs root, and a file system with attributes")
        self.set.append((attribute, path))

    def open(self) -> None:
        while self.set:
            attribute, path = self.set.pop()
            subprocess.run(["chattr", f"-{attribute}", str(path)], check=True)


@pytest.fixture
def locks() -> Iterator[Locks]:
    made = Locks()
    yield made
    made.open()


@pytest.mark.parametrize(
    ("attribute", "locked", "path"),
    [
        ("i", "data/run", "data/run"),
        ("i", "data/new", "data/new"),
        ("i", "data", "data/new"),
        ("a", "data", "data/new"),
    ],
)
def test_a_locked_file_or_folder_is_named_and_wedges_nothing(
    place: Place, locks: Locks, attribute: str, locked: str, path: str
) -> None:
    locks(attribute, place.tree / locked)
    for _ in range(2):
        error = place.fails()
        assert getattr(error, "paths", []) == [path]
        assert "lsattr -d" in error.hint
    locks.open()
    assert place.work.restore(place.first).verified


def test_a_folder_that_lets_no_name_go_is_not_littered(place: Place, locks: Locks) -> None:
    (place.tree / "data/new").unlink()
    (place.tree / "data/newer").unlink()
    (place.tree / "data/link").symlink_to("run")
    place.first = place.work.snapshot().id
    (place.tree / "data/link").unlink()
    (place.tree / "data/link").symlink_to("elsewhere")
    place.write("data/run", "22\n", mode=0o755)
    place.second, place.here = place.work.snapshot().id, place.files()
    locks("a", place.tree / "data")
    assert getattr(place.fails(), "paths", []) == ["data/link"]
    assert sorted(os.listdir(place.tree / "data")) == ["link", "run"]


def test_a_mounted_file_is_named(place: Place, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("22")
    path = place.tree / "data/run"
    mount = ["mount", "--bind", str(tmp_path / "other"), str(path)]
    if os.geteuid() or subprocess.run(mount, check=False).returncode:
        pytest.skip("needs root, who may mount")
    try:
        place.second = place.work.snapshot().id
        error = place.fails()
    finally:
        subprocess.run(["umount", str(path)], check=True)
    assert getattr(error, "paths", []) == ["data/run"]
    assert "unmount it" in error.hint
