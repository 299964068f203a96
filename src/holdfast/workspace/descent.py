"""Opens folders below a root, one name at a time, and never through a link.

A path such as `a/b/c` is not handed to the kernel whole: between a check and its use somebody
could put a link in the place of `a`. Each part is opened relative to the folder before it, with
`O_NOFOLLOW`; a part that is a link, or no folder, is an error. What has been opened stands for
the folder itself, whatever happens to its name meanwhile.

Folders are mostly asked for in order, so the way to the last one is kept open: the next one
costs as many calls as it has parts that differ.
"""

import errno
import os
import stat
from contextlib import suppress
from typing import Final, Self

OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_WITHOUT_OPENING: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_ON_THE_WAY: Final = _WITHOUT_OPENING | os.O_DIRECTORY
"""Folders above may be ones that we may pass through and not list."""

_NO_NAMES: Final = frozenset({b"", b".", b".."})


class Descent:
    """Folders below one root. Belongs to one thread at a time."""

    def __init__(self, root_fd: int) -> None:
        self._root_fd = root_fd
        self._names: list[bytes] = []
        self._fds: list[int] = []
        self._failed = b""
        self._path: bytes | None = None

    def open(self, path: bytes) -> int:
        """Returns a descriptor of a folder, good until the next call.

        Raises `FileNotFoundError` or `NotADirectoryError`, also for a link (`ELOOP` becomes
        `NotADirectoryError`), or another `OSError`.
        """
        if path == self._path:
            return self.current
        names = path.split(b"/") if path else []
        self._path = None
        same = 0
        for have, want in zip(self._names, names, strict=False):
            if have != want:
                break
            same += 1
        self._close_from(same)
        for depth, name in enumerate(names[same:], start=same + 1):
            self._failed = b"/".join(names[:depth])
            self._fds.append(open_folder(name, self.current))
            self._names.append(name)
        self._path = path
        return self.current

    def is_there(self, path: bytes) -> bool:
        """Says whether something has this path; what nobody may look at is not gone."""
        folder, _, name = path.rpartition(b"/")
        try:
            os.lstat(name, dir_fd=self.open(folder))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return True

    @property
    def current(self) -> int:
        """The folder that was opened last; the root at first."""
        return self._fds[-1] if self._fds else self._root_fd

    @property
    def reached(self) -> bytes:
        """After a failed `open`: the part of the path that could not be opened."""
        return self._failed

    def forget(self) -> None:
        """Closes what is kept open: folders may have been moved or replaced since."""
        self._close_from(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()

    def _close_from(self, depth: int) -> None:
        self._path = None
        while len(self._fds) > depth:
            self._names.pop()
            os.close(self._fds.pop())


def open_folder(name: bytes, folder_fd: int) -> int:
    """Opens one folder inside another; a link in its place is `NotADirectoryError`."""
    return _open_part(name, folder_fd, OPEN_FOLDER)


def set_mode(name: bytes, folder_fd: int, mode: int) -> None:
    """Sets the permissions of a folder inside another, also of one that nobody may enter."""
    try:
        fd = open_folder(name, folder_fd)
    except PermissionError:
        set_mode_unopened(name, folder_fd, mode)
        return
    try:
        # One of somebody else's cannot be given a mode, and need not be if it has that one.
        if stat.S_IMODE(os.fstat(fd).st_mode) != mode:
            os.fchmod(fd, mode)
    finally:
        os.close(fd)


def set_mode_unopened(name: bytes, folder_fd: int, mode: int) -> None:
    """Sets the permissions of a file or folder that we may not open; a link is an `OSError`."""
    fd = _open_part(name, folder_fd, _WITHOUT_OPENING)
    try:
        # All that can be done with such a descriptor is to name it.
        os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)


def open_up(root_fd: int, path: bytes) -> None:
    """Gives the owner the right to read and change a file, or a folder with all that is in it.

    What is not ours stays as it is; links are not followed.
    """
    todo = [path]
    with Descent(root_fd) as descent:
        while todo:
            key = todo.pop()
            folder, _, name = key.rpartition(b"/")
            with suppress(OSError):
                fd = descent.open(folder)
                mode = os.lstat(name, dir_fd=fd).st_mode
                if stat.S_ISDIR(mode):
                    set_mode(name, fd, stat.S_IMODE(mode) | stat.S_IRWXU)
                    todo += [
                        key + b"/" + os.fsencode(each) for each in os.listdir(descent.open(key))
                    ]
                elif stat.S_ISREG(mode):
                    set_mode_unopened(name, fd, stat.S_IMODE(mode) | stat.S_IRUSR | stat.S_IWUSR)


def is_link_error(exc: OSError) -> bool:
    """Says whether an open failed because of `O_NOFOLLOW`: systems differ in the number."""
    return exc.errno in (errno.ELOOP, errno.EMLINK)


def open_root(path: str) -> int:
    """Opens a directory by its real path, part by part: a link on the way is not followed.

    Raises `NotADirectoryError` for one: the path was real when the directory was attached, so
    somebody has put the link there since.
    """
    fd = os.open("/", _OPEN_ON_THE_WAY)
    *parents, last = [part for part in os.fsencode(path).split(b"/") if part]
    try:
        for name in parents:
            above, fd = fd, _open_part(name, fd, _OPEN_ON_THE_WAY)
            os.close(above)
        return _open_part(last, fd, OPEN_FOLDER)
    finally:
        os.close(fd)


def make_root(path: str, *, mode: int | None) -> None:
    """Makes a directory that is gone at its real path, and what is gone of its parents.

    Raises `NotADirectoryError` if a link or a file is in its place, or on the way.
    """
    fd = os.open("/", _OPEN_ON_THE_WAY)
    *parents, last = [part for part in os.fsencode(path).split(b"/") if part]
    try:
        for name in parents:
            above, fd = fd, _made_part(name, fd, _OPEN_ON_THE_WAY, mode=0o777)
            os.close(above)
        # Nobody looks into it before it has its own mode.
        made = _made_part(last, fd, OPEN_FOLDER, mode=0o777 if mode is None else 0o700)
        try:
            if mode is not None:
                os.fchmod(made, mode)
        finally:
            os.close(made)
    finally:
        os.close(fd)


def open_target(path: str) -> int:
    """Opens a directory that the user has just named; links in the path are the user's own."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _made_part(name: bytes, folder_fd: int, flags: int, *, mode: int) -> int:
    try:
        return _open_part(name, folder_fd, flags)
    except FileNotFoundError:
        with suppress(FileExistsError):  # Somebody else was first: what it is shows below.
            os.mkdir(name, mode, dir_fd=folder_fd)
        return _open_part(name, folder_fd, flags)


def _open_part(name: bytes, folder_fd: int, flags: int) -> int:
    if name in _NO_NAMES or b"/" in name or b"\0" in name:
        raise NotADirectoryError(errno.ENOTDIR, "it is not the name of one folder", name)
    try:
        return os.open(name, flags, dir_fd=folder_fd)
    except OSError as exc:
        if is_link_error(exc):
            raise NotADirectoryError(exc.errno, "a link is in its place", name) from exc
        raise
