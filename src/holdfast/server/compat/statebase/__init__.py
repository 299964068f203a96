"""What clients of StateBase need of our routes and beside them, a module for each topic.

A module says what of its topic is told and heard otherwise (`VALUES`, `OPERATIONS`), and has
`ROUTES` for paths that are none of ours.
"""

from typing import Final

from holdfast.server.compat.statebase import entities, keys, memories, sessions, traces
from holdfast.server.dialects import Dialect
from holdfast.server.routing import Route

DIALECT: Final = Dialect(
    {**sessions.VALUES, **memories.VALUES, **traces.VALUES, **entities.VALUES},
    {
        **sessions.OPERATIONS,
        **memories.OPERATIONS,
        **traces.OPERATIONS,
        **entities.OPERATIONS,
    },
)
"""How they speak at our routes, and where else those are."""

ROUTES: Final[list[Route]] = [*keys.ROUTES]
"""Paths that only those clients know."""


def all_routes(ours: list[Route]) -> list[Route]:
    """Returns our routes, which are in their dialect, and their own ones."""
    return [*memories.searching(ours), *ROUTES]
