"""The environment of commands that tests start, and the processes that those leave behind.

Commands of tests leave none (`HOLDFAST_STAY=0`), but for those of tests that are about that: a
process that stays would outlive what it answers for. `HOLDFAST_TESTS_STAY` says otherwise for a
whole run: with 600, and a runtime directory, tests of the command line have to see the same answers
from processes that were left behind.
"""

import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

RUN: Final = "HOLDFAST_TESTS_RUN"
"""Names the process of the tests, in the environment of all that they start."""

_INHERITED: Final = ("PATH", "HOLDFAST_STAY", "XDG_RUNTIME_DIR", RUN)
_PATIENCE_S: Final = 10.0
_PROGRAMS: Final = (b"holdfast.cli.main", b"/bin/holdfast", b"holdfast.testing.warm")


def set_up() -> bool:
    """Makes the environment of this process that of tests; says whether processes may stay."""
    stay = os.environ.get("HOLDFAST_TESTS_STAY", "0")
    os.environ |= {"HOLDFAST_STAY": stay, RUN: str(os.getpid())}
    return stay != "0"


def environment(home: Path, **more: str) -> dict[str, str]:
    """Returns the environment of somebody who has a home directory, and little else."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**inherited, "HOME": str(home), "LC_ALL": "C.UTF-8", **more}


def read_terminal(ours: int) -> bytes:
    """Returns what is shown on a terminal, until nobody writes to it any more; closes it."""
    shown = b""
    with suppress(OSError):  # Linux says so when its other side is closed.
        while part := os.read(ours, 1 << 16):
            shown += part
    os.close(ours)
    return shown


def end_left() -> None:
    """Ends what commands of these tests have left behind."""
    for process in _find_left():
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def await_none_left() -> list[str]:
    """Returns what commands of these tests have left behind, once what is ending has ended."""
    until = time.monotonic() + _PATIENCE_S
    while (left := _find_left()) and time.monotonic() < until:
        select.select([], [], [], 0.05)
    return [f"process {process}: {command}" for process, command in left.items()]


def _find_left() -> dict[int, str]:
    """Returns processes of holdfast that these tests have started, and that nobody waits for."""
    mine = f"{RUN}={os.getpid()}".encode()
    found: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mine not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            command = (entry / "cmdline").read_bytes()
            if any(name in command for name in _PROGRAMS) and not _is_below_us(entry):
                found[int(entry.name)] = command.replace(b"\0", b" ").decode("utf-8", "replace")
    return found


def _is_below_us(entry: Path) -> bool:
    """Says whether a process was started by us, or by one that was and is still there."""
    while entry.name not in ("0", "1"):
        if entry.name == str(os.getpid()):
            return True
        # After the name, which may hold anything: the state, and the parent.
        entry = entry.with_name((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return False
