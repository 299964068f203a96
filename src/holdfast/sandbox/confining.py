"""What a command sees of the machine: the arguments of bubblewrap.

The system's programs and libraries, to be read; one folder, to be written to; a temporary folder
and a home of its own, of a bounded size, which end with it. Of `/etc`, only what programs need to
run at all: nothing that says something about this machine, its users or its keys.
"""

import os
from collections.abc import Iterator, Sequence
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

_UNSHARED: Final = ("user", "pid", "ipc", "uts", "cgroup")

USERS: Final = b"agent:x:1000:1000:agent:/home/agent:/bin/bash\n"
GROUPS: Final = b"agent:x:1000:\n"
_ID: Final = "1000"

_SHARED_MEMORY_BYTES: Final = 64 << 20


def arguments(
    bwrap: str,
    folder: str,
    command: Sequence[str],
    *,
    cwd: str,
    filter_fd: int,
    users_fd: int,
    groups_fd: int,
    info_fd: int,
    scratch_bytes: int,
    has_network: bool,
) -> list[str]:
    """Returns the command line that runs a command with a folder of its own, and nothing else."""
    given = [bwrap, *(f"--unshare-{kind}" for kind in _UNSHARED)]
    if not has_network:
        given.append("--unshare-net")
    given += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    given += ["--uid", _ID, "--gid", _ID, "--hostname", "sandbox", "--clearenv"]
    for name, value in _environment():
        given += ["--setenv", name, value]
    given += _system(has_network=has_network)
    given += ["--ro-bind-data", str(users_fd), "/etc/passwd"]
    given += ["--ro-bind-data", str(groups_fd), "/etc/group"]
    # What is in memory counts for nobody: it has an end of its own, wherever it can be written to.
    given += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"]
    given += ["--size", str(_SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108 - in there
    given += ["--remount-ro", "/dev"]
    for place in ("/tmp", HOME):  # noqa: S108 - of the command alone
        given += ["--size", str(scratch_bytes), "--tmpfs", place]
    given += ["--bind", folder, WORKSPACE, "--remount-ro", "/", "--chdir", cwd]
    given += ["--seccomp", str(filter_fd), "--info-fd", str(info_fd), "--", *command]
    return given


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
