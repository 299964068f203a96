"""What a process may do, and where paths lead it: a server works for its equals alone.

Whoever has a command done by another process has it done with that one's rights. One in a sandbox
would be led out of it by a process outside, and one outside would be held back by a process inside.
Landlock and seccomp show here as well: without privileges, both need `NoNewPrivs`.

Like `thin`, this imports nothing that costs time.
"""

import os

_RIGHTS = ("CapEff", "NoNewPrivs", "Seccomp", "Seccomp_filters")
"""Lines of /proc/PID/status; a kernel that is too old for one of them has it for nobody."""

_PLACES = ("root", "ns/mnt", "ns/user")


def is_alike(process: int) -> bool:
    """Says whether a process may do what this one may, and means the same files by a path.

    Of one that cannot be looked at, it says no: it has more rights, is out of sight, or is gone.
    """
    try:
        return _state_of(f"/proc/{process}") == _state_of("/proc/self")
    except OSError:
        return False


def is_confined() -> bool:
    """Says whether this process has given up rights that others of its user have."""
    import resource  # noqa: PLC0415 - for who leaves a process behind alone

    bounded = ("RLIMIT_FSIZE", "RLIMIT_CPU", "RLIMIT_AS", "RLIMIT_DATA")
    limits = (resource.getrlimit(getattr(resource, name))[0] for name in bounded)
    if os.nice(0) or any(limit != resource.RLIM_INFINITY for limit in limits):
        return True
    return _rights_of("/proc/self").get("NoNewPrivs") != "0"


def _state_of(folder: str) -> tuple[dict[str, str], list[tuple[int, int]]]:
    found = [os.stat(f"{folder}/{place}") for place in _PLACES]
    return _rights_of(folder), [(each.st_dev, each.st_ino) for each in found]


def _rights_of(folder: str) -> dict[str, str]:
    with open(f"{folder}/status", "rb") as file:
        lines = file.read().decode("ascii", "replace").splitlines()
    pairs = (line.partition(":") for line in lines)
    return {word: value.strip() for word, _, value in pairs if word in _RIGHTS}
