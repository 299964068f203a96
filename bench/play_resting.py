"""Plays the compiled question who could write to a file: `_resting.c`.

A round asks about files that nobody has, that somebody reads, writes or has mapped, and about what
is no file, while signals interrupt and others open the same files. Whoever can write is seen, the
lease is given back, and nobody waits for it.
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
        for strange in (os.open(root, os.O_RDONLY), *os.pipe()):
            assert ASK(strange) != 0
            os.close(strange)
            assert ASK(strange) == errno.EBADF
        assert ASK(-1) == errno.EBADF
        done["strange"] += 1
    return done
