"""Compares a directory that was just written from nothing with what it was written from.

Every folder is listed, so that nothing more is in it than what was asked for. Every file is read,
but for those that the writer itself has read back and nobody has touched since. Modes, times, the
targets of links and which names are one file are looked at as well: whatever an entry says.

What not even its owner may read is opened to the owner while it is looked at: having been made a
moment ago, it is ours.
"""

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from io import FileIO
from types import TracebackType
from typing import Self

from holdfast.engine.directory.retrieval import Retrieval
from holdfast.entries import Blob, Directory, Entry, Inline, Link, twin_of
from holdfast.model.files import USUAL_DIRECTORY_MODE
from holdfast.progress import Progress
from holdfast.workspace.creating import Stamp, stamp_of
from holdfast.workspace.descent import Descent, set_mode, set_mode_unopened
from holdfast.workspace.steps import Step, split_key
from holdfast.workspace.writing import PERMISSIONS

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def is_as_written(
    root_fd: int,
    contents: Retrieval,
    steps: Sequence[Step],
    *,
    proven: Mapping[bytes, Stamp],
    progress: Progress,
) -> bool:
    """Says whether a directory is what these steps, all of them, made of an empty one.

    `proven` files were read back when they were made: they are still the same if nothing has
    moved their time of change.
    """
    folders, done = _by_folder(steps), 0
    reader = _Reader(contents, proven)
    try:
        with Descent(root_fd) as descent, _Opening(descent) as opening:
            for path in sorted(folders):
                try:
                    is_same = reader.is_folder(descent.open(path), path, folders[path])
                except PermissionError:
                    opening.open_up(path)
                    is_same = reader.is_folder(descent.open(path), path, folders[path])
                if not is_same:
                    return False
                done += len(folders[path])
                progress("comparing", min(done, len(steps)), len(steps))
    except OSError:
        return False
    return True


class _Opening:
    """Opens folders to their owner, and gives them their modes back."""

    def __init__(self, descent: Descent) -> None:
        self._descent = descent
        self._modes: dict[bytes, int] = {}

    def open_up(self, path: bytes) -> None:
        """Lets the owner list a folder and enter it."""
        folder, name = split_key(path)
        fd = self._descent.open(folder)
        mode = self._modes[path] = stat.S_IMODE(os.lstat(name, dir_fd=fd).st_mode)
        set_mode(name, fd, mode | stat.S_IRUSR | stat.S_IXUSR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        # What lies in another folder first: afterwards nobody gets there.
        for path in sorted(self._modes, reverse=True):
            folder, name = split_key(path)
            set_mode(name, self._descent.open(folder), self._modes[path])


class _Reader:
    """Compares folder by folder, and remembers which names are one file."""

    def __init__(self, contents: Retrieval, proven: Mapping[bytes, Stamp]) -> None:
        self._contents = contents
        self._proven = proven
        self._numbers: dict[bytes, int] = {}
        self._groups: dict[int, bytes] = {}

    def is_folder(self, fd: int, path: bytes, wanted: Mapping[bytes, Entry]) -> bool:
        """Says whether in a folder is what is wanted, and nothing more."""
        with os.scandir(fd) as found:
            names = {os.fsencode(each.name) for each in found}
        if names != set(wanted):
            return False
        before = path + b"/" if path else b""
        return all(self._is(fd, name, before + name, entry) for name, entry in wanted.items())

    def _is(self, fd: int, name: bytes, key: bytes, entry: Entry) -> bool:
        state = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if isinstance(entry, Directory):
            return (
                stat.S_ISDIR(state.st_mode)
                and stat.S_IMODE(state.st_mode) == entry.mode & PERMISSIONS
            )
        if isinstance(entry, Link):
            return (
                stat.S_ISLNK(state.st_mode)
                and os.readlink(name, dir_fd=fd) == entry.target
                and state.st_mtime_ns == entry.mtime_ns
            )
        if not isinstance(entry, Inline | Blob) or not self._is_one_of(state, key, entry):
            return False
        if known := self._proven.get(key):
            return stamp_of(state) == known
        return self._is_file(fd, name, entry)

    def _is_one_of(self, state: os.stat_result, key: bytes, entry: Entry) -> bool:
        """Says whether a name is one file with the names that it shall be, and with no others."""
        first, number = twin_of(entry) or key, state.st_ino
        if state.st_nlink == 1:
            return not twin_of(entry)
        is_same = self._numbers.setdefault(first, number) == number
        return is_same and self._groups.setdefault(number, first) == first

    def _is_file(self, fd: int, name: bytes, entry: Inline | Blob) -> bool:
        with FileIO(_open_file(name, fd)) as file:
            state = os.fstat(file.fileno())
            return (
                stat.S_ISREG(state.st_mode)
                and state.st_size == entry.size
                and stat.S_IMODE(state.st_mode) == entry.mode & PERMISSIONS
                and state.st_mtime_ns == entry.mtime_ns
                and self._contents.is_content(file, entry)
            )


def _open_file(name: bytes, fd: int) -> int:
    try:
        return os.open(name, _READ, dir_fd=fd)
    except PermissionError:
        mode = stat.S_IMODE(os.lstat(name, dir_fd=fd).st_mode)
        set_mode_unopened(name, fd, mode | stat.S_IRUSR)
        try:
            return os.open(name, _READ, dir_fd=fd)
        finally:
            set_mode_unopened(name, fd, mode)


def _by_folder(steps: Iterable[Step]) -> Mapping[bytes, dict[bytes, Entry]]:
    """Returns what is to be in each folder; one without an entry has the usual mode."""
    folders: dict[bytes, dict[bytes, Entry]] = {b"": {}}
    for step in steps:
        if step.new is None:
            continue
        key, entry = step.key, step.new
        if isinstance(entry, Directory):
            folders.setdefault(key, {})
        while (place := split_key(key))[0] not in folders:
            folders[place[0]] = {place[1]: entry}
            key, entry = place[0], Directory(USUAL_DIRECTORY_MODE)
        # A folder that has an entry of its own comes before what is in it.
        folders[place[0]].setdefault(place[1], entry)
    return folders
