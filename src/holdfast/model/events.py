"""Values of events: what happened, for whoever listens.

As in `model`: frozen, without behaviour beyond what follows from their fields. An event is told
to clients; a trace (`model_traces`) is kept as evidence. Events age out, traces do not.
"""

from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.display import line, minute, quoted
from holdfast.ids import NamespaceId, TenantId

LOST: Final = "event.lost"
"""What an event is called of which nobody can say any more what it was: damaged beyond repair."""

ERASED: Final = "event.erased"
"""And of which nobody shall say it."""

REINSTATED: Final = "vault.reinstated"
"""What the first event of an era is called: the events before it may be others than were seen."""

ERA: Final = 2**32
"""The first event of an era has a number that this divides; the others follow without a gap."""


class Occurrence(msgspec.Struct, frozen=True):
    """What happened, as a use case tells it."""

    type: str
    data: dict[str, Any]


class UnnumberedRow(msgspec.Struct, frozen=True):
    """What was told and has no number yet."""

    tenant_id: TenantId
    created_us: int
    type: str
    namespace_id: NamespaceId | None
    namespace: str | None
    data: str


class EventRow(msgspec.Struct, frozen=True):
    """An event as its row says: numbered from 1 on, in an order that nobody sees change."""

    tenant_id: TenantId
    number: int
    id: str
    created_us: int
    """Microseconds since 1970; no two events of a tenant have the same."""
    type: str
    namespace_id: NamespaceId | None
    namespace: str | None
    """What the namespace was called then."""
    data: str
    """A JSON object."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened: the same object in feeds, streams and webhooks."""

    id: str
    event_id: str
    type: str
    api_version: str
    workspace_id: str
    namespace: str | None
    created_at: datetime
    data: dict[str, Any]

    def __repr__(self) -> str:
        where = None if self.namespace is None else f"in {quoted(self.namespace)}"
        return line("Event", self.event_id, self.type, minute(self.created_at), where)


class EventEnd(NamedTuple):
    """Where a tenant's events end, and the timeline of the database."""

    number: int
    created_us: int
    timeline: int | None
    """On which timeline that number was given out; None where nobody knows."""
    timeline_now: int | None
    """On which one the database is now; None where it has none, or does not say."""

    @property
    def was_set_back(self) -> bool:
        """Says whether the database may lack events that somebody has seen.

        A replica was promoted since, or a state of before was brought back.
        """
        return None not in (self.timeline, self.timeline_now) and self.timeline != self.timeline_now


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Events, newest first, and where the list goes on; None if it does not."""

    events: list[Event]
    next_cursor: str | None


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events are asked for: those that match everything that is given."""

    namespace: str | None = None
    types: tuple[str, ...] = ()
    """Any of these; none given means all."""
    since_us: int = -(2**62)
    """Only later ones."""
    below_us: int = 2**62
    """Only earlier ones."""
    oldest_first: bool = False
