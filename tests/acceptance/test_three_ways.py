"""The client in C, the one in Python, and a process of one's own: the same answers and vaults.

`bench/soak_clients.py` types a thousand sequences.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
SOURCE = BENCH.parent / "src/holdfast/cli/_thin.c"
CLIENT = Path(sys.executable).with_name("holdfast")
IN_PYTHON = CLIENT.with_name("holdfast-python")

pytestmark = pytest.mark.skipif(
    not IN_PYTHON.exists(), reason="the client in C was not built: no compiler at hand"
)


@pytest.fixture
def three_ways(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return import_module("three_ways")


@pytest.fixture
def way(three_ways: Any, tmp_path: Path) -> Any:
    """A directory whose commands are answered by a process that was left behind."""
    way = three_ways.Way(tmp_path, "see", forks=False)
    (way.directory / "file").write_text("x")
    assert way.type(["init"], "")[0] == 0
    deadline = time.monotonic() + 30
    while not way.socket.exists():
        assert time.monotonic() < deadline
    yield way
    way.close()


def test_the_client_was_built_from_the_source_that_is_here() -> None:
    digest = sha256(SOURCE.read_bytes()).hexdigest()
    assert digest.encode() in CLIENT.read_bytes(), "install it again: `make .venv/.ready-dev`"


def test_random_sequences_have_the_same_answers_and_vaults(three_ways: Any, tmp_path: Path) -> None:
    done = three_ways.play(tmp_path, 4711, 4)
    assert done["answered, see"] > done["commands"] / 2
    assert done["answered, pyt"] >= done["answered, see"]
    assert done["answered, own"] == 0


def test_a_difference_would_be_seen(three_ways: Any, tmp_path: Path) -> None:
    ways = [three_ways.Way(tmp_path, name, forks=False) for name in ("see", "own")]
    try:
        three_ways.compare(ways, ["init"], "")
        (ways[0].directory / "new").write_text("x")
        with pytest.raises(three_ways.Differs, match="status"):
            three_ways.compare(ways, ["status"], "")
    finally:
        for way in ways:
            way.close()


def ask(way: Any, *words: str, **environ: str) -> bool:
    """Says whether a command was answered without a start of Python."""
    done = subprocess.run(
        [CLIENT, *words],
        cwd=way.directory,
        env=way.environ | environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return "import time:" not in done.stderr


def test_what_is_unusual_is_left_to_python(way: Any, tmp_path: Path) -> None:
    tmp_path.parent.chmod(0o755)
    assert ask(way, "status")
    assert ask(way, "status", "-C", ".", "--json")
    assert not ask(way, "workspaces")
    assert not ask(way, "--version")
    for environ in (
        {"LC_ALL": "de_DE.ISO-8859-1"},
        {"PYTHONIOENCODING": "latin-1"},
        {"HOLDFAST_DATA": f"{way.vault}/"},
        {"HOLDFAST_STAY": "0"},
        {"CI": "1"},
        {"XDG_RUNTIME_DIR": str(tmp_path.parent)},
        {"SUDO_UID": "12345"},
        {"HOME": str(tmp_path)},
    ):
        assert not ask(way, "status", **environ), environ
    (tmp_path / "other").mkdir()
    assert ask(way, "status", PYTHONPATH=str(tmp_path / "other"))
    (tmp_path / "other" / "holdfast").symlink_to(BENCH.parent / "src" / "holdfast")
    assert not ask(way, "status", PYTHONPATH=str(tmp_path / "other"))


def test_it_is_found_through_a_link_and_refuses_without_its_script(
    way: Any, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(CLIENT)
    linked = subprocess.run([tmp_path / "link", "--version"], capture_output=True, check=True)
    assert b"holdfast" in linked.stdout
    (tmp_path / "alone").write_bytes(CLIENT.read_bytes())
    (tmp_path / "alone").chmod(0o755)
    command = [tmp_path / "alone", "status"]
    alone = subprocess.run(
        command, cwd=way.directory, env=way.environ, capture_output=True, check=False
    )
    # A copy is another file than the one that was installed: nobody answers it.
    assert alone.returncode == 1
    assert b"holdfast-python cannot be started" in alone.stderr


def test_whoever_reads_no_more_ends_it_as_a_pipe_does(way: Any) -> None:
    for command in (CLIENT, IN_PYTHON):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [command, "log"], cwd=way.directory, env=way.environ, stdout=writing, check=False
        )
        os.close(writing)
        assert done.returncode == 141
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [command, "log"],
                cwd=way.directory,
                env=way.environ,
                stdout=full,
                stderr=subprocess.PIPE,
                check=False,
            )
        assert done.returncode == 1
        assert b"cannot be written: No space left on device" in done.stderr


def test_an_interrupt_ends_it(way: Any) -> None:
    process = int(way.socket.with_suffix(".lock").read_text())
    os.kill(process, signal.SIGSTOP)
    try:
        command = subprocess.Popen(
            [CLIENT, "status"],
            cwd=way.directory,
            env=way.environ,
            # As in a shell: where tests run in the background, it may be ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - one thread
        )
        await_connection(command.pid)
        command.send_signal(signal.SIGINT)
        assert command.wait(30) == 130
    finally:
        os.kill(process, signal.SIGCONT)
    assert ask(way, "status")


def await_connection(process: int) -> None:
    deadline = time.monotonic() + 30
    while "socket:" not in [held.split("[")[0] for held in held_by(process)]:
        assert time.monotonic() < deadline


def held_by(process: int) -> list[str]:
    held: list[str] = []
    for number in os.listdir(f"/proc/{process}/fd"):
        with contextlib.suppress(FileNotFoundError):
            held.append(os.readlink(f"/proc/{process}/fd/{number}"))
    return held
