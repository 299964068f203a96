"""The bytes of a stat index: what a folder's record holds, and in what order.

    head      magic, layout and byte order (8 bytes), BLAKE3 of all that follows (32)
    counts    bytes of meta, folders, rows; files and their bytes, for `totals`
    meta      the caller's
    table     for each folder: the bytes of its record, its rows
    records   back to back, one for each folder, in path order

A record is a folder's own stat and the sizes of what follows: its path, the names of its rows,
the names of its folders, each ended by a zero byte as system calls want them, then a stat of 40
bytes for each row, and the rows' devices if one is not the folder's.

*Path order* puts a folder directly before everything below it: paths compare as if `/` were the
lowest byte. Numbers are in the machine's own order, for the index is a cache and stays at home:
a machine of the other order sees another magic. `_statcheck.c` reads the same bytes.
"""

import stat
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, repeat, starmap
from operator import lt
from struct import Struct, error
from typing import Final, NamedTuple, Self

LAYOUT: Final = 2
"""Counts up with every change to these bytes, or to what has to be known before a row is believed:
old indexes are then not read, old libraries not called (the number is part of the function's name
in `_statcheck.c`)."""

COUNTS: Final = Struct("=QQQQ16s")
"""Bytes of meta, folders, rows, files and their bytes: three sparse files can say more bytes than
64 bits hold."""

MAGIC: Final = b"HFSTAT" + bytes([LAYOUT]) + (b"<" if sys.byteorder == "little" else b">")
DIGEST_BYTES: Final = 32
HEAD_BYTES: Final = len(MAGIC) + DIGEST_BYTES
META_AT: Final = HEAD_BYTES + COUNTS.size

TABLE_ROW: Final = Struct("=II")
FOLDER: Final = Struct("=IIIIIIqqQq")
"""Bytes of the path, of the rows' names, of the folders' names; rows; `_OWN_DEVICES`, `HAS_UNSURE`;
mode, mtime, ctime, inode, device."""
ROW: Final = Struct("=IIqqqQ")
"""Mode, links, size, mtime, ctime, inode."""
COMPARED: Final = Struct("=I4xqqqQ")
"""A row without its number of links: what a check compares."""

UNSURE: Final = -1
"""As a ctime: what was read may have changed since without any sign of it, so it counts as
changed until it was read again. Every negative ctime says so, and equals nothing, not even a file
whose ctime is really that; see `unsure`."""

HAS_UNSURE: Final = 1
_OWN_DEVICES: Final = 2

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1


def unsure(ctime_ns: int) -> int:
    """Returns a ctime that is not believed, but still says what it was."""
    return ctime_ns if ctime_ns < 0 else -1 - ctime_ns


def is_unsure(ctime_ns: int) -> bool:
    """Says whether a ctime in the index is no proof that nothing has changed."""
    return ctime_ns < 0


class Row(NamedTuple):
    """One non-directory in a folder, as `lstat` said."""

    name: bytes
    mode: int
    nlink: int
    size: int
    mtime_ns: int
    ctime_ns: int
    ino: int
    dev: int


class Folder(NamedTuple):
    """One directory: its own stat, and what is known to be in it.

    `path` is relative to the root, `b""` for the root itself. `rows` are its non-directories
    and `folders` the names of its known subdirectories, both ascending.
    """

    path: bytes
    mode: int
    mtime_ns: int
    ctime_ns: int
    ino: int
    dev: int
    rows: tuple[Row, ...]
    folders: tuple[bytes, ...]


# What `Row._make` does, less its check of the length.
_make_row: Final[Callable[[tuple[object, ...]], Row]] = partial(tuple.__new__, Row)  # pyright: ignore[reportAssignmentType, reportUnknownMemberType] - tuple is generic here


class IndexBytes(NamedTuple):
    """An index's bytes, and where in them everything is."""

    data: bytes
    table_at: int
    records_at: int
    offsets: Sequence[int]
    """Where each folder's record begins, and where the last one ends."""
    first_rows: Sequence[int]
    """How many rows all folders before each one have, and how many there are."""
    files: int
    file_bytes: int

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Finds the parts of an index. `ValueError`: they do not add up to the whole."""
        if len(data) < META_AT:
            raise ValueError("an index is longer than that")
        meta_bytes, folders, rows, files, file_bytes = COUNTS.unpack_from(data, HEAD_BYTES)
        table_at = META_AT + meta_bytes
        records_at = table_at + folders * TABLE_ROW.size
        if records_at > len(data):
            raise ValueError("the table ends after the index")
        table = memoryview(data)[table_at:records_at].cast("I")
        offsets = list(accumulate(table[0::2], initial=records_at))
        first_rows = list(accumulate(table[1::2], initial=0))
        if offsets[-1] != len(data) or first_rows[-1] != rows:
            raise ValueError("the records do not add up to the index")
        total = int.from_bytes(file_bytes, sys.byteorder)
        return cls(data, table_at, records_at, offsets, first_rows, files, total)

    @property
    def folder_count(self) -> int:
        """How many folders are known."""
        return len(self.offsets) - 1

    @property
    def row_count(self) -> int:
        """How many rows all folders have."""
        return self.first_rows[-1]


class Record(NamedTuple):
    """A folder's record with its rows still packed."""

    path: bytes
    own: tuple[int, int, int, int, int]
    """Mode, mtime, ctime, inode, device."""
    has: int
    names: bytes
    folders: bytes
    rows: bytes
    devices: bytes


def order_of(path: bytes) -> bytes:
    """Returns the key of path order. Neither names nor paths hold a zero byte."""
    return path.replace(b"/", b"\0")


def open_record(data: bytes, offset: int) -> Record:
    """Returns the record at the offset, its rows still packed."""
    path_bytes, names_bytes, folders_bytes, count, has, *own = FOLDER.unpack_from(data, offset)
    path_at = offset + FOLDER.size
    names_at = path_at + path_bytes + 1
    folders_at = names_at + names_bytes
    rows_at = folders_at + folders_bytes
    devices_at = rows_at + count * ROW.size
    return Record(
        path=data[path_at : names_at - 1],
        own=(own[0], own[1], own[2], own[3], own[4]),
        has=has,
        names=data[names_at:folders_at],
        folders=data[folders_at:rows_at],
        rows=data[rows_at:devices_at],
        devices=data[devices_at : devices_at + 8 * count] if has & _OWN_DEVICES else b"",
    )


def modes_of(record: Record) -> Sequence[int]:
    """Returns the modes of a record's rows."""
    return memoryview(record.rows).cast("I")[0 :: ROW.size // 4]


def links_of(record: Record) -> Sequence[int]:
    """Returns how many names each of a record's rows has."""
    return memoryview(record.rows).cast("I")[1 :: ROW.size // 4]


def inodes_of(record: Record) -> Sequence[int]:
    """Returns the inodes of a record's rows."""
    return memoryview(record.rows).cast("Q")[4 :: ROW.size // 8]


def path_at(data: bytes, offset: int) -> bytes:
    """Returns the path of the record at the offset."""
    start = offset + FOLDER.size
    return data[start : data.index(0, start)]


def split_names(names: bytes) -> list[bytes]:
    """Returns the names of a record."""
    return names.split(b"\0")[:-1]


def decode_folder(data: bytes, offset: int) -> Folder:
    """Returns the folder whose record is at the offset."""
    record = open_record(data, offset)
    mode, mtime_ns, ctime_ns, ino, dev = record.own
    names = split_names(record.names)
    columns = zip(*ROW.iter_unpack(record.rows), strict=True)
    devices = memoryview(record.devices).cast("q") if record.devices else repeat(dev, len(names))
    return Folder(
        path=record.path,
        mode=mode,
        mtime_ns=mtime_ns,
        ctime_ns=ctime_ns,
        ino=ino,
        dev=dev,
        # By `map`, which makes rows four times as fast as calling Row for each.
        rows=tuple(map(_make_row, zip(names, *columns, devices, strict=True))),
        folders=tuple(split_names(record.folders)),
    )


def encode_folder(folder: Folder) -> bytes:
    """Returns the record of the folder. `ValueError`: it is not one that a directory can be."""
    try:
        return _encode(folder)
    except error:
        return _encode(_in_range(folder))


def _encode(folder: Folder) -> bytes:
    _check_path(folder.path)
    names = _join_names([row.name for row in folder.rows])
    folders = _join_names(folder.folders)
    rows = b"".join(starmap(ROW.pack, [row[1:7] for row in folder.rows]))
    devices = b""
    has = HAS_UNSURE if any(is_unsure(row.ctime_ns) for row in folder.rows) else 0
    if any(row.dev != folder.dev for row in folder.rows):
        # A file that is mounted, or any file of an overlay: its device is not its folder's.
        devices = b"".join(row.dev.to_bytes(8, sys.byteorder, signed=True) for row in folder.rows)
        has |= _OWN_DEVICES
    own = folder[1:6]
    head = FOLDER.pack(len(folder.path), len(names), len(folders), len(folder.rows), has, *own)
    return b"".join((head, folder.path, b"\0", names, folders, rows, devices))


def count_rows(rows: bytes) -> tuple[int, int]:
    """Returns how many of the packed rows are files or links, and the bytes of the files."""
    files = total = 0
    for mode, _, size, *_ in ROW.iter_unpack(rows):
        if stat.S_ISREG(mode):
            files += 1
            total += size
        elif stat.S_ISLNK(mode):
            files += 1
    return files, total


def _in_range(folder: Folder) -> Folder:
    """Returns the folder with no time that its bytes cannot hold.

    File systems know dates that nanoseconds in 64 bits do not: after 2262, before 1677. The
    nearest takes their place and the stat is UNSURE, so whoever asks looks at the file itself.
    """
    return folder._replace(
        mtime_ns=nearest(folder.mtime_ns),
        ctime_ns=_sure(folder.mtime_ns, folder.ctime_ns),
        rows=tuple(
            row._replace(
                mtime_ns=nearest(row.mtime_ns),
                ctime_ns=_sure(row.mtime_ns, row.ctime_ns),
            )
            for row in folder.rows
        ),
    )


def nearest(time_ns: int) -> int:
    """Returns a time as the index has it: some file systems know years that 64 bits do not."""
    return min(max(time_ns, _LEAST), _MOST)


def _sure(mtime_ns: int, ctime_ns: int) -> int:
    fits = nearest(mtime_ns) == mtime_ns and nearest(ctime_ns) == ctime_ns
    return ctime_ns if fits else UNSURE


def _check_path(path: bytes) -> None:
    parts = path.split(b"/") if path else []
    if b"\0" in path or not {b"", b".", b".."}.isdisjoint(parts):
        raise ValueError(f"{path!r} is not the path of a folder below the root")


def _join_names(names: Sequence[bytes]) -> bytes:
    """Returns the names, each ended by a zero byte; refuses what no directory can hold."""
    joined = b"".join([name + b"\0" for name in names])
    if b"/" in joined or joined.count(0) != len(names) or not all(names):
        raise ValueError("a name is empty, or has a slash or a zero byte in it")
    if not all(map(lt, names, names[1:])):
        raise ValueError("names are not ascending, or one is there twice")
    return joined
