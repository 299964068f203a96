"""What clients of StateBase need beside our own routes, a module for each topic."""

from typing import Final

from holdfast.server.compat.statebase import entities, memories
from holdfast.server.dialects import Dialect
from holdfast.server.routing import Route

DIALECT: Final = Dialect(
    {**memories.VALUES, **entities.VALUES}, {**memories.OPERATIONS, **entities.OPERATIONS}
)
"""How they speak to our routes."""

ROUTES: list[Route] = []
"""Paths that only those clients know."""


def all_routes(ours: list[Route]) -> list[Route]:
    """Returns our routes, which are in their dialect, and their own ones."""
    return [*memories.searching(ours), *ROUTES]
