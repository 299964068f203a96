"""`holdfast run` hands everything on: streams, signals and the end of what it starts."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.cli.commands.run import wait_for
from holdfast.cli.exits import Refused

ENVIRON = {"PATH": os.environ["PATH"]}


def ended(*command: str, cwd: str = "/") -> int:
    return wait_for(command, cwd=cwd, environ=ENVIRON)


def test_the_exit_code_is_that_of_the_command() -> None:
    assert ended("true") == 0
    assert ended("sh", "-c", "exit 42") == 42


def test_a_command_that_a_signal_ended_has_the_code_that_shells_give() -> None:
    assert ended("sh", "-c", "kill -KILL $$") == 128 + signal.SIGKILL


def test_a_command_that_is_not_there_is_127_and_one_that_cannot_run_is_126(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")
    for name, code in (("no-such-command", 127), (str(tmp_path / "plain"), 126)):
        with pytest.raises(Refused) as refused:
            ended(name)
        assert refused.value.exit_code == code


def test_it_runs_in_the_directory_and_environment_that_were_given(tmp_path: Path) -> None:
    wait_for(
        ["sh", "-c", 'echo "$GREETING" > "$PWD/out"'],
        cwd=str(tmp_path),
        environ={**ENVIRON, "GREETING": "hello"},
    )
    assert (tmp_path / "out").read_text() == "hello\n"


def test_handlers_are_as_they_were_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    ended("true")
    assert signal.getsignal(signal.SIGTERM) is before


PARENT = """
import os, sys
from holdfast.cli.commands.run import wait_for
child = 'trap "exit 7" {0}; echo ready; while :; do sleep 0.05; done'
sys.exit(wait_for(["sh", "-c", child], cwd="/", environ=os.environ))
"""


@pytest.mark.parametrize("name", ["TERM", "HUP", "INT", "USR1"])
def test_a_signal_that_we_get_is_passed_on(name: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(name)],
        stdout=subprocess.PIPE,
        start_new_session=True,  # no terminal that would send it to both
    )
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.wait() == 7
    finally:
        watchdog.cancel()
        process.stdout.close() if process.stdout else None
