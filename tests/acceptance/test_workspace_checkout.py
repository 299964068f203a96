"""A checkout says that it is verified only if every bit of it is what the snapshot holds."""

import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import errors
from holdfast.engine.archives import checkout
from holdfast.engine.archives.checkout import is_as_written
from holdfast.engine.workspace import Workspace
from holdfast.workspace import writing

MANY = 40
"""So many that they are created with one call, where that was compiled."""


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    tree = tmp_path / "tree"
    (tree / "src").mkdir(parents=True)
    (tree / "empty").mkdir()
    (tree / "src/a").write_bytes(b"a file")
    (tree / "src/b").write_bytes(b"b")
    (tree / "large").write_bytes(os.urandom(1 << 20))
    (tree / "twin").write_bytes(b"one of two")
    (tree / "the other").hardlink_to(tree / "twin")
    (tree / "link").symlink_to("src/a")
    for number in range(MANY):
        (tree / f"src/{number}").write_bytes(b"one of many")
        os.utime(tree / f"src/{number}", ns=(5, 5))
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(tree) as workspace:
        yield workspace


def write_unseen(path: Path, data: bytes) -> None:
    """Writes, and sets the time back."""
    state = path.stat()
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def link_instead(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


def link_instead_of_folder(path: Path) -> None:
    shutil.move(path, path.parent.parent / "moved")
    path.symlink_to("../moved")


def part_twins(copy: Path) -> None:
    shutil.copy2(copy / "twin", copy.parent / "part")
    (copy.parent / "part").replace(copy / "twin")


def join(first: Path, second: Path) -> None:
    second.unlink()
    second.hardlink_to(first)


def join_two(copy: Path) -> None:
    join(copy / "src/7", copy / "src/8")


def folder_instead(copy: Path) -> None:
    (copy / "src/7").unlink()
    (copy / "src/7").mkdir()
    (copy / "src/7/more").write_bytes(b"")


def swap_folder(copy: Path) -> None:
    shutil.copytree(copy / "src", copy.parent / "swapped")
    (copy.parent / "swapped/7").write_bytes(b"one of MANY")
    os.utime(copy.parent / "swapped/7", ns=(5, 5))
    shutil.rmtree(copy / "src")
    (copy.parent / "swapped").rename(copy / "src")


TAMPERING: dict[str, Callable[[Path], object]] = {
    "nothing": lambda copy: copy,
    "content": lambda copy: (copy / "src/a").write_bytes(b"other"),
    "content, not its time": lambda copy: write_unseen(copy / "src/a", b"other!"),
    "large content, not its time": lambda copy: write_unseen(copy / "large", b"other"),
    "content of one of many, not its time": lambda copy: write_unseen(copy / "src/7", b"other"),
    "mode of one of many": lambda copy: (copy / "src/7").chmod(0o4777),
    "a link for one of many": lambda copy: link_instead(copy / "src/7", "8"),
    "time": lambda copy: os.utime(copy / "src/a", ns=(5, 5)),
    "mode": lambda copy: (copy / "src/a").chmod(0o604),
    "mode of a folder": lambda copy: (copy / "src").chmod(0o711),
    "mode of an empty folder": lambda copy: (copy / "empty").chmod(0o711),
    "target of a link": lambda copy: link_instead(copy / "link", "elsewhere"),
    "gone": lambda copy: (copy / "src/a").unlink(),
    "a folder gone": lambda copy: (copy / "empty").rmdir(),
    "more": lambda copy: (copy / "src/more").write_bytes(b""),
    "more in an empty folder": lambda copy: (copy / "empty/more").write_bytes(b""),
    "a folder more": lambda copy: (copy / "src/more").mkdir(),
    "a link for a file": lambda copy: link_instead(copy / "src/a", "b"),
    "a link for a folder": lambda copy: link_instead_of_folder(copy / "src"),
    "two files for one": part_twins,
    "one file for two": join_two,
    "one file for two groups": lambda copy: join(copy / "src/7", copy / "twin"),
    "a folder for a file": folder_instead,
    "a folder for another with the same names": swap_folder,
}


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("kind", TAMPERING)
def test_a_checkout_that_somebody_tampers_with_is_not_verified(
    workspace: Workspace,
    tmp_path: Path,
    kind: str,
    is_compiled: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = tmp_path / "copy"
    if not is_compiled:
        monkeypatch.setattr(writing, "load_creator", lambda: None)

    def tampering(*args: Any, **options: Any) -> bool:
        TAMPERING[kind](copy)
        return is_as_written(*args, **options)

    monkeypatch.setattr(checkout, "is_as_written", tampering)
    done = workspace.checkout(workspace.snapshot(), copy)
    assert done.verified is (kind == "nothing")


def test_a_failed_restore_of_a_large_file_leaves_no_thread(
    workspace: Workspace, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    (tree / "large").write_bytes(os.urandom(12 << 20))
    snapshot = workspace.snapshot()
    (tree / "large").unlink()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, before[1]))
    try:
        with pytest.raises(errors.StorageFull) as raised:
            workspace.restore(snapshot)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert raised.value.__traceback__ is not None
    assert not [t for t in threading.enumerate() if t.name == "holdfast-ahead"]
    assert not (tree / "large").exists()
    assert workspace.restore(snapshot).verified


def test_few_descriptors_are_enough(workspace: Workspace, tmp_path: Path) -> None:
    for number in range(100):
        folder = tmp_path / f"tree/folders/{number}"
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"1")
    snapshot = workspace.snapshot()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(int(name) for name in os.listdir("/dev/fd")) + 24
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        assert workspace.checkout(snapshot, tmp_path / "copy").verified
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
