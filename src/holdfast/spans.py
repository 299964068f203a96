"""What takes time, by name, for whoever draws it: nothing depends on it.

Deep inside, where something is waited for, nobody knows a server or its library of spans. So it is
named here, and who draws spans says how one begins. Where nobody does, it costs nothing.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

Begin = Callable[[str], AbstractContextManager[object]]
"""Begins a span of a name; it ends with the block."""


class Spans:
    """Names of what is under way, for any number of threads."""

    def __init__(self) -> None:
        self._begin: Begin | None = None

    def draw(self, begin: Begin | None) -> None:
        """From now on, has spans begin so; None for none."""
        self._begin = begin

    def around(self, name: str, work: AbstractContextManager[T]) -> AbstractContextManager[T]:
        """Returns the work, inside a span of this name if somebody draws it."""
        begin = self._begin
        return work if begin is None else _inside(begin(name), work)


@contextmanager
def _inside(span: AbstractContextManager[object], work: AbstractContextManager[T]) -> Generator[T]:
    with span, work as made:
        yield made


SPANS: Final = Spans()
