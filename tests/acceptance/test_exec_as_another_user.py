"""Whoever tests as root tests commands, too: as somebody else, since nothing is run as root."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

NOBODYS = 65533
"""The number of no user: what lies in the folder below is its own, and nothing else."""

TESTS = Path(__file__).parent.parent
FILES = (
    "acceptance/test_sandbox.py",
    "acceptance/test_exec.py",
    "acceptance/test_server_exec.py",
    "acceptance/test_exec_doors.py",
    "conformance/test_trove_exec.py",
)


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="holdfast-as-another-"))
    os.chown(made, NOBODYS, NOBODYS)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="these tests are no root's, and run by themselves")
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="no sandbox: bwrap is not installed")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FILES)
def test_commands_are_tested_as_another_user(folder: Path, name: str) -> None:
    line = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*line, "-m", "not postgres and not slow", str(TESTS / name)],
        cwd=TESTS.parent,
        env={**os.environ, "HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": ""},
        user=NOBODYS,
        group=NOBODYS,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert re.search(r"\d+ passed", done.stdout), done.stdout
