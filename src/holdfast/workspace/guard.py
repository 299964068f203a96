"""Which directories are refused, and which file systems are passed over.

People have lost hundreds of gigabytes to tools that took the home directory for a project, and
hours to tools that walked a network mount on every turn. So `/`, the home directory and what
holds it, and network mounts are refused unless somebody insists. Inside a directory, other
local file systems are captured; network and pseudo file systems are skipped, with the reason.

Vaults that lie inside are left out, whatever their folder is called: a vault keeps itself. Taken
for files, one would be rolled back with what is around it, under the feet of those who use it.
"""

import os
import pwd
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from holdfast.errors import DirectoryRefused
from holdfast.workspace.steps import above

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

A_VAULT: Final = "a vault, which keeps itself"
A_PACK: Final = "a pack of a vault"
"""Why these are left out of a snapshot."""

_PACK: Final = re.compile(rb"(?:.*/)?([0-9a-z]{2})/pack-[0-9a-z]+-[0-9a-z]*\1\.pack", re.DOTALL)
"""A pack in its shard: a vault in a database has a folder of them, and nothing else."""


_OUTSIDE: Final = (
    "Choose the directory that the agent works in: a vault keeps itself, and is left out of every "
    "snapshot."
)


def check_directory(
    path: Path, *, home: Path | None, vault: Iterable[Path] = (), force: bool = False
) -> None:
    """Raises `DirectoryRefused` for a directory that should not be captured.

    With `force`, for one that never can be: a vault, or one that lies in a vault. Those of the
    `vault` that it shall be captured in are known.
    """
    real = Path(os.path.realpath(path))
    if any(real.is_relative_to(os.path.realpath(folder)) for folder in vault):
        raise DirectoryRefused(str(path), reason="it lies in the vault itself").with_hint(_OUTSIDE)
    if any(is_vault(os.fsencode(each)) for each in (real, *real.parents)):
        found = DirectoryRefused(str(path), reason="it is a vault, or lies in one")
        raise found.with_hint(_OUTSIDE)
    if not force:
        _check_usual(path, real, home)


def _check_usual(path: Path, real: Path, home: Path | None) -> None:
    """Raises for what people mean by mistake more often than not."""
    if real == Path(real.anchor):
        raise DirectoryRefused(str(path), reason="it is the root of the file system")
    for each in () if home is None else {home, _account_home() or home}:
        house = Path(os.path.realpath(each))
        if real == house:
            raise DirectoryRefused(str(path), reason="it is the home directory")
        if house.is_relative_to(real):
            raise DirectoryRefused(str(path), reason="the home directory lies in it")
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


def is_vault(path: bytes, folder_fd: int | None = None) -> bool:
    """Says whether a folder is a vault, or what is left of one: by its locks, and what they lock.

    One call of the system for a folder that is none.
    """
    if not stat.S_ISREG(_mode_of(path + b"/locks/open", folder_fd)):
        return False
    return stat.S_ISREG(_mode_of(path + b"/catalog.sqlite", folder_fd)) or stat.S_ISDIR(
        _mode_of(path + b"/packs", folder_fd)
    )


def is_pack(path: bytes) -> bool:
    """Says whether a path is that of a pack, by its name alone."""
    return path.endswith(b".pack") and _PACK.fullmatch(path) is not None


class Vaults:
    """The vaults that lie in a directory now; each folder is looked at once."""

    def __init__(self, root_fd: int) -> None:
        self._root_fd = root_fd
        self._known = {b"": False}

    def hold(self, path: bytes) -> bool:
        """Says whether a folder is a vault, or lies in one."""
        # From above, and not by calling itself: a path may have two thousand parts.
        unknown = [path]
        while unknown[-1] not in self._known:
            unknown.append(above(unknown[-1]))
        found = self._known[unknown.pop()]
        for folder in reversed(unknown):
            found = self._known[folder] = found or self._is_vault(folder)
        return found

    def _is_vault(self, folder: bytes) -> bool:
        if not is_vault(folder, self._root_fd):
            return False
        # A link may lead to a vault that lies elsewhere: what is at its place is no part of that.
        parts = folder.split(b"/")
        on_the_way = (b"/".join(parts[:count]) for count in range(1, len(parts) + 1))
        return all(stat.S_ISDIR(_mode_of(part, self._root_fd)) for part in on_the_way)


def _mode_of(path: bytes, folder_fd: int | None) -> int:
    try:
        return os.stat(path, dir_fd=folder_fd, follow_symlinks=False).st_mode
    except OSError:
        return 0


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
