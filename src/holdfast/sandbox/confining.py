"""What a command sees of the machine: the arguments of bubblewrap.

The system's programs and libraries, to be read; one folder, to be written to; a temporary folder
and a home of its own, of a bounded size, which end with it. Of `/etc`, only what programs need to
run at all: nothing that says something about this machine, its users or its keys.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

HOME: Final = "/home/agent"
WORKSPACE: Final = f"{HOME}/workspace"
"""Where the folder is that can be written to."""

PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")

_SETTINGS: Final = (
    "/etc/ImageMagick-6",
    "/etc/ImageMagick-7",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)

_OF_NETWORKS: Final = (
    "/etc/gai.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
)

_UNSHARED: Final = ("pid", "ipc", "uts", "cgroup")

USUAL_ID: Final = 1000
"""Of the one user of a namespace of users."""

_TO_CHANGE_USERS: Final = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
_GIVING_UP: Final = "--clear-groups --inh-caps=-all --ambient-caps=-all --bounding-set=-all"

SHARED_MEMORY_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Become:
    """How what root has started becomes somebody else."""

    setpriv: str
    user: int

    def line(self) -> list[str]:
        """Returns the beginning of a command line: from there on nothing of root's is left."""
        who = str(self.user)
        given = [self.setpriv, "--reuid", who, "--regid", who, *_GIVING_UP.split()]
        return [*given, "--no-new-privs", "--"]


def is_seen(folder: str | os.PathLike[str]) -> bool:
    """Whether every command could read a folder, since it lies among the system's own."""
    place = Path(os.path.realpath(folder))
    return any(place.is_relative_to(each) for each in _find_seen())


@cache
def _find_seen() -> frozenset[str]:
    return frozenset(map(os.path.realpath, (*_SYSTEM, *_SETTINGS)))


def users(user: int) -> bytes:
    """Returns the `/etc/passwd` of a sandbox."""
    return f"agent:x:{user}:{user}:agent:{HOME}:/bin/bash\n".encode()


def groups(user: int) -> bytes:
    """Returns the `/etc/group` of a sandbox."""
    return f"agent:x:{user}:\n".encode()


def arguments(
    bwrap: str,
    folder: str,
    command: Sequence[str],
    *,
    become: Become | None,
    filter_fd: int,
    users_fd: int,
    groups_fd: int,
    info_fd: int,
    scratch_bytes: int,
    has_network: bool,
) -> list[str]:
    """Returns the command line that runs a command with a folder of its own, and nothing else.

    Root's sandbox is made as root, which reaches the folder wherever it is, and whose first program
    `become`s somebody else; any other is made in a namespace of users, with one user in it.
    """
    given = [bwrap, *(f"--unshare-{kind}" for kind in _UNSHARED)]
    if not has_network:
        given.append("--unshare-net")
    given += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if become is None:
        given += ["--unshare-user", "--uid", str(USUAL_ID), "--gid", str(USUAL_ID)]
    else:
        for capability in _TO_CHANGE_USERS:
            given += ["--cap-add", capability]
        command = [*become.line(), *command]
    given += ["--hostname", "sandbox", "--clearenv"]
    for name, value in _environment():
        given += ["--setenv", name, value]
    for place in ("/etc", os.path.dirname(HOME)):  # noqa: PTH120 - a name, and nothing on disk
        given += ["--perms", "0755", "--dir", place]
    given += _system(has_network=has_network)
    for fd, place in ((users_fd, "/etc/passwd"), (groups_fd, "/etc/group")):
        given += ["--perms", "0444", "--ro-bind-data", str(fd), place]
    # What is in memory counts for nobody: it has an end of its own, wherever it can be written to.
    given += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"]
    given += [*_in_memory("/dev/shm", SHARED_MEMORY_BYTES), "--remount-ro", "/dev"]  # noqa: S108 - in there
    for place in ("/tmp", HOME):  # noqa: S108 - of the command alone
        given += _in_memory(place, scratch_bytes)
    given += ["--bind", folder, WORKSPACE, "--remount-ro", "/", "--chdir", "/"]
    given += ["--seccomp", str(filter_fd), "--info-fd", str(info_fd), "--", *command]
    return given


def _in_memory(place: str, size_bytes: int) -> list[str]:
    # Whoever made it: nobody else is in there.
    return ["--perms", "1777", "--size", str(size_bytes), "--tmpfs", place]


def _environment() -> Iterator[tuple[str, str]]:
    yield "PATH", PATH
    yield "HOME", HOME
    yield "USER", "agent"
    yield "LOGNAME", "agent"
    yield "SHELL", "/bin/bash"
    yield "LANG", "C.UTF-8"
    yield "TERM", "dumb"
    yield "TMPDIR", "/tmp"  # noqa: S108 - of the command alone


def _system(*, has_network: bool) -> list[str]:
    given: list[str] = []
    for place in map(Path, _SYSTEM):
        if place.is_symlink():
            given += ["--symlink", str(place.readlink()), str(place)]
        elif place.is_dir():
            given += ["--ro-bind", str(place), str(place)]
    for setting in (*_SETTINGS, *(_OF_NETWORKS if has_network else ())):
        # Where they lead, and not as links: what they lead to is not in there.
        given += ["--ro-bind-try", os.path.realpath(setting), setting]
    return given
