"""For whom something is done, and by which request, where one process does it for many.

Imports nothing of ours.
"""

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
