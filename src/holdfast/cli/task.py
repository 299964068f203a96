"""Runs somebody's program as ours: same streams, same signals, same end."""

import os
import signal
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from holdfast.cli.exits import Refused

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
SIGNALLED: Final = 128
"""What shells add to the number of the signal that ended a program."""

_HINT: Final = "Check the command's name and that it can be executed."

_PASSED_ON: Final = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)

_FROM_TERMINAL: Final = (signal.SIGINT, signal.SIGQUIT)
"""What a terminal sends to every process in its foreground: the program has it already."""


def wait_for(command: Sequence[str], *, cwd: str, environ: Mapping[str, str]) -> int:
    """Runs a command to its end and returns the exit code that a shell would give it.

    Raises `Refused`, with the code that a shell has for it, if it cannot be started.
    """
    # Before it is started: a signal that comes in between has to reach it too.
    with _passing_on() as hand_over:
        process = _start(command, cwd=cwd, environ=environ)
        hand_over(process)
        code = process.wait()
    return code if code >= 0 else SIGNALLED - code


def _start(
    command: Sequence[str], *, cwd: str, environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, cwd=cwd, env=dict(environ))  # noqa: S603 - typed by the user to be run; nothing of it comes from a vault
    except OSError as exc:
        code = NOT_FOUND if isinstance(exc, FileNotFoundError) else NOT_EXECUTABLE
        message = f"{command[0]} cannot be started: {exc.strerror}"
        raise Refused(message, code="not_started", exit_code=code, hint=_HINT) from exc


@contextmanager
def _passing_on() -> Generator[Callable[[subprocess.Popen[bytes]], None]]:
    """Hands signals to a program for as long as it runs; gives the function that names it."""
    is_foreground = _is_foreground()
    running: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if not running:
            early.append(number)
        elif number not in _FROM_TERMINAL or not is_foreground:
            with suppress(ProcessLookupError):
                running[0].send_signal(number)

    def hand_over(process: subprocess.Popen[bytes]) -> None:
        running.append(process)
        for number in early:
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        yield hand_over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_foreground() -> bool:
    """Says whether a terminal sends its signals to us and to what we start."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
