"""The C libraries of `workspace` with system calls that fail, and signals that interrupt them."""

import contextlib
import ctypes
import random
import signal
from collections.abc import Callable, Generator
from pathlib import Path

from holdfast.workspace.library import __file__ as _library
from holdfast.workspace.library import library_name


class Library:
    """A part that was compiled with `faulty_calls.h`, or, where it was not, as users have it."""

    def __init__(self, part: str) -> None:
        self.loaded = ctypes.CDLL(str(Path(_library).parent / library_name(part)))
        self.state = self.chance = ctypes.c_uint64()
        with contextlib.suppress(ValueError):
            self.state = ctypes.c_uint64.in_dll(self.loaded, "faulty_state")
            self.chance = ctypes.c_uint64.in_dll(self.loaded, "faulty_chance")

    def function(self, name: str, arguments: list[type]) -> Callable[..., int]:
        found = self.loaded[name]
        found.argtypes, found.restype = arguments, ctypes.c_int
        return found

    @contextlib.contextmanager
    def faulty(self, rng: random.Random, chance: int) -> Generator[None]:
        """Lets so many of 65,536 system calls fail."""
        self.state.value, self.chance.value = rng.getrandbits(64), chance
        try:
            yield
        finally:
            self.chance.value = 0


@contextlib.contextmanager
def signals() -> Generator[None]:
    """Interrupts whatever runs, a thousand times a second."""
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
