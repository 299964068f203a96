"""Pages of lists: how many, where they go on, and whether there is more."""

from collections.abc import Callable
from typing import TypeVar

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
    cursor: str | None = None,
    unknown: type[HoldfastError] | None = None,
) -> tuple[list[T], bool]:
    """Returns a page, and whether more follows: one too many is asked for.

    `unknown` is what `fetch` raises for a cursor that it does not know.
    """
    try:
        found = fetch(size + 1)
    except HoldfastError as exc:
        if cursor is not None and unknown is not None and isinstance(exc, unknown):
            raise UnknownCursor(cursor) from exc
        raise
    return found[:size], len(found) > size
