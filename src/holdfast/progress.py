"""How whoever does something that takes a while says how far it is. Imports nothing of ours."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Told the stage, how much of it is done, and how much there is (0: nobody knows)."""


def no_progress(_stage: str, _done: int, _total: int, /) -> None:
    """Tells nobody."""
