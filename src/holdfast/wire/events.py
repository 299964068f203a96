"""Answers about events."""

from typing import Any

import msgspec

from holdfast.wire.basics import Instant


class EventAnswer(msgspec.Struct, kw_only=True):
    """One thing that happened: the same object in feeds, streams and webhooks."""

    id: str
    event_id: str
    type: str
    api_version: str
    workspace_id: str
    namespace: str | None
    created_at: Instant
    data: dict[str, Any]


class EventList(msgspec.Struct, kw_only=True):
    """Events, newest first, and where the list goes on."""

    events: list[EventAnswer]
    next_cursor: str | None
