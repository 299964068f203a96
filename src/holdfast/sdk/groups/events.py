"""`client.events` and `admin.events`: what happened, page by page or as it happens.

An agent's client sees the events of its namespace, an admin's those of the whole workspace.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, cast

from msgspec import structs

from holdfast.model.events import Event, EventPage
from holdfast.operations.forms import form_of
from holdfast.operations.webhooks import EVENTS, LISTED, ListEvents
from holdfast.sdk.calls import (
    Call,
    F,
    Feed,
    Group,
    Page,
    Pages,
    Sender,
    Steps,
    asking,
    flow,
    listen,
    pages,
)
from holdfast.sdk.reading import as_it_is, texts, whole

PATIENCE_S: Final = 60.0
"""A server says something every 15 seconds: who is silent for so long is gone."""


class Events(Group[F]):
    """Events, newest first, or as they come."""

    def __init__(
        self, sender: Sender, *, workspace_id: str = "me", namespace: str | None = None
    ) -> None:
        super().__init__(sender)
        self.above = {"workspace_id": workspace_id}
        self._namespace = namespace

    @flow
    def list(
        self,
        *,
        types: Iterable[str] = (),
        since: datetime | None = None,
        namespace: str | None = None,
        limit: int = LISTED.usual,
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
        self,
        *,
        types: Iterable[str] = (),
        namespace: str | None = None,
        last_event_id: str | None = None,
    ) -> Feed[Event]:
        """Waits for events, of some types or all, and yields each as it happens, without end.

        A broken connection is made again, and goes on after the last event that was seen; with
        `last_event_id`, after one that was seen earlier.
        """
        wanted = namespace or self._namespace
        kinds = ",".join(texts("types", types)) or None

        def ask(seen: str | None) -> Call[bytes]:
            return Call(
                method="GET",
                path=f"{EVENTS}/stream",
                place=self.above,
                query={"namespace": wanted, "types": kinds},
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
        kinds = texts("types", types) or None

        def ask(cursor: str | None, most: int) -> Call[Page[Event]]:
            wanted = ListEvents(
                types=kinds,
                since=since,
                namespace=namespace or self._namespace,
                limit=most,
                cursor=cursor,
            )
            asked = asking(wanted, self.above)
            return cast("Call[Page[Event]]", structs.replace(asked, read=_page))

        return Pages(LISTED.most, ask, limit)


def _page(body: bytes) -> Page[Event]:
    found: EventPage = form_of(ListEvents).read_answer(body)
    return Page(found.events, found.next_cursor)


def _happened(data: bytes) -> Event | None:
    """Returns an event; None for what only says that the stream has begun."""
    event = _event(data)
    return None if event.type == "connected" else event


_event = as_it_is(Event)
