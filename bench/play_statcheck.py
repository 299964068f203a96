"""Plays the compiled check of a stat index: `_statcheck.c`.

A round has one directory. The index of what is in it is checked as it is, and then changed, cut
and mixed up in every way that keeps to the arguments' own sizes: nothing outside of them may be
touched. Where the index is whole, the answer is that of the check in Python; where system calls
fail, it may say more, and never less.
"""

import contextlib
import ctypes
import os
import random
import shutil
import socket
import tempfile
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

from exact_memory import exact_memory
from faulty_calls import Library, signals

from holdfast.workspace import statcheck
from holdfast.workspace.statformat import (
    COUNTS,
    FOLDER,
    HEAD_BYTES,
    LAYOUT,
    ROW,
    TABLE_ROW,
    Folder,
    IndexBytes,
    Row,
    encode_folder,
    order_of,
    unsure,
)

TRIES = 300
NUMBERS = (0, 1, 2, 39, 40, 55, 56, 57, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
INVALID = 22
NO_MEMORY = 12

_P, _Q, _I = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32
LIBRARY = Library("statcheck")
CHECK = LIBRARY.function(
    f"holdfast_statcheck_{LAYOUT}", [ctypes.c_int, _P, _P, _Q, _Q, _Q, _P, _Q, _P, _I]
)
SAME = LIBRARY.function("holdfast_are_as_they_were", [ctypes.c_int, _P, _P, _I])


class Index(NamedTuple):
    """What the function is given."""

    table: bytes
    records: bytes
    rows: int

    @property
    def folders(self) -> int:
        return len(self.table) // TABLE_ROW.size


def a_name(rng: random.Random) -> bytes:
    odd = [b"\xff\xfe", b"-", b" ", b"\n", b"x" * 255, "é".encode(), b"...", b"a\\b", b"con"]
    return rng.choice(odd) if rng.random() < 0.1 else b"name %d" % rng.randrange(1000)


def fill(rng: random.Random, folder: bytes, depth: int = 0) -> None:
    """Makes what is in a directory: files, links, fifos, sockets, directories."""
    many = rng.random() < 0.03
    for _ in range(rng.randrange(300, 700) if many else rng.randrange(9)):
        path = os.path.join(folder, a_name(rng))
        with contextlib.suppress(OSError):
            match rng.randrange(12):
                case 0:
                    os.symlink(rng.choice([b".", b"/", b"gone", b"x" * 900]), path)
                case 1:
                    os.mkfifo(path)
                case 2 if len(path) < 100:
                    with socket.socket(socket.AF_UNIX) as listener:
                        listener.bind(path)
                case 3 | 4 if depth < 4 and not many:
                    os.mkdir(path)
                    fill(rng, path, depth + 1)
                case _:
                    with open(path, "xb") as file:
                        file.write(rng.randbytes(rng.randrange(20)))
                    if rng.random() < 0.2:
                        os.utime(path, ns=(0, rng.choice([-1, -(2**40), 2**62, 1])))


def index_of(rng: random.Random, root: bytes) -> Index:
    """Returns the index of a directory; some of it is not believed."""
    folders = list[Folder]()
    for path, below, names in os.walk(root, followlinks=False):
        links = [name for name in below if os.path.islink(os.path.join(path, name))]
        relative = b"" if path == root else os.path.relpath(path, root)
        rows = [row_of(rng, path, name) for name in sorted([*names, *links])]
        known = sorted(set(below) - set(links))
        found = os.lstat(path)
        own = (found.st_mode, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)
        folders.append(Folder(relative, *own, tuple(rows), tuple(known)))
    folders.sort(key=lambda folder: order_of(folder.path))
    records = [encode_folder(folder) for folder in folders]
    counts = [len(folder.rows) for folder in folders]
    table = b"".join(
        TABLE_ROW.pack(len(record), rows) for record, rows in zip(records, counts, strict=True)
    )
    return Index(table, b"".join(records), sum(counts))


def row_of(rng: random.Random, path: bytes, name: bytes) -> Row:
    found = os.lstat(os.path.join(path, name))
    ctime_ns = unsure(found.st_ctime_ns) if rng.random() < 0.05 else found.st_ctime_ns
    size = found.st_size + (rng.random() < 0.05)
    numbers = (found.st_nlink, size, found.st_mtime_ns, ctime_ns, found.st_ino, found.st_dev)
    return Row(name, found.st_mode, *numbers)


def check(
    index: Index, fd: int, only: list[int] | None = None, threads: int = 1
) -> tuple[int, bytes]:
    """Calls the function with memory of just the right sizes; returns its answer and the flags."""
    with exact_memory() as memory:
        size = index.folders + index.rows
        flags = memory.hold(bytes(size))
        code = CHECK(
            *(fd, memory.hold(index.table), memory.hold(index.records), len(index.records)),
            *(index.folders, index.rows),
            None if only is None else memory.hold(array("I", only).tobytes()),
            0 if only is None else len(only),
            *(flags, threads),
        )
        return code, ctypes.string_at(flags, size)


def check_in_python(index: Index, fd: int, only: list[int] | None) -> bytes:
    counts = COUNTS.pack(0, index.folders, index.rows, 0, bytes(16))
    data = bytes(HEAD_BYTES) + counts + index.table + index.records
    return bytes(statcheck.flag_differences(IndexBytes.of(data), fd, only=only, use_c=False))


def state_of(root: bytes, path: bytes) -> tuple[int, int]:
    try:
        found = os.stat(os.path.join(root, path))
    except OSError:
        return 0, -1
    return found.st_mtime_ns, found.st_size


def are_same(fd: int, known: dict[bytes, tuple[int, int]]) -> int:
    """Calls the other function with memory of just the right sizes."""
    with exact_memory() as memory:
        states = array("q", [number for state in known.values() for number in state])
        paths = b"".join(path + b"\0" for path in known)
        return SAME(fd, memory.hold(paths), memory.hold(states.tobytes()), len(known))


def mutate(rng: random.Random, index: Index) -> Index:
    """Returns an index that somebody has changed."""
    table, records, rows = bytearray(index.table), bytearray(index.records), index.rows
    for _ in range(rng.choice([1, 1, 2, 5])):
        match rng.randrange(9):
            case 0 if records:
                records[rng.randrange(len(records))] ^= 1 << rng.randrange(8)
            case 1 if table:
                set_number(table, rng.randrange(0, len(table), 4), rng.choice(NUMBERS))
            case 2 if table:
                at = rng.randrange(0, len(table), 4)
                set_number(table, at, number_at(table, at) + rng.choice([-40, -1, 1, 40]))
            case 3 if len(records) >= FOLDER.size:
                at = start_of(rng, index) + 4 * rng.randrange(5)
                set_number(records, at, rng.choice(NUMBERS))
            case 4 if len(records) >= FOLDER.size:
                at = start_of(rng, index) + 4 * rng.randrange(5)
                set_number(records, at, number_at(records, at) + rng.choice([-1, 1, 40]))
            case 5:
                del records[rng.randrange(len(records) + 1) :]
            case 6:
                at = rng.randrange(len(records) + 1)
                records[at:at] = rng.randbytes(rng.choice([1, ROW.size, 100]))
            case 7:
                rows = max(0, rows + rng.choice([-5, -1, 1, 5]))
            case _ if records:
                at = rng.randrange(len(records))
                records[at : at + 8] = rng.choice([bytes(8), b"../../..", b"\xff" * 8, b"////////"])
    return Index(bytes(table), bytes(records), rows)


def number_at(data: bytearray, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def set_number(data: bytearray, at: int, number: int) -> None:
    data[at : at + 4] = (number % 2**32).to_bytes(4, "little")


def start_of(rng: random.Random, index: Index) -> int:
    """Returns where one of the records begins."""
    sizes = [size for size, _ in TABLE_ROW.iter_unpack(index.table)]
    return sum(sizes[: rng.randrange(len(sizes))])


def some_of(rng: random.Random, folders: int) -> list[int] | None:
    """Returns which folders to look at: all, some, or what no caller should ask for."""
    if rng.random() < 0.5:
        return None
    some = sorted(rng.sample(range(folders), rng.randrange(folders + 1)))
    if rng.random() < 0.3:
        some += [rng.choice([0, folders, 2**32 - 1, *range(folders)])]
    return some


class Round:
    """One directory, and its index."""

    def __init__(self, rng: random.Random, root: bytes, done: Counter[str]) -> None:
        self.rng, self.root, self.done = rng, root, done
        self.fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        self.index = index_of(rng, root)

    def look(self) -> None:
        """The answer is Python's."""
        folders = self.index.folders
        only = (
            None
            if self.rng.random() < 0.5
            else sorted(self.rng.sample(range(folders), folders // 2))
        )
        code, flags = check(self.index, self.fd, only, self.rng.choice([0, 1, 2, 4, 16, 99]))
        assert (code, flags) == (0, check_in_python(self.index, self.fd, only)), (code, only)

    def look_with_faults(self) -> None:
        """What differs is said to, whatever fails."""
        wanted = check_in_python(self.index, self.fd, None)
        with LIBRARY.faulty(self.rng, self.rng.choice([30, 1000, 20_000])):
            code, flags = check(self.index, self.fd, None, self.rng.choice([1, 4]))
        assert code in (0, NO_MEMORY), code
        first = self.index.folders
        for number, (_, rows) in enumerate(TABLE_ROW.iter_unpack(self.index.table)):
            known, found = wanted[first : first + rows], flags[first : first + rows]
            first += rows
            if code == 0 and not flags[number] & statcheck.LOST:
                assert wanted[number] & ~flags[number] == 0, number
                assert all(is_ or not was for was, is_ in zip(known, found, strict=True)), number

    def look_at_what_is_wrong(self) -> None:
        index = mutate(self.rng, self.index)
        code, _ = check(index, self.fd, some_of(self.rng, index.folders), self.rng.choice([1, 4]))
        assert code in (0, INVALID), code

    def look_from_a_wrong_place(self) -> None:
        reader, writer = os.pipe()
        os.close(writer)
        fds = [-1, 10**6, reader, 2**31 - 1, -(2**31)]
        with open(os.devnull, "rb") as file:
            code, flags = check(self.index, self.rng.choice([*fds, file.fileno()]))
        os.close(reader)
        assert code == 0
        assert set(flags[: self.index.folders]) <= {statcheck.LOST | statcheck.SHUT}

    def look_at_files(self) -> None:
        """The answer is Python's; where system calls fail, what is there is not as it was."""
        names = [name for name in os.listdir(self.root) if self.rng.random() < 0.9]
        absolute = [os.path.join(self.root, name) for name in names[:3]]
        known = {path: state_of(self.root, path) for path in [*names, *absolute, b"never"]}
        assert are_same(self.fd, known) == 1
        path, by = self.rng.choice([*known]), self.rng.choice([(1, 0), (0, 1), (-1, 0), (2**20, 0)])
        before = known[path]
        known[path] = (before[0] + by[0], before[1] + by[1])
        assert are_same(self.fd, known) == (before == (0, -1) and not by[1])
        with LIBRARY.faulty(self.rng, self.rng.choice([30, 1000, 20_000])):
            assert are_same(self.fd, known) == 0 or before == (0, -1)

    def look_while_it_changes(self) -> None:
        with swapping(self.root), signals():
            for _ in range(5):
                code, _ = check(self.index, self.fd, None, 4)
                assert code == 0
        self.index = index_of(self.rng, self.root)

    def play(self) -> None:
        acts: dict[Callable[[], None], int] = {
            self.look: 20,
            self.look_with_faults: 15,
            self.look_at_what_is_wrong: 60,
            self.look_from_a_wrong_place: 3,
            self.look_at_files: 10,
            self.look_while_it_changes: 1,
        }
        try:
            for act in self.rng.choices(list(acts), weights=list(acts.values()), k=TRIES):
                act()
                self.done[act.__name__] += 1
        finally:
            os.close(self.fd)


@contextlib.contextmanager
def swapping(root: bytes) -> Generator[None]:
    """Puts links, files and nothing in the place of what is in a directory, in turns."""
    stopped, aside = threading.Event(), root + b".aside"

    def swap() -> None:
        while not stopped.is_set():
            for name in os.listdir(root)[:20]:
                path = os.path.join(root, name)
                os.rename(path, aside)
                os.symlink(b"/", path)
                os.unlink(path)
                os.rename(aside, path)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def play(rng: random.Random, folder: Path) -> Counter[str]:
    """Plays one round."""
    done, root = Counter[str](), tempfile.mkdtemp(dir=folder).encode()
    try:
        fill(rng, root)
        Round(rng, root, done).play()
    finally:
        shutil.rmtree(root)
    return done
