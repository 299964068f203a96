"""The folder that workers share: it goes with its server, however that ends."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from holdfast.server.room import (
    PREFIX,
    remove_left,
    remove_uploads,
    shared_folder,
    upload_in,
)

KILLED = """
import os, signal, sys, tempfile
from holdfast.server.room import shared_folder
tempfile.tempdir = sys.argv[1]
with shared_folder():
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_killed_servers_folder_is_removed_by_the_next_and_a_living_ones_is_not(
    temporary: Path,
) -> None:
    with shared_folder() as mine:
        for _ in range(2):
            done = subprocess.run([sys.executable, "-c", KILLED, temporary], check=False)
            assert done.returncode == -signal.SIGKILL
        assert len(list(temporary.glob(f"{PREFIX}*"))) == 2, "mine, and that of the last"
        with shared_folder() as another:
            assert {*temporary.iterdir()} == {Path(mine), Path(another)}
    assert list(temporary.iterdir()) == []


def test_what_is_not_a_servers_folder_is_left_alone(temporary: Path) -> None:
    (temporary / f"{PREFIX}begun").mkdir()
    (temporary / f"{PREFIX}file").write_text("x")
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    os.symlink(elsewhere, temporary / f"{PREFIX}link")
    before = {*temporary.rglob("*")}
    remove_left()
    assert {*temporary.rglob("*")} == before


def test_of_uploads_those_alone_are_removed_that_nobody_holds(tmp_path: Path) -> None:
    (tmp_path / "holdfast-import-left").write_bytes(b"x")
    (tmp_path / "elsewhere").write_bytes(b"x")
    os.symlink(tmp_path / "elsewhere", tmp_path / "holdfast-import-link")
    with upload_in(tmp_path) as mine:
        remove_uploads(tmp_path)
        assert Path(mine.name).exists()
        assert not (tmp_path / "holdfast-import-left").exists()
        assert (tmp_path / "elsewhere").exists()
    remove_uploads(tmp_path)
    assert not Path(mine.name).exists()
