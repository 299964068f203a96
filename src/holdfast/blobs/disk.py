"""Blobs as files in a directory: `root/<last two characters of the name>/<name>.pack`.

A blob comes into being in four steps, and the order is the promise:

1. its bytes are written to a file of their own, `<name>.<random>.tmp`,
2. and synced, so that the name can never stand for less than all of them;
3. the file is renamed to `<name>.pack`, which happens whole or not at all;
4. the directory is synced, so that the name is still there after a power cut.

A process that dies in between leaves a `.tmp` file. Readers never look at those; `iter_names`
shows them under their name, `delete` removes them. Each put has a temporary file of its own,
as two that shared one could rename each other's half-written bytes.

Files are opened for each read. Keeping them open was measured: 3 µs saved of the 180 that
reading one object takes, not worth a cache that has to know what other processes delete.
"""

# System calls are spelled as such: their order is the promise above, and the tests make each
# of them fail in turn.

import contextlib
import errno
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.blobs.port import MARK, check_name, is_blob_name, length_of_range, other_bytes
from holdfast.errors import (
    PackDamaged,
    PackMissing,
    Unavailable,
)
from holdfast.errors.system import translated

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_MODE: Final = 0o600
_DIRECTORY_MODE: Final = 0o700

_BELIEVED_S: Final = 60.0
"""How long a file that was long enough is believed to be so."""

_TICK_NS: Final = 2_000_000_000
"""A file system may tell two moments apart only if they are so far from each other."""


class _Whole(NamedTuple):
    """The files of a shard that were long enough, while the shard had this time."""

    stamp: int
    since: float
    names: frozenset[str]


class DiskBlobStore:
    """A `BlobStore` of one file per blob, readable by the owner alone."""

    is_remote = False

    def __init__(self, root: Path) -> None:
        """Opens the directory, making it (and what leads to it) durably if need be."""
        self._root = os.path.abspath(root)
        # Shards whose own name is known to be durable.
        self._durable_shards: set[str] = set()
        self._whole: dict[str, _Whole] = {}
        with translated("the blob directory"):
            _make_directory(self._root)
            # Also when it was there: another process may have made it a moment ago and not
            # yet synced it. A parent that we may not read is the operator's own making.
            with contextlib.suppress(PermissionError):
                _sync_directory(os.path.dirname(self._root), is_for_readers=True)

    def put(self, name: str, data: bytes, /) -> None:
        """Stores the bytes under the name, in the four steps above."""
        check_name(name)
        shard = self._shard(name)
        temporary = f"{shard}/{name}.{os.urandom(8).hex()}.tmp"
        with translated(f"blob {name}"):
            self._make_shard(shard)
            path = f"{shard}/{name}.pack"
            # A link that somebody has left there is replaced, and not followed.
            if os.path.isfile(path) and not os.path.islink(path) and self.get(name) != data:
                raise other_bytes(name)
            try:
                _write_synced(temporary, data)
                os.rename(temporary, path)
            except OSError:
                # If the shard is what is gone, a second try makes it again.
                self._durable_shards.discard(shard)
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
            _sync_directory(shard)

    def get(self, name: str, /, *, start: int = 0, length: int | None = None) -> bytes:
        """Returns exactly the range that was asked for, or raises."""
        path = self._path(name)
        with translated(f"blob {name}"):
            try:
                descriptor = os.open(path, _READ)
            except FileNotFoundError:
                raise self._missing(name) from None
            try:
                size = os.fstat(descriptor).st_size
                wanted = length_of_range(name, size=size, start=start, length=length)
                data = _read(descriptor, start=start, length=wanted)
            finally:
                os.close(descriptor)
        if len(data) != wanted:
            raise PackDamaged(name, reason="it became shorter while it was read")
        return data

    def expect(self, ranges: Iterable[tuple[str, int, int]], /) -> None:
        """Does nothing: a disk is read faster than it could be told."""

    def size(self, name: str, /) -> int:
        """Returns the number of bytes."""
        path = self._path(name)
        with translated(f"blob {name}"):
            try:
                return os.stat(path, follow_symlinks=False).st_size
            except FileNotFoundError:
                raise self._missing(name) from None

    def find_short(self, expected: Mapping[str, int], /) -> dict[str, int]:
        """Returns those that are shorter than expected, or not there.

        A look at a file takes 10 µs, and there may be ten thousand. A shard's own time says
        whether files came or went: what was whole in one that has not changed since is only
        looked at again after a minute, as what was cut in place changes nothing there.
        """
        usable = [name for name in expected if is_blob_name(name)]
        short = dict.fromkeys(expected.keys() - {*usable}, 0)
        with translated("the blob directory"):
            for shard, names in groupby(sorted(usable, key=self._shard), key=self._shard):
                short |= self._short_in(shard, {name: expected[name] for name in names})
        for name in short:
            if isinstance(error := self._missing(name), Unavailable):
                raise error
            break
        return short

    def _short_in(self, shard: str, expected: Mapping[str, int]) -> dict[str, int]:
        try:
            stamp = os.stat(shard).st_mtime_ns
        except FileNotFoundError:
            return dict.fromkeys(expected, 0)
        now = time.monotonic()
        known = self._whole.get(shard)
        if known is None or known.stamp != stamp or now - known.since > _BELIEVED_S:
            known = _Whole(stamp, now, frozenset())
        found: dict[str, int] = {}
        for name in expected.keys() - known.names:
            try:
                found[name] = os.stat(f"{shard}/{name}.pack", follow_symlinks=False).st_size
            except FileNotFoundError:
                found[name] = 0
        short = {name: size for name, size in found.items() if size < expected[name]}
        if found and time.time_ns() - stamp > _TICK_NS:
            self._whole[shard] = known._replace(names=known.names | (found.keys() - short.keys()))
        return short

    def delete(self, name: str, /) -> None:
        """Removes the file, and the temporary files of interrupted puts."""
        if not is_blob_name(name):
            return
        path = self._path(name)
        with translated(f"blob {name}"):
            _unlink(path)
            # In a shard are a few dozen files: 1,024 shards share packs of 32 MB each.
            for entry in _entries(self._shard(name)):
                if _blob_name(entry.name) == name:
                    _unlink(entry.path)

    def iter_names(self) -> Iterator[tuple[str, int]]:
        """Yields every name once, with the bytes of all its files."""
        # A root that is gone is an error, not an empty store: somebody would believe it.
        with translated("the blob directory"), os.scandir(self._root) as entries:
            shards = list(entries)
        for shard in shards:
            with translated("the blob directory"):
                sizes = _sizes_in(shard)
            yield from sizes.items()

    def free_bytes(self) -> int | None:
        """Returns the room that the file system has left for this user."""
        with translated("the blob directory"):
            state = os.statvfs(self._root)
        return state.f_bavail * state.f_frsize

    def find_mark(self) -> bytes | None:
        """Returns what is in the file, or None without one."""
        with translated("the blob directory"):
            try:
                descriptor = os.open(f"{self._root}/{MARK}", _READ)
            except FileNotFoundError:
                return None
            try:
                return _read(descriptor, start=0, length=os.fstat(descriptor).st_size)
            finally:
                os.close(descriptor)

    def put_mark(self, data: bytes, /) -> None:
        """Makes the file, unless it is there."""
        path = f"{self._root}/{MARK}"
        temporary = f"{path}.{os.urandom(8).hex()}.tmp"
        with translated("the blob directory"):
            _write_synced(temporary, data)
            try:
                # Not renamed: of two that do this at once, the second finds the first's.
                os.link(temporary, path)
            except FileExistsError:
                pass
            except OSError:
                # A file system without second names: somebody who shares it has another.
                if not os.path.lexists(path):
                    os.rename(temporary, path)
            finally:
                _unlink(temporary)
            _sync_directory(self._root)

    def remove_mark(self, data: bytes, /) -> None:
        """Removes the file, if this is in it."""
        if self.find_mark() == data:
            with translated("the blob directory"):
                _unlink(f"{self._root}/{MARK}")
                _sync_directory(self._root)

    def uncached(self) -> "DiskBlobStore":
        """Returns itself: what caches there are, are the system's."""
        return self

    def forget(self, name: str | None = None, /) -> None:
        """Has nothing to let go of."""

    def _shard(self, name: str) -> str:
        return f"{self._root}/{name[-2:]}"

    def _path(self, name: str) -> str:
        if not is_blob_name(name):
            raise self._missing(name)
        return f"{self._shard(name)}/{name}.pack"

    def _make_shard(self, shard: str) -> None:
        # The root is synced even when somebody else has made the shard: they may not have
        # come to syncing it, and a power cut would take the shard with our blob in it.
        if shard not in self._durable_shards:
            with contextlib.suppress(FileExistsError):
                os.mkdir(shard, _DIRECTORY_MODE)
            _sync_directory(self._root)
            self._durable_shards.add(shard)

    def _missing(self, name: str) -> PackMissing | Unavailable:
        # A disk that is not mounted has lost nothing: that is no damage.
        if os.path.isdir(self._root):
            return PackMissing(name)
        return Unavailable(f"blob {name}: the blob directory {self._root} is not there")


def _write_synced(path: str, data: bytes) -> None:
    """Writes a new file; its bytes are on the disk when this returns."""
    descriptor = os.open(path, _CREATE, _FILE_MODE)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(descriptor: int, *, start: int, length: int) -> bytes:
    """Returns that many bytes, or fewer if the file ends: one call may return only a part."""
    data = os.pread(descriptor, length, start)
    if len(data) == length:
        return data
    parts = [data]
    while parts[-1]:
        start += len(parts[-1])
        length -= len(parts[-1])
        parts.append(os.pread(descriptor, length, start))
    return b"".join(parts)


def _sync_directory(path: str, *, is_for_readers: bool = False) -> None:
    """Makes the names in a directory durable; who only reads may have none to make so."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as exc:
        # A disk that turned read-only says so here, and has nothing to write.
        if not (is_for_readers and exc.errno == errno.EROFS):
            raise
    finally:
        os.close(descriptor)


def _make_directory(path: str) -> None:
    """Makes a directory and what leads to it, each synced into the one above."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    _make_directory(parent)
    try:
        os.mkdir(path, _DIRECTORY_MODE)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    _sync_directory(parent)


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _entries(path: str) -> "list[os.DirEntry[str]]":
    """Returns what is in a directory: nothing, if it is none or has gone."""
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _sizes_in(shard: "os.DirEntry[str]") -> Counter[str]:
    """Returns the bytes per name in one shard; passes over files that are not ours."""
    sizes: Counter[str] = Counter()
    for entry in _entries(shard.path):
        name = _blob_name(entry.name)
        if name is None or name[-2:] != shard.name:
            continue
        # Deleted since it was listed: then it is not there.
        with contextlib.suppress(FileNotFoundError):
            sizes[name] += entry.stat(follow_symlinks=False).st_size
    return sizes


def _blob_name(file_name: str) -> str | None:
    """Returns the name of the blob that a file is, or is a remnant of; None for others."""
    name, _, kind = file_name.partition(".")
    is_ours = kind == "pack" or kind.endswith(".tmp")
    return name if is_ours and is_blob_name(name) else None
