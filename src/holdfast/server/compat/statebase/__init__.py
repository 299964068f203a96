"""What clients of StateBase need beside our own routes, a module for each topic."""

from holdfast.server.routing import Route

ROUTES: list[Route] = []
"""Paths that only those clients know."""
