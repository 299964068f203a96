"""Values of entities: what a session knows of things, and how many things there are.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from holdfast.display import counted, line
from holdfast.ids import NamespaceId


class EntityRow(msgspec.Struct, frozen=True):
    """An entity as its row says."""

    id: str
    namespace_id: NamespaceId
    session_id: str
    entity_type: str
    entity_id: str
    attributes: str
    """A JSON object."""
    version: int
    created_at: datetime
    updated_at: datetime


class Entity(msgspec.Struct, frozen=True, kw_only=True):
    """A thing that a session knows of: an order, a customer, a file."""

    id: str
    session_id: str
    entity_type: str
    entity_id: str
    """What its own system calls it; with the type, it is one of its kind in a session."""
    attributes: dict[str, Any]
    version: int
    """1, and one more with every change."""
    created_at: datetime
    updated_at: datetime


class HourCount(NamedTuple):
    """How much happened in an hour."""

    hour: datetime
    """When it began."""
    traces: int


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is."""

    sessions: int
    turns: int
    """Of the conversations as they stand."""
    memories: int
    entities: int
    active_sessions: int
    """Sessions that left a trace in the last 24 hours."""
    storage_bytes: int
    by_hour: tuple[HourCount, ...]
    """Traces of the last 24 hours, by the hour that they fall into; hours without any are left
    out."""

    def __repr__(self) -> str:
        parts = [(self.sessions, "session"), (self.turns, "turn"), (self.memories, "memory")]
        told = ", ".join(counted(number, noun) for number, noun in parts)
        return line(
            type(self).__name__,
            f"{told}, {counted(self.entities, 'entity')}, {counted(self.storage_bytes, 'byte')}",
        )
