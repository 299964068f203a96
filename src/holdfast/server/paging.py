"""Pages of lists: how many, where they go on, and whether there is more."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.errors import TooLarge
from holdfast.operations.operation import Paged
from holdfast.server.problems import Refused, Unfit


class UnknownCursor(Refused):
    """A list that is to go on behind something that it never showed, or that is gone."""

    code = "invalid_request"
    hint = "Pass the id of the last item that you saw, or begin again without it."

    def __init__(self, cursor: str) -> None:
        super().__init__(Paged.refusal(cursor))
        self.param = "starting_after"


def page_size(asked: Any) -> int:  # noqa: ANN401 - an operation
    """Returns how many are wanted: more than the most is the most, less than one does not fit."""
    paged: Paged = asked.http.paged or asked.http.part
    if asked.limit is None:
        return paged.usual
    if asked.limit < 1:
        raise Unfit("limit is 1 or more", param="limit")
    return min(asked.limit, paged.most)


def part_of(
    paged: Paged,
    asked: Any,  # noqa: ANN401 - an operation
    fetch: Callable[[Any], list[Any]],
) -> tuple[list[Any], bool]:
    """Returns a part of a list, and whether there is more: one too many is asked for."""
    size = page_size(asked)
    cursor = paged.cursor_of(asked)
    if cursor == "" and not paged.has_empty:  # Said, and empty: the list begins.
        asked, cursor = replace(asked, **{str(paged.cursor): None}), None
    try:
        found = fetch(replace(asked, limit=size + 1))
    except paged.unknown as exc:
        if cursor is None:
            raise
        raise UnknownCursor(cursor) from exc
    except TooLarge:
        if paged.cursor is None:
            raise
        # Perhaps with the one too many alone, which nobody asked for: so it does not count.
        found = fetch(replace(asked, limit=size))
        return found, len(found) == size and _goes_on(paged, asked, found[-1], fetch)
    return found[:size], len(found) > size


def _goes_on(paged: Paged, asked: Any, last: Any, fetch: Callable[[Any], list[Any]]) -> bool:  # noqa: ANN401 - an operation, what it lists
    """Says whether a list has anything behind one of its items; no state of that is read."""
    cursor = last if paged.last is None else getattr(last, paged.last)
    more = {"include_state": False} if hasattr(asked, "include_state") else {}
    try:
        return bool(fetch(replace(asked, limit=1, **{str(paged.cursor): cursor}, **more)))
    except TooLarge:  # It is there, and cannot be shown.
        return True
