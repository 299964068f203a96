"""Values of webhooks: who is told of events, and how that went.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

import enum
from datetime import datetime
from typing import Annotated, Any

import msgspec

from holdfast.ids import TenantId
from holdfast.instants import EPOCH
from holdfast.model.marks import Inside, Named, While
from holdfast.signing import standard_secret


class DeliveryState(enum.StrEnum):
    """How far a delivery is."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """An address that is told of events."""

    id: Annotated[str, Named("webhook_id")]
    tenant_id: Annotated[TenantId, Inside(0)]
    url: str
    events: list[str]
    """Types, `group.*`, or `*` for all."""
    namespace: str | None = None
    """The only namespace whose events it gets; None for all."""
    description: str | None = None
    secret: Annotated[str, Inside("")]
    """What deliveries are signed with: kept as it is, and shown when it is made alone."""
    enabled: bool = True
    disabled_reason: str | None = None
    created_at: datetime
    last_delivery_at: datetime | None = None
    last_delivery_ok: bool | None = None
    last_delivery_status: int | None = None
    last_success_at: Annotated[datetime | None, Inside()] = None
    cursor: Annotated[int, Inside(0)] = 0
    """The number of the last event that was looked at for it."""

    @property
    def webhook_id(self) -> str:
        """Its id once more, by the name that it has on the wire."""
        return self.id

    def __repr__(self) -> str:
        # Without the secret: what is printed ends up in logs.
        return f"{type(self).__name__}({self.id!r}, url={self.url!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("id", self.id), ("url", self.url)]


class NewWebhook(Webhook, frozen=True, kw_only=True):
    """A webhook with the secret that its deliveries are signed with: this once."""

    secret: Annotated[str, Named("signing_secret")]
    ON_WIRE = {"standard_secret": "standard_secret"}

    @property
    def signing_secret(self) -> str:
        """Its secret once more, by the name that it has on the wire."""
        return self.secret

    @property
    def standard_secret(self) -> str:
        """The same secret, as libraries for Standard Webhooks take it."""
        return standard_secret(self.secret)


class WebhookTest(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a test."""

    ok: bool
    event_id: str
    status: int | None
    error: str | None


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One event on its way to one address."""

    id: Annotated[str, Named("delivery_id")]
    webhook_id: str
    tenant_id: Annotated[TenantId, Inside(0)]
    event_number: int
    event_id: str
    event_type: str
    state: DeliveryState = DeliveryState.PENDING
    attempts: int = 0
    created_at: datetime
    next_at: Annotated[datetime, While("is_pending", EPOCH)]
    """When it is tried next; it is nobody else's until `claimed_until`."""
    claimed_until: Annotated[datetime, Inside(EPOCH)]
    finished_at: datetime | None = None
    status: int | None = None
    """What the address answered last; None if it did not."""
    error: str | None = None

    @property
    def is_pending(self) -> bool:
        """Says whether it is still to be tried."""
        return self.state is DeliveryState.PENDING


class SentDelivery(Delivery, frozen=True, kw_only=True):
    """A delivery, and what is sent by it."""

    body: str | None
    """The text that is signed, to the letter: an object of JSON, without any secret. None once the
    event is no longer kept."""
