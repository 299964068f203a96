"""What clients of StateBase need of our routes and beside them, a module for each topic.

A module says what of its topic is told and heard otherwise (`VALUES`, `OPERATIONS`), and has
`ROUTES` for paths that are none of ours.
"""

import time
from collections.abc import Sequence
from typing import Final

from holdfast.server.asgi import Header
from holdfast.server.compat.statebase import (
    context,
    dashboard,
    failures,
    memories,
    sessions,
    traces,
)
from holdfast.server.dialects import Dialect
from holdfast.server.routing import Route
from holdfast.server.verdicts import Verdicts, verdicts_in

DIALECT: Final = Dialect(
    {**sessions.VALUES, **memories.VALUES, **traces.VALUES},
    {
        **sessions.OPERATIONS,
        **context.OPERATIONS,
        **memories.OPERATIONS,
        **traces.OPERATIONS,
    },
    is_lenient=True,
)
"""How they speak at our routes, and where else those are."""

VERDICTS: Final[Verdicts] = verdicts_in(DIALECT)

ROUTES: Final[list[Route]] = [*dashboard.ROUTES]
"""Paths that only those clients know."""


def all_routes(ours: list[Route]) -> list[Route]:
    """Returns our routes, which are in their dialect, and their own ones."""
    return [*memories.searching(ours), *ROUTES]


def headers(path: str, begun: int) -> Sequence[Header]:
    """Returns what their clients read of an answer to them: the milliseconds that it took."""
    if not failures.is_theirs(path):
        return ()
    return ((b"x-statebase-latency", b"%.3f" % ((time.monotonic_ns() - begun) / 1e6)),)
