"""Looks at everything that a stat index knows, and flags what differs.

Nothing is listed and nothing is read: each known folder is opened and its own stat compared,
then the stat of each of its rows. That is the cheapest pass that cannot miss a change, as any
change of a file moves its ctime and any change of a listing moves the folder's.

There are two of it with equal answers. `_statcheck.c` does it in several threads; it is built
where a compiler is at hand (`hatch_build.py`). Otherwise the loops here do it, four times as
slowly, by `map` rather than by statement, which is what makes them as quick as git.

The answer is a byte for each folder and each row, zero if nothing differs. So threads never meet,
order does not depend on them, and there is no number of differences that does not fit.
"""

import os
import sys
from array import array
from collections.abc import Callable, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Final, NamedTuple

from holdfast.workspace.library import library_name, load_function
from holdfast.workspace.statformat import (
    COMPARED,
    HAS_UNSURE,
    LAYOUT,
    IndexBytes,
    Record,
    is_unsure,
    open_record,
    split_names,
)

CHANGED: Final = 1
"""Of a folder or a row: its stat is another one, or cannot be had."""
LOST: Final = 2
"""Of a folder: what is there now is not the folder that was known. Its rows were not looked at."""
SHUT: Final = 4
"""Of a folder, beside LOST: it cannot be opened. It is gone, a link, a file, or not for us."""

# O_PATH asks for no right to read, and wakes nobody who watches the folder for being opened.
# Without it (macOS) O_NONBLOCK sees to it that a fifo in the folder's place does not stop us.
_OPEN_FOLDER: Final = (
    getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
    | os.O_DIRECTORY
    | os.O_NOFOLLOW
    | os.O_CLOEXEC
)

_WORTH_LOADING: Final = 1_500
"""Below this many folders and rows Python is done before ctypes is imported (4 ms)."""
_WORTH_A_THREAD: Final = 1_000
"""Starting a thread takes as long as looking at some dozens; below this it gains little."""
_MOST_THREADS: Final = 4
"""More only wait for each other: every look-up in one folder takes the same locks."""

_fields: Final = attrgetter("st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")

_Compared = tuple[int, int, int, int, int]


def flag_differences(
    known: IndexBytes, root_fd: int, *, only: Sequence[int] | None = None, use_c: bool | None = None
) -> bytearray:
    """Returns a byte for each folder and, after those, for each row: what differs, or zero.

    `only` has the numbers of the folders to look at, ascending. `use_c` is for tests and
    measurements: True raises `RuntimeError` where there is no library, False does without it.
    """
    flags = bytearray(known.folder_count + known.row_count)
    places = range(known.folder_count) if only is None else only
    amount = len(flags) if only is None else _amount(known, only)
    if not places:
        return flags
    wanted = use_c
    if wanted is None:
        wanted = amount >= _WORTH_LOADING or "ctypes" in sys.modules
    look_in_c = load_library() if wanted else None
    if use_c and look_in_c is None:
        name = library_name("statcheck")
        raise RuntimeError(f"there is no {name}: it is built when holdfast is installed")
    if look_in_c is None or not look_in_c(known, root_fd, flags, only, _threads_for(amount)):
        for place in places:
            _look_in_python(known, root_fd, flags, place)
    return flags


def _amount(known: IndexBytes, places: Sequence[int]) -> int:
    rows = known.first_rows
    return len(places) + sum(rows[place + 1] - rows[place] for place in places)


def _threads_for(amount: int) -> int:
    if amount < _WORTH_A_THREAD:
        return 1
    if sys.platform == "linux":  # where a process may have been given some of the processors only
        return min(_MOST_THREADS, len(os.sched_getaffinity(0)))
    return min(_MOST_THREADS, os.cpu_count() or 1)


def _look_in_python(known: IndexBytes, root_fd: int, flags: bytearray, place: int) -> None:
    """Flags what differs of one folder: its own stat, then its rows."""
    record = open_record(known.data, known.offsets[place])
    try:
        fd = os.open(record.path or b".", _OPEN_FOLDER, dir_fd=root_fd)
    except OSError:
        flags[place] = LOST | SHUT
        return
    try:
        flags[place] = _compare_folder(record, fd)
        if not flags[place] & LOST and (differing := _compare_rows(record, fd)):
            first = known.folder_count + known.first_rows[place]
            flags[first : first + len(differing.rows)] = differing.rows
            flags[place] |= differing.folder
    finally:
        os.close(fd)


def _compare_folder(record: Record, fd: int) -> int:
    mode, mtime_ns, ctime_ns, ino, dev = record.own
    try:
        found = os.fstat(fd)
    except OSError:
        return LOST
    if (found.st_ino, found.st_dev) != (ino, dev):
        return LOST
    same = (found.st_mode, found.st_mtime_ns, found.st_ctime_ns) == (mode, mtime_ns, ctime_ns)
    return 0 if same and not is_unsure(ctime_ns) else CHANGED


class _Differing(NamedTuple):
    folder: int
    rows: bytes


def _compare_rows(record: Record, fd: int) -> _Differing | None:
    """Returns the flags of a folder's rows; None: nothing differs."""
    names = split_names(record.names)
    stat = partial(os.stat, dir_fd=fd, follow_symlinks=False)
    known: list[_Compared] = list(COMPARED.iter_unpack(record.rows))  # pyright: ignore[reportAssignmentType] - iter_unpack cannot know how many
    folder = 0
    found: list[_Compared | None]
    try:
        found = list(map(_fields, map(stat, names)))
    except OSError:
        # One is gone, or more: the loop that stops at the first cannot say which.
        found = []
        for name in names:
            try:
                found.append(_fields(stat(name)))
            except FileNotFoundError:
                found.append(None)
            except OSError:  # not just gone: the folder itself keeps us out
                found.append(None)
                folder = CHANGED
    if found == known and not record.has & HAS_UNSURE:
        return None
    rows = bytes(
        CHANGED if now != then or is_unsure(then[3]) else 0
        for now, then in zip(found, known, strict=True)
    )
    return _Differing(folder, rows)


LookInC = Callable[[IndexBytes, int, bytearray, Sequence[int] | None, int], bool]
"""Flags what differs, like `_look_in_python` for many; returns whether it could."""


@cache
def load_library() -> LookInC | None:
    """Returns the compiled check, or None where there is none that fits."""
    function = load_function("statcheck", f"holdfast_statcheck_{LAYOUT}", "iPPQQQPQPI")
    if function is None:
        return None
    import ctypes  # noqa: PLC0415 - loaded with the library

    def look_in_c(
        known: IndexBytes, root_fd: int, flags: bytearray, only: Sequence[int] | None, threads: int
    ) -> bool:
        # Addresses are taken of objects that this function holds until the call is over.
        chosen = None if only is None else array("I", only)
        data = ctypes.cast(ctypes.c_char_p(known.data), ctypes.c_void_p).value or 0
        code = function(
            root_fd,
            data + known.table_at,
            data + known.records_at,
            len(known.data) - known.records_at,
            known.folder_count,
            known.row_count,
            None if chosen is None else chosen.buffer_info()[0],
            0 if chosen is None else len(chosen),
            ctypes.addressof(ctypes.c_char.from_buffer(flags)),
            threads,
        )
        return code == 0

    return look_in_c
