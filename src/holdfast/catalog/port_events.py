"""The part of a transaction that is about events.

A tenant's events are numbered without a gap, and no two have the same instant. Where they end is
a row of its own, which whoever appends locks until the transaction is over: so they are seen in
the order of their numbers, and nobody who has seen one can later find another before it. It is
the very last lock of a transaction, after that of the traces' end.
"""

from collections.abc import Sequence
from typing import Protocol

from holdfast.ids import TenantId
from holdfast.model_events import EventFilter, EventRow


class EventRows(Protocol):
    """Rows of events; none is ever changed."""

    def advance_events(self, tenant_id: TenantId, *, count: int, now_us: int) -> tuple[int, int]:
        """Makes room for so many; returns the number and the instant of the last of them.

        The instants of those before it are the microseconds before it.
        """
        ...

    def add_events(self, rows: Sequence[EventRow]) -> None: ...
    def last_event(self, tenant_id: TenantId) -> int:
        """Returns the number of the newest event; 0 if there was none yet."""
        ...

    def find_event(self, tenant_id: TenantId, event_id: str) -> EventRow | None: ...
    def page_events(self, tenant_id: TenantId, *, after: int, most: int) -> list[EventRow]:
        """Returns the events numbered above `after`, oldest first."""
        ...

    def list_events(self, tenant_id: TenantId, wanted: EventFilter, *, most: int) -> list[EventRow]:
        """Returns events, newest first unless the filter says otherwise."""
        ...

    def purge_events(self, tenant_id: TenantId, *, before_us: int) -> int:
        """Removes what is older for good; returns how many events that were."""
        ...
