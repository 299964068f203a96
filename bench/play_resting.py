"""Plays the compiled question who could write to a file: `_resting.c`.

A round asks about files that nobody has, that somebody reads, writes or has mapped, and about what
is no file, while signals interrupt and others open the same files. Whoever can write is seen, the
lease is given back, and nobody waits for it. And it has files cut while others open them, write to
their ends, or while system calls fail: each is the old one, the new one, or said to be neither.
"""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import random
import tempfile
import threading
from collections import Counter
from collections.abc import Generator
from pathlib import Path

from faulty_calls import Library, signals

TRIES = 40
LIBRARY = Library("resting")
ASK = LIBRARY.function("holdfast_rest_1", [ctypes.c_int])
SHORTEN = LIBRARY.function(
    "holdfast_shorten_1", [ctypes.c_int, ctypes.c_char_p, *[ctypes.c_uint64] * 4]
)


@contextlib.contextmanager
def nobody(_: Path) -> Generator[None]:
    yield


@contextlib.contextmanager
def reader(path: Path) -> Generator[None]:
    with path.open("rb"):
        yield


@contextlib.contextmanager
def writer(path: Path) -> Generator[None]:
    with path.open("r+b"):
        yield


@contextlib.contextmanager
def mapping(path: Path) -> Generator[None]:
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), 0)
    with shared:
        yield


ANSWERS = {nobody: 0, reader: 0, writer: errno.EAGAIN, mapping: errno.EAGAIN}


@contextlib.contextmanager
def opening(path: Path) -> Generator[None]:
    """Opens a file for writing again and again, for as long as it lasts."""
    stopped = threading.Event()

    def open_it() -> None:
        while not stopped.is_set():
            with path.open("r+b"):
                pass

    thread = threading.Thread(target=open_it)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def check(path: Path, answers: set[int]) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        assert ASK(fd) in answers
        assert fcntl.fcntl(fd, fcntl.F_GETLEASE) == fcntl.F_UNLCK
    finally:
        os.close(fd)


def cut(path: Path, new: bytes, *, stale: bool = False) -> int:
    """Has a file cut; returns what came of it."""
    fd = os.open(path, os.O_WRONLY)
    try:
        state = os.fstat(fd)
        size, ctime_ns = state.st_size, state.st_ctime_ns - stale
        return SHORTEN(fd, new, len(new), size, ctime_ns, own_time(path))
    finally:
        os.close(fd)


def own_time(path: Path) -> int:
    """Returns a time that nothing else stamps."""
    return 1_000_000_000 + len(path.name)


def check_cut(rng: random.Random, path: Path, done: Counter[str]) -> None:
    """Cuts a file in one of many ways, and looks at what it is then."""
    old = rng.randbytes(rng.choice((1, 5, 5000, 70_000)))
    new = rng.randbytes(rng.randint(0, len(old)))
    path.write_bytes(old)
    who = rng.choice(list(ANSWERS))
    if not rng.randrange(3):
        with LIBRARY.faulty(rng, rng.choice((500, 9000))):
            result = cut(path, new)
        done["cut, faulty"] += 1
    elif not rng.randrange(4):
        result = cut(path, new, stale=True)
        assert result == errno.ESTALE
    else:
        with who(path):
            result = cut(path, new)
        assert result == (0 if who is nobody else errno.EAGAIN), (who.__name__, result)
        done[f"cut, {who.__name__}"] += 1
    now = path.read_bytes()
    if result == 0:
        assert (now, path.stat().st_mtime_ns) == (new, own_time(path))
    elif result > 0:
        assert now == old
    # Else it says that it is neither.


def check_appended(path: Path, done: Counter[str]) -> None:
    """Cuts a file to whose end somebody writes whenever they can: not a byte of theirs goes."""
    stopped, written = threading.Event(), [0]

    def append() -> None:
        while not stopped.is_set():
            with path.open("ab") as file:
                file.write(b"+")
            written[0] += 1

    path.write_bytes(b"-" * 100)
    thread = threading.Thread(target=append)
    thread.start()
    lost = 0
    try:
        for _ in range(TRIES):
            fd = os.open(path, os.O_WRONLY)
            try:
                state = os.fstat(fd)
                kept = state.st_size // 2
                if SHORTEN(fd, b"-" * kept, kept, state.st_size, state.st_ctime_ns, 10**9) == 0:
                    lost += state.st_size - kept
            finally:
                os.close(fd)
    finally:
        stopped.set()
        thread.join()
    # Whatever was there when it was looked at, and nothing else, was cut.
    assert path.stat().st_size == 100 + written[0] - lost
    done["appended"] += 1


def play(rng: random.Random, folder: Path) -> Counter[str]:
    """Plays one round."""
    done = Counter[str]()
    with tempfile.TemporaryDirectory(dir=folder) as root, signals():
        path = Path(root, "file")
        path.write_bytes(b"x")
        for _ in range(TRIES):
            who = rng.choice(list(ANSWERS))
            with who(path):
                check(path, {ANSWERS[who]})
            done[who.__name__] += 1
        with opening(path):
            for _ in range(TRIES):
                check(path, {0, errno.EAGAIN})
        for _ in range(TRIES):
            check_cut(rng, path, done)
        check_appended(path, done)
        for strange in (os.open(root, os.O_RDONLY), *os.pipe()):
            assert ASK(strange) != 0
            os.close(strange)
            assert ASK(strange) == errno.EBADF
        assert ASK(-1) == errno.EBADF
        done["strange"] += 1
    return done
