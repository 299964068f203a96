"""The stat index: what a directory looked like when its content was last read.

It answers one question, and never wrongly: what may have changed since? `check` looks at all
that is known and says what differs; whatever it does not name is as it was. A row whose stat
was taken too close to its last change to be proof, or while somebody could write to the file, is
*unsure* (see `settled`, and `resting.py`) and always named.

An index does not change: `replacing` makes a new one, and copies the runs of folders between
those it replaces without looking into them. It is a cache. `load` gives None for anything that
is not exactly what `save` wrote, and the caller then lists and reads the whole directory again.

Modules: `statformat` (the bytes), `statcheck` (the pass over the
directory, in Python and C).
Not here: which files are captured, listing, reading.

Makes the bytes of a new stat index out of an old one.

Between the folders that are replaced, the old bytes are copied as they are, in runs: what a new
index costs is what changed, and one pass of `memcpy`.
"""

# for pathlib

import errno
import os
import stat
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import compress
from typing import Final, NamedTuple, Self

from blake3 import blake3

from holdfast.workspace.resting import TICK_MARGIN_NS
from holdfast.workspace.statcheck import CHANGED, LOST, SHUT, flag_differences
from holdfast.workspace.statformat import (
    COUNTS,
    FOLDER,
    HEAD_BYTES,
    MAGIC,
    META_AT,
    ROW,
    TABLE_ROW,
    UNSURE,
    Folder,
    IndexBytes,
    Row,
    count_rows,
    decode_folder,
    encode_folder,
    inodes_of,
    is_unsure,
    links_of,
    modes_of,
    open_record,
    order_of,
    path_at,
    split_names,
    unsure,
)

__all__ = [
    "UNSURE",
    "Checked",
    "Folder",
    "Row",
    "StatIndex",
    "adopt_temporary",
    "is_unsure",
    "remove_temporaries",
    "settled",
    "unsure",
]

_TEMPORARY: Final = ".tmp"

_SECOND: Final = 1_000_000_000

_MOST_OPENED: Final = 64
_MOST_ROWS_OPENED: Final = 256
"""What is kept of folders once they were decoded: 4 MB at the most."""

_WHOLE_SECONDS_MARGIN_NS: Final = 2 * _SECOND
"""For file systems that keep whole seconds, or every other one (FAT)."""


def settled(ctime_ns: int, *, read_at_ns: int, margin_ns: int = TICK_MARGIN_NS) -> int:
    """Returns the ctime if it proves that nothing changed later, or else that it is unsure.

    `read_at_ns` is `time.time_ns()`, taken before the `lstat` that gave the ctime, which itself
    came before reading (for a folder: before listing). A change after that moment gets a stamp
    no earlier than the moment less the clock's grain. So a ctime further back than that can only
    belong to what was read; a later one might also be the stamp of a change that came after it.
    With another `margin_ns` for who knows the clock better, or has reason to wait longer.

    Holds as long as files are stamped by this machine's clock and nobody sets that back. A ctime
    in the future is unsure until its time has come, and so is one before 1970.
    """
    # One file in a billion has such a stamp by chance, and is merely read again.
    whole = ctime_ns % _SECOND == 0
    margin_ns = max(margin_ns, _WHOLE_SECONDS_MARGIN_NS) if whole else margin_ns
    return ctime_ns if ctime_ns + margin_ns < read_at_ns else unsure(ctime_ns)


class Checked(NamedTuple):
    """What differs from the index, ascending by bytes. Whatever is not named is as it was."""

    folders: list[bytes]
    """IndexBytes folders that have another stat, or are no longer the folder that was known: gone,
    replaced, a link, shut to us. What was known below one that cannot be opened is named too."""
    rows: list[tuple[bytes, bytes]]
    """Folder and name of known rows that have another stat or are gone. Those of a folder that
    is no longer the one known are not named: there is nothing to compare them with."""
    lost: frozenset[bytes] = frozenset()
    """Of the folders, those that are no longer the one known."""


class StatIndex:
    """What is known of a directory. Immutable, and safe to use from many threads."""

    __slots__ = ("_known", "_linked", "_opened", "_places", "meta")

    meta: bytes
    """The caller's own bytes, kept with the index."""

    def __init__(self, data: bytes, *, linked: frozenset[bytes] | None = None) -> None:
        """Takes over the bytes of an index; its head is `load`'s and `save`'s business.

        `linked`: what `find_linked` is to say, if that is known. `ValueError`: the parts do not
        add up to the whole.
        """
        self._known = IndexBytes.of(data)
        self._linked = linked
        self._opened: dict[bytes, Folder] = {}
        self._places: dict[bytes, int] = {}
        self.meta = data[META_AT : self._known.table_at]

    @classmethod
    def empty(cls) -> Self:
        """Returns an index that knows nothing."""
        return cls(bytes(META_AT))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self | None:
        """Returns the index that was saved there, or None.

        None for whatever is not a whole index of this layout: missing, torn, damaged, old. It is
        read, not mapped: the bytes that passed the checksum are the ones that are used, whatever
        happens to the file.
        """
        try:
            with open(path, "rb", buffering=0) as file:
                data = file.read()
        except OSError:
            return None
        if not data.startswith(MAGIC) or data[len(MAGIC) : HEAD_BYTES] != _digest(data):
            return None
        try:
            return cls(data)
        except ValueError:
            return None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to a file of its own and renames that; `OSError` if it cannot.

        Nothing is synced: after a power cut the checksum tells whether all of it is there. A
        process that is killed in between leaves a file for `remove_temporaries`.
        """
        data = self._known.data
        temporary = f"{os.fspath(path)}.{os.urandom(8).hex()}{_TEMPORARY}"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            try:
                _write(fd, MAGIC + _digest(data))
                _write(fd, memoryview(data)[HEAD_BYTES:])
            finally:
                os.close(fd)
            # Not over the old one: ext4 would write all of the new one out at once, to be safe.
            with suppress(FileNotFoundError):
                os.unlink(path)
            os.rename(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise

    def __len__(self) -> int:
        return self._known.folder_count + self._known.row_count

    def totals(self) -> tuple[int, int]:
        """Returns how many files and links are known, and the bytes of the files."""
        return self._known.files, self._known.file_bytes

    def find(self, path: bytes) -> Folder | None:
        """Returns the folder, or None if it is not known."""
        if path in self._opened:
            return self._opened[path]
        place = self._place_of(path)
        if place is None:
            return None
        folder = decode_folder(self._known.data, self._known.offsets[place])
        # One look asks for each folder that has changed several times.
        if len(folder.rows) <= _MOST_ROWS_OPENED and len(self._opened) < _MOST_OPENED:
            self._opened[path] = folder
        return folder

    def iter_folders(self, under: bytes = b"") -> Iterator[Folder]:
        """Yields the folder and all that are known below it, each before those below it."""
        data, offsets = self._known.data, self._known.offsets
        for place in self._places_under(under):
            yield decode_folder(data, offsets[place])

    def find_files(self, path: bytes) -> frozenset[bytes]:
        """Returns the names of the files that are known in a folder."""
        place = self._place_of(path)
        if place is None:
            return frozenset()
        record = open_record(self._known.data, self._known.offsets[place])
        return frozenset(compress(split_names(record.names), map(stat.S_ISREG, modes_of(record))))

    def find_linked(self) -> frozenset[bytes]:
        """Returns the folders that have files with several names, which may be anywhere."""
        if self._linked is None:
            data, offsets = self._known.data, self._known.offsets[:-1]
            records = (open_record(data, offset) for offset in offsets)
            self._linked = frozenset(r.path for r in records if max(links_of(r), default=0) > 1)
        return self._linked

    def iter_holding(self, inodes: Collection[int]) -> Iterator[Folder]:
        """Yields the folders in which one of these inodes is known."""
        data, wanted = self._known.data, frozenset(inodes)
        for offset in self._known.offsets[:-1]:
            if not wanted.isdisjoint(inodes_of(open_record(data, offset))):
                yield decode_folder(data, offset)

    def check(
        self, root_fd: int, *, only: Iterable[bytes] | None = None, use_c: bool | None = None
    ) -> Checked:
        """Looks at all that is known of the directory and returns what differs.

        `only`: looks at these folders and their rows alone; those that are not known do not
        matter. Whether a link now leads to one of them shows only if the folder that became the
        link is among them. `use_c`: see `flag_differences`.
        """
        places: Sequence[int] = range(self._known.folder_count)
        if only is not None:
            found = {self._place_of(path) for path in only}
            places = sorted(place for place in found if place is not None)
        flags = flag_differences(
            self._known, root_fd, only=None if only is None else places, use_c=use_c
        )
        self._lose_what_is_below(places, flags)
        return self._checked(flags)

    def replacing(self, changed: Mapping[bytes, Folder | None], *, meta: bytes) -> Self:
        """Returns an index with these folders put, or (None) taken out with all below them.

        What is taken out goes first: a folder that is put stays, even below one taken out. That
        a parent names its folders is the caller's to see to. `ValueError`: a folder is not under
        its own path, or has a name or an order that no directory can have.
        """
        copy = Copy(self._known)
        for path in sorted(changed, key=order_of):
            folder = changed[path]
            if folder is None:
                copy.skip(self._places_under(path))
                continue
            if folder.path != path:
                raise ValueError(f"the folder at {path!r} says that it is {folder.path!r}")
            known = self._place_of(path)
            start = self._bisect(order_of(path)) if known is None else known
            copy.skip(range(start, start if known is None else start + 1))
            copy.put(folder)
        linked = None if self._linked is None else _still_linked(self._linked, changed)
        return type(self)(copy.finish(meta=meta), linked=linked)

    def _bisect(self, key: bytes) -> int:
        """Returns the place of the first folder that does not come before the key."""
        data, offsets, skip = self._known.data, self._known.offsets, FOLDER.size
        # Twice as fast as calling `order_of` and `path_at` fifteen times.
        return bisect_left(
            offsets,
            key,
            hi=len(offsets) - 1,
            key=lambda at: data[at + skip : data.index(0, at + skip)].replace(b"/", b"\0"),
        )

    def _place_of(self, path: bytes) -> int | None:
        place = self._places.get(path)
        if place is None:
            place, known = self._bisect(order_of(path)), self._known
            if place == known.folder_count or path_at(known.data, known.offsets[place]) != path:
                return None
            # Asked several times of each folder that has changed, too.
            if len(self._places) < _MOST_OPENED:
                self._places[path] = place
        return place

    def _places_under(self, path: bytes) -> range:
        if not path:
            return range(self._known.folder_count)
        # What is below has a zero byte after the path; what comes next has at least a one.
        key = order_of(path)
        return range(self._bisect(key), self._bisect(key + b"\1"))

    def _flagged(self, flags: bytearray) -> Iterable[int]:
        """Returns the places of flagged folders; quickly if, as most of the time, none is."""
        count = self._known.folder_count
        return () if flags.startswith(bytes(count)) else compress(range(count), flags)

    def _lose_what_is_below(self, places: Sequence[int], flags: bytearray) -> None:
        """Flags what was looked at below a folder that could not be opened.

        It may have been found all the same, through a link that took the folder's place. It is
        not in the directory any more.
        """
        stop = 0
        for place in self._flagged(flags):
            if flags[place] & SHUT and place >= stop:
                path = path_at(self._known.data, self._known.offsets[place])
                stop = self._places_under(path).stop
                for below in places[bisect_right(places, place) : bisect_left(places, stop)]:
                    flags[below] |= LOST

    def _checked(self, flags: bytearray) -> Checked:
        """Returns the names of what is flagged."""
        data, offsets, first_rows = self._known.data, self._known.offsets, self._known.first_rows
        count = self._known.folder_count
        folders = {path_at(data, offsets[at]): flags[at] for at in self._flagged(flags)}
        rows: list[tuple[bytes, list[bytes]]] = []
        at = flags.find(CHANGED, count)
        while at >= 0:
            place = bisect_right(first_rows, at - count) - 1
            start, stop = count + first_rows[place], count + first_rows[place + 1]
            if not flags[place] & LOST:
                record = open_record(data, offsets[place])
                names = compress(split_names(record.names), flags[start:stop])
                rows.append((record.path, list(names)))
            at = flags.find(CHANGED, stop)
        return Checked(
            folders=sorted(folders),
            rows=[(path, name) for path, names in sorted(rows) for name in names],
            lost=frozenset(path for path, flag in folders.items() if flag & LOST),
        )


def _still_linked(
    linked: frozenset[bytes], changed: Mapping[bytes, Folder | None]
) -> frozenset[bytes]:
    gone = tuple(path + b"/" if path else b"" for path in changed if changed[path] is None)
    kept = {path for path in linked if path not in changed and not path.startswith(gone)}
    put = (folder for folder in changed.values() if folder is not None)
    return frozenset(
        kept | {folder.path for folder in put if any(row.nlink > 1 for row in folder.rows)}
    )


def adopt_temporary(path: str | os.PathLike[str]) -> None:
    """Puts a whole index in its place that somebody wrote who died before it was there."""
    if os.path.lexists(path):
        return
    folder, slash, name = os.fspath(path).rpartition("/")
    with suppress(OSError):
        for found in os.listdir(folder or slash or "."):
            temporary = f"{folder}{slash}{found}"
            is_one = found.startswith(f"{name}.") and found.endswith(_TEMPORARY)
            if is_one and StatIndex.load(temporary) is not None:
                os.rename(temporary, path)
                return


def remove_temporaries(path: str | os.PathLike[str]) -> None:
    """Removes what processes that died while saving an index there left behind.

    For a caller who keeps others from saving at the same time.
    """
    folder, slash, name = os.fspath(path).rpartition("/")
    for found in os.listdir(folder or slash or "."):
        if found.startswith(f"{name}.") and found.endswith(_TEMPORARY):
            try:
                os.unlink(f"{folder}{slash}{found}")
            except OSError as exc:
                # Gone already; or on a disk that takes no writes, where it does no harm.
                if exc.errno not in (errno.ENOENT, errno.EROFS):
                    raise


def _digest(data: bytes) -> bytes:
    return blake3(memoryview(data)[HEAD_BYTES:]).digest()


def _write(fd: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


class Copy:
    """An index in the making: runs of another one, and new folders between them."""

    def __init__(self, known: IndexBytes) -> None:
        self._known = known
        self._view = memoryview(known.data)
        self._copied = 0
        self._table: list[bytes | memoryview] = []
        self._records: list[bytes | memoryview] = []
        self._folders, self._rows = known.folder_count, known.row_count
        self._files, self._file_bytes = known.files, known.file_bytes

    def skip(self, places: range) -> None:
        """Copies what comes before these folders, and leaves them out."""
        self._copy_until(places.start)
        for place in range(self._copied, places.stop):
            record = self._view[self._known.offsets[place] : self._known.offsets[place + 1]]
            self._count(bytes(record), sign=-1)
        self._copied = max(self._copied, places.stop)

    def put(self, folder: Folder) -> None:
        """Adds a folder."""
        record = encode_folder(folder)
        self._table.append(TABLE_ROW.pack(len(record), len(folder.rows)))
        self._records.append(record)
        self._count(record, sign=1)

    def finish(self, *, meta: bytes) -> bytes:
        """Copies the rest and returns the whole, its head still empty."""
        self._copy_until(self._known.folder_count)
        file_bytes = self._file_bytes.to_bytes(16, sys.byteorder)
        counts = COUNTS.pack(len(meta), self._folders, self._rows, self._files, file_bytes)
        return b"".join((bytes(HEAD_BYTES), counts, meta, *self._table, *self._records))

    def _copy_until(self, place: int) -> None:
        if place > self._copied:
            table_at, size = self._known.table_at, TABLE_ROW.size
            offsets = self._known.offsets
            self._table.append(self._view[table_at + self._copied * size : table_at + place * size])
            self._records.append(self._view[offsets[self._copied] : offsets[place]])
            self._copied = place

    def _count(self, record: bytes, *, sign: int) -> None:
        rows = open_record(record, 0).rows
        files, file_bytes = count_rows(rows)
        self._folders += sign
        self._rows += sign * (len(rows) // ROW.size)
        self._files += sign * files
        self._file_bytes += sign * file_bytes
