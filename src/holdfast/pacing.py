"""When a thread rests, where one process works for many. Imports nothing of ours.

Who works for long leaves the others time: it rests where it holds nothing that anybody waits for,
for as long as whoever started it says. All else does not rest.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

Rest = Callable[[], None]
"""Returns at once, or when it is time to go on."""

REST: Final[ContextVar[Rest | None]] = ContextVar("rest", default=None)
"""Inherited by whatever is started with a copy of the context."""


def rest() -> None:
    """Rests, if this thread is one that does."""
    if (wait := REST.get()) is not None:
        wait()
