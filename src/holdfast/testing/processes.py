"""What processes have computed: the same however busy a machine is. Linux only."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int, *, children: bool = False) -> float:
    """Returns how many seconds a process has computed, with its children also what these have.

    Those that have ended count as well, once their end was noticed.
    """
    fields = _fields(pid)
    if not children:
        return sum(map(int, fields[11:13])) / _TICKS
    return sum(map(int, fields[11:15])) / _TICKS + sum(map(cpu_s, _children(pid)))


def _fields(pid: int) -> list[str]:
    """Returns what stands of a process behind its name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()


def _children(pid: int) -> list[int]:
    found = list[int]()
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                if int(_fields(int(each.name))[1]) == pid:
                    found.append(int(each.name))
            except OSError:
                continue  # It has ended meanwhile.
    return found
