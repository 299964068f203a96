"""Pages of lists: how many, where they go on, and whether there is more."""

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.errors import HoldfastError, shorten
from holdfast.server.problems import Refused, Unfit

T = TypeVar("T")


class UnknownCursor(Refused):
    """A list that is to go on behind something that it never showed, or that is gone."""

    code = "invalid_request"
    hint = "Pass the id of the last item that you saw, or begin again without it."

    def __init__(self, cursor: str) -> None:
        super().__init__(f"starting_after is the id of an item, and {shorten(cursor)} is none")
        self.param = "starting_after"


def page_size(limit: int | None, *, usual: int, most: int) -> int:
    """Returns how many are wanted: more than the most is the most, less than one does not fit."""
    if limit is None:
        return usual
    if limit < 1:
        raise Unfit("limit is 1 or more", param="limit")
    return min(limit, most)


def paged(
    fetch: Callable[[int], list[T]],
    size: int,
    *,
    cursor: Any = None,  # noqa: ANN401 - as lists go on
    unknown: tuple[type[HoldfastError], ...] = (),
    may_end: Callable[[T], bool] | None = None,
) -> tuple[list[T], bool]:
    """Returns a page, and whether more follows: one too many is asked for.

    `unknown` is what `fetch` raises for a cursor that it does not know; a page is longer where it
    may not end.
    """
    try:
        found = fetch(size + 1)
    except unknown as exc:
        if cursor is None:
            raise
        raise UnknownCursor(cursor) from exc
    while may_end is not None and len(found) > size and not may_end(found[size - 1]):
        size += 1
        if size == len(found):
            found = fetch(2 * size)
    return found[:size], len(found) > size
