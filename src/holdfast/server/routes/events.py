"""What happened: a feed to page through, and a live stream.

Admins see everything; an agent's key sees the namespace that it is for, or that it names.
"""

from typing import Final

import msgspec

from holdfast.engine.journal.events import envelope
from holdfast.errors import InvalidValue
from holdfast.model.events import Event, EventPage
from holdfast.operations.webhooks import EVENTS, ListEvents, split_types
from holdfast.server.asgi import LIVE
from holdfast.server.doors import answers
from holdfast.server.paging import page_size
from holdfast.server.problems import Refused
from holdfast.server.requests import Caller, Request
from holdfast.server.responses import Stream
from holdfast.server.routing import Route, Who, get
from holdfast.server.streams import Streams
from holdfast.server.threads import in_thread

_STREAM: Final = "text/event-stream"


class UnnamedNamespace(Refused):
    """An agent's key that is for no one namespace, and does not say which it asks about."""

    code = "missing_namespace"
    hint = "Add namespace=NAME to the query; only an admin key sees all."

    def __init__(self) -> None:
        super().__init__("say which namespace: this key sees the events of one at a time")


@answers(ListEvents)
def list_(caller: Caller, wanted: ListEvents) -> EventPage:
    """Returns the events that a key may see."""
    found, next_cursor = caller.vault.events.list(
        namespace=_visible(caller, wanted.namespace),
        types=wanted.types or (),
        since=wanted.since,
        limit=page_size(wanted),
        cursor=wanted.cursor or None,
    )
    mine = caller.vault.tenant_id
    events = [msgspec.convert(envelope(event, workspace_id=mine), Event) for event in found]
    return EventPage(events=events, next_cursor=next_cursor)


@get(f"{EVENTS}/stream", who=Who.KEY, media_type=_STREAM)
async def stream(
    request: Request,
    caller: Caller,
    workspace_id: str,
    namespace: str | None = None,
    types: str | None = None,
    last_event_id: str | None = None,
) -> Stream:
    """Sends events as they happen, one after the other: of some types, or all.

    `Last-Event-ID`, as a header or in the query, goes on after an event that was seen.
    """
    visible = _visible(caller, namespace)
    streams: Streams = request.services.streams
    seen = request.header(b"last-event-id") or last_event_id
    after = await in_thread(_number_of, caller, visible, seen) if seen else None
    request.taken.until_answered(streams.seat(caller.vault.tenant_id, caller.key.id))
    lines = streams.listen(
        caller.vault,
        namespace=visible,
        types=split_types(types or ""),
        after=after,
        is_valid=caller.is_valid,
    )
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    request.scope[LIVE] = True
    return Stream(lines, media_type=_STREAM, headers=headers)


def _number_of(caller: Caller, visible: str | None, event_id: str) -> int:
    """Returns where a listener left off; what it could not have seen is not there for it."""
    events = caller.vault.events
    event = events.find(event_id)
    if event is not None and visible in (None, event.namespace):
        return event.number
    events.check_kept(event_id, says_number=visible is None)
    # Of others' events nobody learns that they are there: they count for lost ones, too.
    place = events.find_place(event_id)
    if place is None:
        raise InvalidValue("Last-Event-ID is the id of an event that is still kept")
    return place


def _visible(caller: Caller, namespace: str | None) -> str | None:
    """Returns the namespace whose events a key may see; None for all of them."""
    if caller.is_admin:
        return namespace or None
    if caller.key.namespace is None and not namespace:
        raise UnnamedNamespace
    wanted = namespace or caller.key.namespace or ""
    caller.check_namespace(wanted)
    return wanted


ROUTES: Final[list[Route]] = [list_, stream]
