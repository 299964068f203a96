"""A control group of the kernel's for each command (cgroup v2), where a place was given to us.

In one, the kernel itself bounds the memory and the processes of all that a command starts, together
with what it keeps for them. Without one, `tallying.py` looks every twentieth of a second.

The place is named by whoever has it: a group without processes of its own, whose controllers of
memory and processes we may hand on. None is looked for. To make one of the group that this process
is in, it would have to be moved, and it may be somebody else's program.
"""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from holdfast.errors import SandboxUnavailable
from holdfast.sandbox.confining import SHARED_MEMORY_BYTES
from holdfast.sandbox.limits import Allowance

_NEEDED: Final = ("memory", "pids")
_PREFIX: Final = "command"

_AROUND: Final = 4
"""Processes beside the command's: the keeper, what waits for our end, and bubblewrap's two."""

_GONE_S: Final = 5.0
_ASK_AGAIN_S: Final = 0.01


class Group:
    """The group of one command."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, pid: int) -> None:
        """Puts a process into it, and so all that it will start."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the kernel has ended something in it for its memory."""
        with suppress(OSError):
            for line in (self._folder / "memory.events").read_text().splitlines():
                if line.startswith("oom_kill "):
                    return line != "oom_kill 0"
        return False


class Groups:
    """The place in which groups are made."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def prepare(self) -> None:
        """Lets groups be bounded in there; raises `SandboxUnavailable`, with the reason."""
        try:
            there = (self._place / "cgroup.controllers").read_text().split()
            handed_on = self._place / "cgroup.subtree_control"
            if missing := [each for each in _NEEDED if each not in there]:
                message = f"the group {self._place} does not control {' and '.join(missing)}"
                raise SandboxUnavailable(message)
            if not set(_NEEDED) <= {*handed_on.read_text().split()}:
                handed_on.write_text(" ".join(f"+{each}" for each in _NEEDED))
            self._sweep()
        except OSError as exc:
            raise _unusable(self._place, exc) from exc

    @contextmanager
    def lend(self, allowance: Allowance) -> Generator[Group]:
        """Lends a group that is bounded; ends what is left in it."""
        # A process in a container has the id that the one before it had.
        folder = self._place / f"{_PREFIX}-{os.getpid()}-{uuid4().hex}"
        # What is in temporary folders counts as memory, and has an end of its own.
        memory = allowance.memory_bytes + 2 * allowance.scratch_bytes + SHARED_MEMORY_BYTES
        try:
            folder.mkdir()
            try:
                (folder / "memory.max").write_text(str(memory))
                # All of it, and not whichever is largest: a half of a command is worth nothing.
                (folder / "memory.oom.group").write_text("1")
                (folder / "pids.max").write_text(str(allowance.processes + _AROUND))
                if (swap := folder / "memory.swap.max").exists():
                    swap.write_text("0")
            except OSError:
                _remove(folder)
                raise
        except OSError as exc:
            raise _unusable(folder, exc) from exc
        try:
            yield Group(folder)
        finally:
            _remove(folder)

    def _sweep(self) -> None:
        """Removes the groups of processes that were killed."""
        for folder in self._place.glob(f"{_PREFIX}-*-*"):
            pid = folder.name.split("-")[1]
            if pid.isdecimal() and not Path("/proc", pid).exists():
                with suppress(OSError):
                    folder.rmdir()


def _unusable(place: Path, exc: OSError) -> SandboxUnavailable:
    return SandboxUnavailable(f"no command can be bounded in the group {place}: {exc.strerror}")


def _remove(folder: Path) -> None:
    """Removes a group whose processes have ended, or are about to; leaves it if they do not."""
    with suppress(OSError):  # Linux before 5.14 has no such file.
        (folder / "cgroup.kill").write_text("1")
    until = time.monotonic() + _GONE_S
    while time.monotonic() < until:
        try:
            folder.rmdir()
        except OSError:
            time.sleep(_ASK_AGAIN_S)
        else:
            return
