"""Pages of lists: how many, where they go on, and whether there is more."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

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
    if cursor == "":  # Said, and empty: the list begins.
        asked, cursor = replace(asked, **{str(paged.cursor): None}), None
    try:
        found = fetch(replace(asked, limit=size + 1))
    except paged.unknown as exc:
        if cursor is None:
            raise
        raise UnknownCursor(cursor) from exc
    return found[:size], len(found) > size
