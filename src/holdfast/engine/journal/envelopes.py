"""Events as they leave: in feeds, in live streams and in webhooks, always the same object."""

from typing import Any, Final

import msgspec

from holdfast.instants import from_us, to_text
from holdfast.model.events import EventRow

API_VERSION: Final = "2026-04-30"
"""The form of the envelope; clients are written against it."""


def envelope(event: EventRow, *, workspace_id: str) -> dict[str, Any]:
    """Returns what is sent of an event."""
    return {
        "id": event.id,
        "event_id": event.id,
        "type": event.type,
        "api_version": API_VERSION,
        "workspace_id": workspace_id,
        "namespace": event.namespace,
        "created_at": to_text(from_us(event.created_us)),
        "data": msgspec.json.decode(event.data),
    }
