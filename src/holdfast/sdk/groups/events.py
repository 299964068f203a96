"""`client.events` and `admin.events`: what happened, page by page or as it happens.

An agent's client sees the events of its namespace, an admin's those of the whole workspace.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from holdfast.sdk.calls import (
    Call,
    F,
    Feed,
    Group,
    Page,
    Pages,
    Sender,
    Steps,
    flow,
    listen,
    pages,
)
from holdfast.sdk.reading import as_it_is, reads, sent, texts, whole
from holdfast.sdk.values import Event

PAGE: Final = 200
PATIENCE_S: Final = 60.0
"""A server says something every 15 seconds: who is silent for so long is gone."""

_EVENTS: Final = "/v1/workspaces/{workspace_id}/events"


class _EventList(msgspec.Struct):
    events: list[Event]
    next_cursor: str | None


class Events(Group[F]):
    """Events, newest first, or as they come."""

    def __init__(
        self, sender: Sender, *, workspace_id: str = "me", namespace: str | None = None
    ) -> None:
        super().__init__(sender)
        self._place = {"workspace_id": workspace_id}
        self._namespace = namespace

    @flow
    def list(
        self,
        *,
        types: Iterable[str] = (),
        since: datetime | None = None,
        namespace: str | None = None,
        limit: int = 20,
    ) -> Steps[list[Event]]:
        """Returns events of some types, or all, newest first: those since an instant."""
        return (yield from self._pages(types, since, namespace, limit).collect())

    @pages
    def iter(
        self,
        *,
        types: Iterable[str] = (),
        since: datetime | None = None,
        namespace: str | None = None,
    ) -> Pages[Event]:
        """Goes through all events that are still kept, newest first."""
        return self._pages(types, since, namespace, None)

    @listen
    def stream(
        self, *, namespace: str | None = None, last_event_id: str | None = None
    ) -> Feed[Event]:
        """Waits for events and yields each as it happens, without end.

        A broken connection is made again, and goes on after the last event that was seen; with
        `last_event_id`, after one that was seen earlier.
        """
        wanted = namespace or self._namespace

        def ask(seen: str | None) -> Call[bytes]:
            return Call(
                method="GET",
                path=f"{_EVENTS}/stream",
                place=self._place,
                query={"namespace": wanted},
                headers={} if seen is None else {"Last-Event-ID": seen},
                read=whole,
                is_slow=True,
                patience_s=PATIENCE_S,
            )

        return Feed(ask, _happened, last_event_id)

    def _pages(
        self,
        types: Iterable[str],
        since: datetime | None,
        namespace: str | None,
        limit: int | None,
    ) -> Pages[Event]:
        kinds = ",".join(texts("types", types)) or None

        def ask(cursor: str | None, most: int) -> Call[Page[Event]]:
            query = {
                "types": kinds,
                "since": sent(since),
                "namespace": namespace or self._namespace,
                "limit": most,
                "cursor": cursor,
            }
            return Call(method="GET", path=_EVENTS, place=self._place, query=query, read=_page)

        return Pages(PAGE, ask, limit)


def _happened(data: bytes) -> Event | None:
    """Returns an event; None for what only says that the stream has begun."""
    event = _event(data)
    return None if event.type == "connected" else event


_event = as_it_is(Event)
_page = reads(_EventList, lambda answer: Page(answer.events, answer.next_cursor))
