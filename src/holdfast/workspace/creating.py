"""Creates many files at once where nothing is, and reads them back.

`_creating.c` does it without Python between the system calls, and other threads go on meanwhile.
It is built where a compiler is at hand; elsewhere `Writer` does the same, file by file.
"""

import os
from array import array
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from struct import Struct
from typing import Final, NamedTuple, Protocol

from holdfast.workspace.library import load_function

LAYOUT: Final = 2
"""Of the arguments of the compiled function; part of its name."""

MADE: Final = 0
LEFT: Final = 1
"""Nothing was touched: something is there already, or it has holes. To be tried in Python."""
DIFFERS: Final = 2
"""It was made, and somebody has changed it since, or the file system cannot keep it so."""
BROKEN: Final = 3
"""It was made and could not be filled."""

WORTH_IT: Final = 32
"""Fewer files are there before ctypes is imported (4 ms)."""


Stamp = tuple[int, int, int]
"""Device, inode and time of change of a file that was read back: whoever touches it moves that."""

_STAMP: Final = Struct("=qqqq")


class NewFile(NamedTuple):
    """A file to be."""

    folder: bytes
    name: bytes
    data: bytes
    mode: int
    mtime_ns: int


class Created(NamedTuple):
    """What became of each file."""

    outcomes: bytes
    stamps: Sequence[Stamp]
    """Of those that were read back; zeros for others. Empty if that was not asked for."""
    problem: int
    """The number of the error that kept one from being filled, or zero; those after it are left."""


class Creator(Protocol):
    """Makes files."""

    def __call__(
        self,
        files: Sequence[NewFile],
        fds: Mapping[bytes, int],
        *,
        umask: int,
        reads_back: bool,
    ) -> Created:
        """Is told which bits new files are not given, and whether to read them back."""
        ...


@contextmanager
def open_together(
    files: Iterable[NewFile], open_folder: Callable[[bytes], int]
) -> Generator[Mapping[bytes, int]]:
    """Keeps the folders of files open; what `open_folder` returns is good until its next call."""
    fds: dict[bytes, int] = {}
    try:
        for file in files:
            if file.folder not in fds:
                fds[file.folder] = os.dup(open_folder(file.folder))
        yield fds
    finally:
        for fd in fds.values():
            os.close(fd)


@cache
def load_creator() -> Creator | None:
    """Returns the compiled function, or None where there is none that fits."""
    function = load_function("creating", f"holdfast_create_{LAYOUT}", "QPPPPPPIPP")
    if function is None:
        return None
    import ctypes  # noqa: PLC0415 - loaded with the library

    def create(
        files: Sequence[NewFile], fds: Mapping[bytes, int], *, umask: int, reads_back: bool
    ) -> Created:
        # Addresses are taken of objects that this function holds until the call is over.
        folders, names, contents, modes, mtimes = zip(*files, strict=True)
        texts = ctypes.c_char_p * len(files)
        numbers = (
            array("i", [fds[folder] for folder in folders]),
            array("Q", map(len, contents)),
            array("I", modes),
            array("q", mtimes),
        )
        folder_at, size_at, mode_at, mtime_at = (each.buffer_info()[0] for each in numbers)
        outcomes = bytearray(len(files))
        stamps = bytearray(_STAMP.size * len(files) if reads_back else 0)
        problem = function(
            *(len(files), folder_at, texts(*names), texts(*contents), size_at, mode_at, mtime_at),
            umask,
            ctypes.addressof(ctypes.c_char.from_buffer(stamps)) if reads_back else None,
            ctypes.addressof(ctypes.c_char.from_buffer(outcomes)),
        )
        found = [
            (device, inode, seconds * 10**9 + rest)
            for device, inode, seconds, rest in _STAMP.iter_unpack(stamps)
        ]
        return Created(bytes(outcomes), found, problem)

    return create


def stamp_of(found: os.stat_result) -> Stamp:
    """Returns what tells whether a file is still the one that was read back."""
    return _signed(found.st_dev), _signed(found.st_ino), found.st_ctime_ns


def _signed(number: int) -> int:
    """Returns what C makes of a number with as many bits and a sign."""
    return number - 2**64 if number >= 2**63 else number
