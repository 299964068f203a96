"""What a process may do, and where paths lead it: a server works for its equals alone.

Whoever has a command done by another process has it done with that one's rights and limits. One in
a sandbox would be led out of it by a process outside, and one outside would be held back by a
process inside. Landlock and seccomp show here as well: without privileges, both need `NoNewPrivs`.

Not compared is what changes no answer: how many processes there may be, on which processors.

Like `thin`, this imports nothing that costs time.
"""

import os

from holdfast.cli.thin import upwards
from holdfast.ownfiles import read_small

_RIGHTS = ("Uid", "Gid", "Groups", "CapEff", "NoNewPrivs", "Seccomp", "Seccomp_filters")
"""Lines of /proc/PID/status; a kernel that is too old for one of them has it for nobody."""

_PLACES = ("root", "ns/mnt", "ns/user", "ns/pid", "ns/net")

_USUALLY_NONE = ("Max cpu time", "Max file size", "Max data size", "Max address space")
"""Lines of /proc/PID/limits, of which nobody has one who has not asked for it."""

_LIMITS = (*_USUALLY_NONE, "Max open files")

_GROUPS = "/sys/fs/cgroup"
_BOUNDS = ("memory.max", "memory.high", "cpu.max")
_UNBOUND = "max"


def is_alike(process: int) -> bool:
    """Says whether a process may do what this one may, and means the same files by a path.

    Of one that cannot be looked at, it says no: it has more rights, is out of sight, or is gone.
    """
    try:
        return _state_of(f"/proc/{process}", process) == _state_of("/proc/self", 0)
    except OSError:
        return False


def is_confined() -> bool:
    """Says whether this process has given up rights that others of its user have."""
    if os.getuid() != os.geteuid() or os.getpriority(os.PRIO_PROCESS, 0):
        return True
    limits = _lines_of("/proc/self/limits", _USUALLY_NONE)
    if any(line.split()[0] != "unlimited" for line in limits.values()):
        return True
    return _lines_of("/proc/self/status", _RIGHTS).get("NoNewPrivs") != "0"


def _state_of(folder: str, process: int) -> tuple[object, ...]:
    found = [os.stat(f"{folder}/{place}") for place in _PLACES]
    return (
        [(each.st_dev, each.st_ino) for each in found],
        _lines_of(f"{folder}/status", _RIGHTS),
        _lines_of(f"{folder}/limits", _LIMITS),
        os.getpriority(os.PRIO_PROCESS, process),
        _find(f"{folder}/attr/current"),  # AppArmor's profile, or what SELinux calls it
        _bounds_of(_read(f"{folder}/cgroup")),
    )


def _bounds_of(groups: str) -> list[str]:
    """Returns what its groups let a process have; of the old kind, which they are.

    Terminals have groups of their own, which bound nothing: equal bounds are enough.
    """
    found: list[str] = []
    for line in groups.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            paths = [f"{_GROUPS}{group}/{name}" for group in upwards(path) for name in _BOUNDS]
            said = [(os.path.basename(each), _find(each)) for each in paths]
            found += [f"{name} {text}" for name, text in said if text and text[:3] != _UNBOUND]
        elif not controllers.startswith("name="):
            found.append(line)
    return found


def _lines_of(path: str, names: tuple[str, ...]) -> dict[str, str]:
    # The few that may be one of them, found in C: there are some sixty.
    lines = [line for line in _read(path).splitlines() if line.startswith(names)]
    return {
        name: line[len(name) :].strip(": \t")
        for name in names
        for line in lines
        if line.startswith((f"{name}:", f"{name} "))
    }


def _find(path: str) -> str | None:
    try:
        return _read(path)
    except OSError:
        return None


def _read(path: str) -> str:
    return read_small(path).decode("utf-8", "surrogateescape")
