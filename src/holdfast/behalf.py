"""For whom a thread works, and by which request, where one process works for many; when it rests.

Who works for long leaves the others time: it rests where it holds nothing that anybody waits for,
for as long as whoever started it says. All else does not rest. Imports nothing of ours.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

NOBODY: Final = ""
"""What a process does for itself, and all that is done where there is one tenant alone."""

BEHALF: Final[ContextVar[str]] = ContextVar("behalf", default=NOBODY)
"""The tenant; inherited by whatever is started with a copy of the context."""

REQUEST: Final[ContextVar[str | None]] = ContextVar("request", default=None)
"""The id of the request, behind a server; inherited in the same way."""

VIA: Final[ContextVar[str | None]] = ContextVar("via", default=None)
"""Through what a person made the request, if one did; inherited in the same way."""

Rest = Callable[[], None]
"""Returns at once, or when it is time to go on."""

REST: Final[ContextVar[Rest | None]] = ContextVar("rest", default=None)
"""Inherited by whatever is started with a copy of the context."""


def rest() -> None:
    """Rests, if this thread is one that does."""
    if (wait := REST.get()) is not None:
        wait()
