"""Requests and answers about webhooks."""

import msgspec

from holdfast.wire.basics import Instant


class WebhookRequest(msgspec.Struct, kw_only=True):
    """An address to tell of events; without `events`, of all."""

    url: str
    events: list[str] | None = None
    namespace: str | None = None
    description: str | None = None


class WebhookPatch(msgspec.Struct, kw_only=True):
    """What is to change in a webhook."""

    url: str | None = None
    events: list[str] | None = None
    description: str | None = None
    enabled: bool | None = None


class WebhookAnswer(msgspec.Struct, kw_only=True):
    """A webhook, without its secret."""

    webhook_id: str
    url: str
    events: list[str]
    namespace: str | None
    description: str | None
    enabled: bool
    disabled_reason: str | None
    created_at: Instant
    last_delivery_at: Instant | None
    last_delivery_ok: bool | None
    last_delivery_status: int | None


class NewWebhookAnswer(WebhookAnswer, kw_only=True):
    """A webhook with the secret that its deliveries are signed with: this once."""

    signing_secret: str
    standard_secret: str
    """The same secret, as libraries for Standard Webhooks take it."""


class WebhookList(msgspec.Struct, kw_only=True):
    """The webhooks of a workspace."""

    webhooks: list[WebhookAnswer]


class DeletedWebhookAnswer(msgspec.Struct, kw_only=True):
    """A webhook that is told nothing any more."""

    webhook_id: str
    deleted: bool


class TestAnswer(msgspec.Struct, kw_only=True):
    """What came of a test."""

    ok: bool
    event_id: str
    status: int | None
    error: str | None


class DeliveryAnswer(msgspec.Struct, kw_only=True):
    """How one event is getting to an address."""

    delivery_id: str
    webhook_id: str
    event_id: str
    event_type: str
    event_number: int
    state: str
    attempts: int
    created_at: Instant
    next_at: Instant | None
    finished_at: Instant | None
    status: int | None
    error: str | None


class DeliveryList(msgspec.Struct, kw_only=True):
    """Deliveries, those of the newest events first; `below` continues under an event's number."""

    deliveries: list[DeliveryAnswer]
    has_more: bool
