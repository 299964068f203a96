"""Puts a whole snapshot into a directory that is new or empty, without attaching it.

Compares a directory that was just written from nothing with what it was written from.

Every folder is listed, so that nothing more is in it than what was asked for. Every file is read,
but for those that the writer itself has read back and nobody has touched since. Modes, times, the
targets of links and which names are one file are looked at as well: whatever an entry says.

What not even its owner may read is opened to the owner while it is looked at: having been made a
moment ago, it is ours.
"""

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final, Self

from holdfast.engine.core.coverage import Lacking, lacking_in
from holdfast.engine.core.paths import check_key
from holdfast.engine.files.retrieval import MapGoal, Retrieval, check_entry
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.pending.fold import lacking_at
from holdfast.engine.planes.handle import Handle, looking_at
from holdfast.engine.timeline.diff import collect_changes, iter_changes
from holdfast.engine.timeline.restore import folded_head
from holdfast.entries import Blob, Directory, Entry, Inline, Link, decode_entry, twin_of
from holdfast.errors import Damaged, DirectoryRefused, PathExists, Unavailable
from holdfast.ids import SnapshotId, object_id_of
from holdfast.model.basics import Plane, Root, SnapshotInfo
from holdfast.model.changes import Restored
from holdfast.model.files import PERMISSIONS, USUAL_DIRECTORY_MODE
from holdfast.operations.choices import SHOWN
from holdfast.progress import Progress
from holdfast.tree import iterate
from holdfast.workspace.creating import Stamp, stamp_of
from holdfast.workspace.descent import Descent, open_target, set_mode, set_mode_unopened
from holdfast.workspace.statindex import StatIndex
from holdfast.workspace.steps import Drifted, Step, split_key
from holdfast.workspace.writing import Writer

LITTER: Final = b".holdfast-checkout"

UNFINISHED: Final = LITTER + b"-unfinished"
"""A file that is in the directory until all else is: whoever finds it has a part of a snapshot."""

_SAYS: Final = "This is a part of {}: holdfast was interrupted before it had written all of it.\n"
_PART: Final = "a part of a snapshot, which was not written to its end,"
_ELSEWHERE: Final = "Name a directory that is new or empty, where you may write."


def checkout(
    handle: Handle, snapshot: SnapshotInfo | None, target: Path, *, progress: Progress
) -> Restored:
    """Writes a snapshot's files into a directory, and proves what it wrote; None for those of now.

    Raises `PathExists` if something is there. A failure leaves what was written so far, and so does
    whatever ends the process; a file in it says that it is a part.
    """
    _check_apart(handle, target)
    if snapshot is None:
        with folded_head(handle) as (_, folded):
            lacking, stands_on = lacking_at(folded), folded.head.position or SnapshotId("")
            return _put(folded.source, folded.root, target, progress, of=stands_on, lacking=lacking)
    with looking_at(handle, snapshot):
        source = StagedObjects(handle.objects)
        root, lacking = source.get_root(snapshot.root), lacking_in(snapshot)
        return _put(source, root, target, progress, of=snapshot.id, lacking=lacking)


def _put(
    source: StagedObjects,
    root: Root,
    target: Path,
    progress: Progress,
    *,
    of: SnapshotId,
    lacking: Lacking,
) -> Restored:
    """Writes the files of a root into a directory that is new or empty."""
    fd, files = _open_empty(target), root.plane(Plane.FILES)
    try:
        steps = [
            Step(check_key(key), None, check_entry(decode_entry(data)))
            for key, data in iterate(source, files)
        ]
        contents, mark = Retrieval(source), _mark(fd, steps, of)
        writer = Writer(
            fd,
            StatIndex.empty(),
            contents,
            litter=LITTER,
            goal=MapGoal(source, files),
            checks=False,
            proves=True,
            progress=lambda done, total: progress("writing", done, total),
        )
        writer.carry_out(steps)
        with suppress(FileNotFoundError):
            os.unlink(mark, dir_fd=fd)
        is_proven = is_as_written(fd, contents, steps, proven=writer.proven, progress=progress)
        found = iter_changes(source, Root(), Root().replacing(files=files))
        return Restored(
            target=of,
            snapshot=None,
            safety_id=None,
            root=object_id_of(root.encode()),
            changes=collect_changes(found, limit=SHOWN, counts=True),
            verified=is_proven,
            uncaptured=lacking.uncaptured,
            is_partial=lacking.is_partial,
            in_motion=lacking.in_motion,
        )
    except Drifted as exc:
        message = f"the snapshot contradicts itself, or {target} is changed by somebody else"
        raise Damaged(message) from exc
    except OSError as exc:
        message = f"{target} could not be written: {exc.strerror or exc}"
        raise Unavailable(message).with_hint(_ELSEWHERE) from exc
    finally:
        os.close(fd)


def _check_apart(handle: Handle, target: Path) -> None:
    """Raises `DirectoryRefused` for a place in the vault's own folders."""
    real = Path(os.path.realpath(target))
    if any(real.is_relative_to(os.path.realpath(own)) for own in handle.context.own_folders):
        raise DirectoryRefused(str(target), reason="it lies in the vault").with_hint(_ELSEWHERE)


def _open_empty(target: Path) -> int:
    try:
        target.mkdir(parents=True, exist_ok=True)
        fd = open_target(str(target))
    except OSError as exc:
        message = f"{target} cannot be made: {exc.strerror or exc}"
        raise Unavailable(message).with_hint(_ELSEWHERE) from exc
    with os.scandir(fd) as entries:
        names = [os.fsencode(entry.name) for entry in entries]
    if not names:
        return fd
    os.close(fd)
    if any(name.startswith(UNFINISHED) for name in names):
        raise PathExists(os.fsencode(target), what=_PART)
    raise PathExists(os.fsencode(target))


def _mark(fd: int, steps: Sequence[Step], of: SnapshotId) -> bytes:
    """Makes the file that says that not all is there; returns its name, which nothing else has."""
    taken, name = {step.key.partition(b"/")[0] for step in steps}, UNFINISHED
    while name in taken:
        name += b"-"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=fd), "w", encoding="utf-8") as file:
        file.write(_SAYS.format(of or "a namespace"))
    return name


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

    def __exit__(self, *_: object) -> None:
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
