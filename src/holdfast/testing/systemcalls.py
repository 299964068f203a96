"""Power cuts at every system call by which a directory is changed, or what is noted of it.

Inside `fused_files` each of these is a step of a `Fuse`, beside those of the ports.
"""

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from holdfast.testing.faults import Fuse, PowerCut

CHANGING: Final = frozenset(
    {"fchmod", "fdatasync", "fsync", "ftruncate", "link", "mkdir", "pwrite", "rename", "rmdir"}
    | {"symlink", "unlink", "utime", "write"}
)
"""Calls after which something on disk is another; so is `open` that makes or empties a file."""


class FusedOs:
    """The module `os`, in which every call that changes something on disk is a step.

    A call that writes bytes has a second one in its middle: half of them are there. Closing is
    no step: for the dead the kernel does it.
    """

    def __init__(self, fuse: Fuse) -> None:
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a module has things of all types
        real = getattr(os, name)
        if name not in CHANGING:
            return real

        def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - the signatures of them all
            self._fuse.step(f"os.{name}")
            if name in ("pwrite", "write"):
                self._tear(real, *args)
            return real(*args, **options)

        return call

    def open(self, path: Any, flags: int, *args: Any, **options: Any) -> int:  # noqa: ANN401 - as os
        """Opens a file; a step if that makes it new or empties it. A lock's file does neither."""
        if flags & (os.O_EXCL | os.O_TRUNC):
            self._fuse.step("os.open")
        return os.open(path, flags, *args, **options)

    def _tear(self, real: Callable[..., object], fd: int, data: bytes, *at: int) -> None:
        try:
            self._fuse.step(f"os.{real.__name__} torn")
        except (PowerCut, OSError):
            real(fd, data[: len(data) // 2], *at)
            raise


@contextmanager
def fused_files(fuse: Fuse) -> Generator[None]:
    """Makes each system call by which the engine changes a directory, or its notes, a step."""
    names = ("holdfast.engine.", "holdfast.workspace.", "pathlib")
    modules = [module for name, module in sys.modules.items() if name.startswith(names)]
    found = [module for module in modules if getattr(module, "os", None) is os]
    try:
        for module in found:
            vars(module)["os"] = FusedOs(fuse)
        yield
    finally:
        for module in found:
            vars(module)["os"] = os


def touches_files(name: str, /) -> bool:
    """Counts the system calls of `fused_files`, and the moments around a commit."""
    return name.startswith(("os.", "commit"))
