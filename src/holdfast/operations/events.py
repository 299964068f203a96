"""What happened, page by page. Admins see everything, an agent's key one namespace."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from datetime import datetime
from typing import Annotated, Final

from holdfast.model.events import EventPage
from holdfast.model.marks import Shape
from holdfast.operations.operation import Operation, Who


def _split(text: str) -> list[str]:
    return [kind.strip() for kind in text.split(",") if kind.strip()]


_Types = Annotated[Sequence[str], Shape(str, ",".join, _split)]

EVENTS: Final = "/v1/workspaces/{workspace_id}/events"


class ListEvents(Operation[EventPage], get=EVENTS, who=Who.KEY):
    """Returns events of some types, or all, newest first: those since an instant.

    `cursor` goes on where a page ended.
    """

    _: KW_ONLY
    types: _Types | None = None
    since: datetime | None = None
    namespace: str | None = None
    limit: int | None = None
    cursor: str | None = None
