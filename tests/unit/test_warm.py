"""A command that starts at once is to whoever starts it what a process of its own is."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.servers import COMMAND, Begin, running_server
from holdfast.testing.shells import environment
from holdfast.testing.warm import Warm

pytestmark = [
    pytest.mark.in_memory,
    pytest.mark.skipif(sys.platform != "linux", reason="nothing starts at once but on Linux"),
]

CHILDRENS_FAULTS = 8
"""Where `/proc/PID/stat` counts them, after the name of the program."""

MOST_PAGES = 5_000
"""To say its version a copy needs 1,500; that and an end as Python's is, 12,500."""

SAYS = 'umask; pwd; echo "$GIVEN $HOME"; cat; echo complains >&2; exit 7'


def done(command: tuple[str, ...], *words: str, **more: Any) -> tuple[int, bytes, bytes]:
    ran = subprocess.run([*command, *words], capture_output=True, check=False, timeout=60, **more)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize("words", [("--version",), ("frobnicate",), ("status",), ("help", "log")])
def test_it_says_and_ends_as_the_command_does(
    warm: tuple[str, ...], tmp_path: Path, words: tuple[str, ...]
) -> None:
    given = {"cwd": tmp_path, "env": environment(tmp_path), "stdin": subprocess.DEVNULL}
    assert done(warm, *words, **given) == done(COMMAND, *words, **given)


def test_directory_environment_umask_and_streams_are_the_callers(
    warm: tuple[str, ...], tmp_path: Path
) -> None:
    environ = environment(tmp_path, GIVEN="é=1", HOLDFAST_DATA=str(tmp_path / "vault"))
    (tmp_path / "project").mkdir()
    given: dict[str, Any] = {"cwd": tmp_path / "project", "env": environ}
    assert done(warm, "init", "-q", **given)[0] == 0
    code, out, err = done(
        warm, "run", "-q", "--", "sh", "-c", SAYS, input=b"read", umask=0o027, **given
    )
    assert (code, out.splitlines()[:3]) == (
        7,
        [b"0027", os.fsencode(tmp_path / "project"), f"é=1 {tmp_path}".encode()],
    )
    assert out.splitlines()[3].startswith(b"read")
    assert b"complains" in err


def test_its_end_takes_nothing_apart_that_was_loaded(loaded: Warm | None, tmp_path: Path) -> None:
    if loaded is None:
        pytest.skip("nothing starts at once here")
    stat = Path(f"/proc/{loaded.pid}/stat")

    def pages() -> int:
        """Returns how many pages copies have made their own."""
        return int(stat.read_text().rpartition(")")[2].split()[CHILDRENS_FAULTS])

    before = pages()
    assert done(loaded.command, "--version", cwd=tmp_path, env=environment(tmp_path))[0] == 0
    assert pages() - before < MOST_PAGES


def test_a_signal_reaches_the_command_and_its_end_is_told(
    warm: tuple[str, ...], tmp_path: Path
) -> None:
    environ = environment(tmp_path, HOLDFAST_DATA=str(tmp_path / "vault"), HOLDFAST_PORT="0")
    with subprocess.Popen([*warm, "serve"], env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(60) == 0


def test_a_server_is_waited_for_stopped_and_killed(at_once: Begin, tmp_path: Path) -> None:
    with running_server(tmp_path, begin=at_once) as server:
        assert server.process is not None
        assert server.process.poll() is None
        assert os.getsid(server.process.pid) == server.process.pid
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(0.01)
        assert server.stop() == 0
        server.start()
        process = server.process
        server.kill()
        assert process.wait() == process.poll() == -signal.SIGKILL
