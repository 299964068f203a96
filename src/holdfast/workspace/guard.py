"""Which directories are refused, and which file systems are passed over.

People have lost hundreds of gigabytes to tools that took the home directory for a project, and
hours to tools that walked a network mount on every turn. So `/`, the home directory and what
holds it, and network mounts are refused unless somebody insists. Inside a directory, other
local file systems are captured; network and pseudo file systems are skipped, with the reason.
"""

import os
import pwd
from pathlib import Path
from typing import Final

from holdfast.errors import DirectoryRefused

_NETWORK: Final = frozenset(
    {"9p", "afs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "lustre", "ncpfs", "nfs"}
    | {"nfs4", "ocfs2", "orangefs", "smb2", "smb3", "smbfs", "virtiofs"}
)
_PSEUDO: Final = frozenset(
    {"autofs", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs"}
    | {"fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "securityfs", "sysfs", "tracefs"}
)
_REMOTE_FUSE: Final = (
    "sshfs",
    "s3fs",
    "rclone",
    "gcsfuse",
    "goofys",
    "davfs",
    "curlftpfs",
    "mount-s3",
)


def check_directory(path: Path, *, home: Path | None, vault: Path | None) -> None:
    """Raises `DirectoryRefused` for a directory that should not be captured."""
    real = Path(os.path.realpath(path))
    if real == Path(real.anchor):
        raise DirectoryRefused(str(path), reason="it is the root of the file system")
    for each in () if home is None else {home, _account_home() or home}:
        house = Path(os.path.realpath(each))
        if real == house:
            raise DirectoryRefused(str(path), reason="it is the home directory")
        if house.is_relative_to(real):
            raise DirectoryRefused(str(path), reason="the home directory lies in it")
    if vault is not None and real.is_relative_to(os.path.realpath(vault)):
        raise DirectoryRefused(str(path), reason="it lies in the vault itself")
    kind = _kinds().get(os.stat(real).st_dev)
    if kind is not None and _is_network(kind):
        raise DirectoryRefused(str(path), reason=f"it is on a network mount ({kind})")


def find_home() -> Path | None:
    """Returns the home directory of whoever runs this, as the environment names it."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def _account_home() -> Path | None:
    """Returns the home directory that the system's own records say, whatever HOME is."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return None


def describe_mount(device: int) -> str | None:
    """Returns why another file system inside a directory is skipped; None if it is not."""
    kind = _kinds().get(device)
    if kind is None:
        return None
    if _is_network(kind):
        return f"a network mount ({kind})"
    return f"a file system without files of its own ({kind})" if kind in _PSEUDO else None


def _is_network(kind: str) -> bool:
    return kind in _NETWORK or (
        kind.startswith("fuse.") and kind.removeprefix("fuse.").startswith(_REMOTE_FUSE)
    )


def _kinds() -> dict[int, str]:
    """Returns the kind of file system of each device that is mounted, where that can be asked."""
    kinds: dict[int, str] = {}
    try:
        with open("/proc/self/mountinfo", "rb") as table:
            lines = table.read().splitlines()
    except OSError:
        return kinds
    for line in lines:
        before, _, after = line.partition(b" - ")
        fields, about = before.split(b" "), after.split(b" ")
        if len(fields) > 2 and about:  # noqa: PLR2004 - the third field is major:minor
            major, _, minor = fields[2].partition(b":")
            if major.isdigit() and minor.isdigit():
                kinds[os.makedev(int(major), int(minor))] = about[0].decode("ascii", "replace")
    return kinds
