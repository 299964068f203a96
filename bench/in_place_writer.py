"""Replaces one version of a file by another, in place and slowly; see `soak_in_place_writers.py`.

A process of its own, that imports nothing which is not Python's own: it is started often.
"""

import ctypes
import mmap
import os
import sys
from pathlib import Path


def write(path: str, method: str, data: bytes) -> None:
    """Makes a file another version."""
    match method:
        case "write" | "pwrite":
            fd = os.open(path, os.O_WRONLY)
            rest = memoryview(data)
            while rest:
                done = os.write(fd, rest) if method == "write" else os.pwrite(fd, rest, 0)
                rest = rest[done:]
            os.close(fd)
        case "mmap" | "mmap, open":
            _write_mapped(path, data, is_closed=method == "mmap")
        case "rename":
            Path(f"{path}.new").write_bytes(data)
            Path(f"{path}.new").rename(path)
        case _:
            Path(path).write_bytes(data)


def _write_mapped(path: str, data: bytes, *, is_closed: bool) -> None:
    """Writes through a mapping: first what is there again, after which no write moves a time."""
    before = Path(path).read_bytes()
    fd = os.open(path, os.O_RDWR)
    if not is_closed:
        with mmap.mmap(fd, 0) as shared:
            shared[:] = before
            for at in range(0, len(data), 4096):
                shared[at : at + 4096] = data[at : at + 4096]
        os.close(fd)
        return
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    place = library.mmap(None, len(data), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    os.close(fd)
    ctypes.memmove(place, before, len(data))
    for at in range(0, len(data), 4096):
        ctypes.memmove(place + at, data[at : at + 4096], len(data[at : at + 4096]))
    library.munmap(place, len(data))


def slow_down(how: str, group: str) -> None:
    """Makes this process slow."""
    if how == "idle":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    elif how == "group" and group:
        (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    else:
        os.nice(19)


if __name__ == "__main__":
    target, method, byte, size, slowness, group = sys.argv[1:]
    version = bytes([int(byte)]) * int(size)
    slow_down(slowness, group)
    write(target, method, version)
