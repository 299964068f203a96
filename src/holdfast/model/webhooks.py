"""Values of webhooks: who is told of events, and how that went.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

import enum
from datetime import datetime

import msgspec

from holdfast.ids import TenantId


class DeliveryState(enum.StrEnum):
    """How far a delivery is."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """An address that is told of events."""

    id: str
    tenant_id: TenantId
    url: str
    events: tuple[str, ...]
    """Types, `group.*`, or `*` for all."""
    namespace: str | None = None
    """The only namespace whose events it gets; None for all."""
    description: str | None = None
    secret: str
    """What deliveries are signed with: kept as it is, and never shown again."""
    enabled: bool = True
    disabled_reason: str | None = None
    created_at: datetime
    last_delivery_at: datetime | None = None
    last_delivery_ok: bool | None = None
    last_delivery_status: int | None = None
    last_success_at: datetime | None = None
    cursor: int = 0
    """The number of the last event that was looked at for it."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One event on its way to one address."""

    id: str
    webhook_id: str
    tenant_id: TenantId
    event_number: int
    event_id: str
    event_type: str
    state: DeliveryState = DeliveryState.PENDING
    attempts: int = 0
    created_at: datetime
    next_at: datetime
    """When it is tried next; it is nobody else's until `claimed_until`."""
    claimed_until: datetime
    finished_at: datetime | None = None
    status: int | None = None
    """What the address answered last; None if it did not."""
    error: str | None = None
