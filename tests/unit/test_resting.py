"""Asking for a lease, compiled and in Python: both say the same."""

import ctypes
import errno
import fcntl
import os
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.workspace import library, resting
from holdfast.workspace.library import library_name
from holdfast.workspace.placing import Expected
from holdfast.workspace.resting import Rest, Resting, lease_in_python, load_lease

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has leases")

FOLDER = Path(resting.__file__).parent


@pytest.fixture(params=["compiled", "in Python"])
def lease(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], int]:
    found = load_lease()
    if request.param == "compiled" and found is lease_in_python:
        pytest.skip("it was not compiled: no compiler at hand")
    used = found if request.param == "compiled" else lease_in_python
    monkeypatch.setattr(resting, "load_lease", lambda: used)
    return used


def test_a_lease_is_granted_refused_or_not_to_be_had(
    lease: Callable[[int], int], tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(b"1")
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    folder = os.open(tmp_path, os.O_RDONLY)
    device = os.fstat(fd).st_dev
    try:
        assert lease(fd) == 0
        assert Resting().ask(fd, device) is Rest.PROVEN
        with open(tmp_path / "f", "r+b"):
            assert lease(fd) == errno.EAGAIN
            assert Resting().ask(fd, device) is Rest.REFUSED
        assert lease(fd) == 0, "it was not given back"
        assert lease(folder) not in (0, errno.EAGAIN)
        assert Resting().ask(folder, device) is Rest.UNKNOWN
    finally:
        os.close(fd)
        os.close(folder)
    assert lease(fd) == errno.EBADF


@pytest.mark.skipif(load_lease() is lease_in_python, reason="no compiler at hand")
def test_a_file_is_cut_where_it_is_while_nobody_else_has_it_open(tmp_path: Path) -> None:
    path, resting = tmp_path / "f", Resting()
    path.write_bytes(b"what is there")
    fd = os.open(path, os.O_WRONLY)
    try:
        state = os.fstat(fd)
        with path.open("rb"):
            assert not resting.shorten(fd, b"short", state, mtime_ns=1)
        with path.open("ab") as file:
            file.write(b", and more")
        with pytest.raises(FileNotFoundError):
            resting.shorten(fd, b"short", state, mtime_ns=1)
        assert path.read_bytes() == b"what is there, and more"
        assert resting.shorten(fd, b"short", os.fstat(fd), mtime_ns=-1)
        assert (path.read_bytes(), path.stat().st_mtime_ns) == (b"short", -1)
        assert fcntl.fcntl(fd, fcntl.F_GETLEASE) == fcntl.F_UNLCK
    finally:
        os.close(fd)
    assert not resting.shorten(fd, b"", state, mtime_ns=1)


@pytest.mark.skipif(load_lease() is lease_in_python, reason="no compiler at hand")
def test_what_somebody_writes_before_a_file_is_cut_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, cut = tmp_path / "work", Resting.shorten
    work.mkdir()
    path = work / "a.txt"

    def shorten(self: Resting, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(Resting, "shorten", cut)
        with path.open("ab") as file:
            file.write(b"and what somebody has to say\n")
        return self.shorten(*args, **kwargs)

    with holdfast.open(tmp_path / "vault") as vault:
        workspace = vault.workspace(work)
        path.write_bytes(b"short\n")
        short = workspace.snapshot("short")
        path.write_bytes(b"a much longer content of the file\n")
        workspace.snapshot("long")
        monkeypatch.setattr(Resting, "shorten", shorten)
        workspace.restore(short)
        assert Resting.shorten is cut, "nothing was cut"
        assert path.read_bytes() == b"short\n"
        agent = workspace.namespace
        kept = {agent.at(each).files.read("a.txt") for each in agent.timeline()}
        assert b"a much longer content of the file\nand what somebody has to say\n" in kept


@pytest.mark.parametrize("how", ["in its place", "over it"])
def test_what_somebody_writes_before_a_file_is_removed_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    work, remove = tmp_path / "work", Expected.remove
    work.mkdir()
    path = work / "a.txt"

    def removing(self: Expected, *args: Any, **kwargs: Any) -> None:
        monkeypatch.setattr(Expected, "remove", remove)
        if how == "over it":
            (tmp_path / "new").write_bytes(path.read_bytes())
            (tmp_path / "new").rename(path)
        with path.open("ab") as file:
            file.write(b"and what somebody has to say\n")
        self.remove(*args, **kwargs)

    with holdfast.open(tmp_path / "vault") as vault:
        workspace = vault.workspace(work)
        empty = workspace.snapshot("empty")
        path.write_bytes(b"a content\n")
        workspace.snapshot("one file")
        monkeypatch.setattr(Expected, "remove", removing)
        workspace.restore(empty)
        assert Expected.remove is remove, "nothing was removed"
        assert os.listdir(work) == []
        agent = workspace.namespace
        moments = (agent.at(each).files for each in agent.timeline())
        kept = {files.read("a.txt") for files in moments if files.exists("a.txt")}
        assert b"a content\nand what somebody has to say\n" in kept


@pytest.mark.skipif(load_lease() is lease_in_python, reason="no compiler at hand")
def test_the_library_was_built_from_the_source_that_is_here() -> None:
    built = ctypes.CDLL(str(FOLDER / library_name("resting")))
    digest = sha256((FOLDER / "_resting.c").read_bytes()).hexdigest()
    built_from = (ctypes.c_char * 65).in_dll(built, "holdfast_resting_source").value.decode()
    assert built_from == digest, "stale: `pip install --editable .` builds it again"


def test_python_asks_where_no_library_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    assert load_lease.__wrapped__() is lease_in_python
    (tmp_path / library_name("resting")).write_bytes(b"not a library")
    assert load_lease.__wrapped__() is lease_in_python
