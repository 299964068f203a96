"""Whoever tests as root tests commands as another user, too, whose sandbox is another."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

NOBODYS = 65534
"""The number of `nobody`: PostgreSQL wants its user to have a name."""

TESTS = Path(__file__).parent.parent
FILES = (
    "acceptance/test_sandbox.py",
    "acceptance/test_exec.py",
    "acceptance/test_server_exec.py",
    "acceptance/test_exec_doors.py",
    "conformance/test_trove_exec.py",
)


def find_python(environ: dict[str, str]) -> str | None:
    """Returns an interpreter of this version that somebody else may start; None for none."""
    wanted = f"{sys.version_info.major}.{sys.version_info.minor}"
    for name in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        with suppress(OSError):
            line = [name, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
            found = subprocess.run(
                line,
                env=environ,
                user=NOBODYS,
                group=NOBODYS,
                extra_groups=[],
                capture_output=True,
                text=True,
                check=False,
            )
            if found.stdout.strip() == wanted:
                return name
    return None


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="holdfast-as-another-"))
    os.chown(made, NOBODYS, NOBODYS)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="these tests are no root's, and run by themselves")
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="no sandbox: bwrap is not installed")
@pytest.mark.timeout(600)
def test_commands_are_tested_as_another_user(folder: Path) -> None:
    # By its path: the interpreter need not be this one, which may lie where root alone goes.
    path = os.pathsep.join(each for each in sys.path if each)
    environ = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": path}
    python = find_python(environ)
    if python is None:
        pytest.skip("there is no interpreter of this version that another user may start")
    line = [python, "-P", "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*line, "-m", "not slow", *(str(TESTS / name) for name in FILES)],
        cwd=TESTS.parent,
        env=environ,
        user=NOBODYS,
        group=NOBODYS,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert re.search(r"\d+ passed", done.stdout), done.stdout
