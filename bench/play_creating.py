"""Plays the compiled making of files: `_creating.c`.

A round makes files of every kind, in folders that are there, closed, or never were, while others
use the same names, and while system calls fail. What is said to be made is there as it was to be;
what was there before is as it was; where nothing fails, everything that can be made is.
"""

import contextlib
import ctypes
import errno
import os
import random
import shutil
import stat
import tempfile
import threading
from array import array
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

from exact_memory import exact_memory
from faulty_calls import Library, signals

from holdfast.workspace.creating import BROKEN, DIFFERS, LAYOUT, LEFT, MADE

TRIES, HOLE, PIECE = 40, 16 << 10, 64 << 10
EDGES = (0, 1, HOLE - 1, HOLE, HOLE + 1, 2 * HOLE, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE)
TIMES = (0, 1, -1, 10**9, -(10**9) - 1, 1_700_000_000_123_456_789, 2**63 - 1, -(2**63))
STAMP_BYTES = 32

_P, _Q, _I = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32
LIBRARY = Library("creating")
CREATE = LIBRARY.function(f"holdfast_create_{LAYOUT}", [_Q, _P, _P, _P, _P, _P, _P, _I, _P, _P])


class File(NamedTuple):
    """A file to be."""

    folder: int
    name: bytes
    data: bytes
    mode: int
    mtime_ns: int


class Told(NamedTuple):
    """What the function said."""

    problem: int
    outcomes: bytes
    stamps: bytes


def a_name(rng: random.Random) -> bytes:
    if rng.random() < 0.8:
        return b"file %d" % rng.randrange(10**6)
    odd = [b"", b".", b"..", b"there", b"link", b"folder", b"x" * 255, b"x" * 256, b"x" * 5000]
    return rng.choice([*odd, b"folder/in", b"gone/in", b"../beside", b"link/in", b"\xff\n", b"a/"])


def some_data(rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return rng.randbytes(rng.randrange(200))
    size = rng.choice(EDGES) if rng.random() < 0.8 else rng.randrange(PIECE)
    data = bytearray(rng.choice([b"\0", b"x"]) * size)
    for _ in range(rng.randrange(4)):
        if data:
            data[rng.randrange(len(data))] = rng.choice([0, 1])
    return bytes(data)


def has_hole(data: bytes) -> bool:
    return any(not any(data[at : at + HOLE]) for at in range(0, len(data) - HOLE + 1, HOLE))


def create(files: list[File], *, withheld: int, reads_back: bool) -> Told:
    """Calls the function with memory of just the right sizes."""
    with exact_memory() as memory:
        outcomes = memory.hold(b"\x63" * len(files))
        stamps = memory.hold(bytes(STAMP_BYTES * len(files))) if reads_back else None
        problem = CREATE(
            len(files),
            memory.hold(array("i", [file.folder for file in files]).tobytes()),
            memory.hold_addresses([memory.hold_text(file.name) for file in files]),
            memory.hold_addresses([memory.hold(file.data) for file in files]),
            memory.hold(array("Q", [len(file.data) for file in files]).tobytes()),
            memory.hold(array("I", [file.mode for file in files]).tobytes()),
            memory.hold(array("q", [file.mtime_ns for file in files]).tobytes()),
            *(withheld, stamps, outcomes),
        )
        return Told(
            problem,
            ctypes.string_at(outcomes, len(files)),
            ctypes.string_at(stamps, STAMP_BYTES * len(files)) if stamps is not None else b"",
        )


class Round:
    """One folder to make files in."""

    def __init__(self, rng: random.Random, root: Path, done: Counter[str]) -> None:
        self.rng, self.root, self.done = rng, root, done
        self.umask = os.umask(0)
        os.umask(self.umask)
        self.place = root / "place"
        for folder in (self.place, self.place / "folder"):
            folder.mkdir()
        (self.place / "there").write_bytes(b"as it was")
        (self.place / "link").symlink_to(root / "outside")
        self.fd = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY)

    def some_files(self, *, odd_folders: bool) -> list[File]:
        rng = self.rng
        with open(os.devnull, "rb") as file:
            closed = file.fileno()
        wrong = [-1, 10**6, closed, -(2**31), 2**31 - 1]
        return [
            File(
                rng.choice(wrong) if odd_folders and rng.random() < 0.1 else self.fd,
                a_name(rng),
                some_data(rng),
                rng.choice(
                    [0o644, 0o600, 0o755, 0o7777, 0, rng.getrandbits(12), rng.getrandbits(32)]
                ),
                rng.choice(TIMES) if rng.random() < 0.5 else rng.getrandbits(62),
            )
            for _ in range(rng.choice([0, 1, 2, 30]))
        ]

    def make(self) -> None:
        """Everything that can be made is, and reads as it was to be."""
        files = self.some_files(odd_folders=True)
        told = create(files, withheld=self.umask, reads_back=True)
        assert told.problem in (0, errno.EINVAL), told.problem
        self.check(files, told, is_quiet=True)

    def make_with_faults(self) -> None:
        files = self.some_files(odd_folders=True)
        with LIBRARY.faulty(self.rng, self.rng.choice([300, 3000, 20_000])):
            told = create(files, withheld=self.umask, reads_back=self.rng.random() < 0.8)
        self.check(files, told, is_quiet=False)

    def make_while_others_do(self) -> None:
        files = self.some_files(odd_folders=False)
        with meddling(self.place, [file.name for file in files]), signals():
            told = create(files, withheld=self.umask, reads_back=True)
        assert set(told.outcomes) <= {MADE, LEFT, DIFFERS, BROKEN}
        self.remove(files)

    def check(self, files: list[File], told: Told, *, is_quiet: bool) -> None:
        assert len(told.outcomes) == len(files)
        assert (told.problem != 0) == (BROKEN in told.outcomes)
        after = told.outcomes.find(BROKEN) + 1
        assert not after or set(told.outcomes[after:]) <= {LEFT}
        made = set[bytes]()
        for number, (file, outcome) in enumerate(zip(files, told.outcomes, strict=True)):
            if outcome == MADE:
                self.check_made(file, reads_back=told.stamps != b"")
                stamp = told.stamps[number * STAMP_BYTES : (number + 1) * STAMP_BYTES]
                assert not stamp or any(stamp)
            if is_quiet and not told.problem:
                can_be = self.can_be_made(file) and file.name not in made
                assert (outcome != LEFT) == can_be, (outcome, *file[:2], *file[3:])
            if outcome != LEFT:
                made.add(file.name)
        assert (self.place / "there").read_bytes() == b"as it was"
        assert not (self.root / "outside").exists()
        self.remove(files)

    def remove(self, files: list[File]) -> None:
        for name in {file.name for file in files} - {b"there", b"link", b"folder"}:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self.fd)

    def can_be_made(self, file: File) -> bool:
        name = file.name
        is_taken = name in (b"", b".", b"..", b"there", b"link", b"folder")
        is_nowhere = name.startswith((b"gone/", b"link/")) or name.endswith(b"/")
        is_long = len(name) > 255
        return not (
            file.folder != self.fd or is_taken or is_nowhere or is_long or has_hole(file.data)
        )

    def check_made(self, file: File, *, reads_back: bool) -> None:
        path = os.path.join(os.fsencode(self.place), file.name)
        found = os.lstat(path)
        assert stat.S_ISREG(found.st_mode)
        assert found.st_size == len(file.data)
        # Not read back, it may have a time that the file system cannot keep.
        assert found.st_mtime_ns == file.mtime_ns or not reads_back, file.name
        if os.access(path, os.R_OK):
            assert Path(os.fsdecode(path)).read_bytes() == file.data

    def play(self) -> None:
        acts = {self.make: 8, self.make_with_faults: 8, self.make_while_others_do: 1}
        try:
            for act in self.rng.choices(list(acts), weights=list(acts.values()), k=TRIES):
                act()
                self.done[act.__name__] += 1
        finally:
            os.close(self.fd)


@contextlib.contextmanager
def meddling(folder: Path, names: list[bytes]) -> Generator[None]:
    """Makes, links, changes and removes what has the names, for as long as it lasts."""
    stopped = threading.Event()
    mine = [os.path.join(os.fsencode(folder), name) for name in names if name.startswith(b"file")]

    def meddle() -> None:
        rng = random.Random(1)
        while mine and not stopped.is_set():
            path = rng.choice(mine)
            with contextlib.suppress(OSError):
                match rng.randrange(4):
                    case 0:
                        os.unlink(path)
                    case 1:
                        os.symlink(b"/dev/zero", path)
                    case 2:
                        os.mkfifo(path)
                    case _:
                        os.truncate(path, rng.randrange(300))

    thread = threading.Thread(target=meddle)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def play(rng: random.Random, folder: Path) -> Counter[str]:
    """Plays one round."""
    done, root = Counter[str](), Path(tempfile.mkdtemp(dir=folder))
    try:
        Round(rng, root, done).play()
    finally:
        shutil.rmtree(root)
    return done
