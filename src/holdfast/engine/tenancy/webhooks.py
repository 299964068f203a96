"""Webhooks: who is told of events, of which, and with what they are signed.

A webhook is told of what happens after it was made, and never of more than it asked for: one of
a namespace hears of that namespace alone. Its secret is in the answer that makes it and in no
other; it is kept as it is, since deliveries are signed with it. How events get there is the
outbox's business (`outbox.py`).
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import asdict, replace

from holdfast.catalog.counting import WEBHOOK_BYTES
from holdfast.catalog.rows import NO_LIMIT
from holdfast.catalog.transaction import Transaction
from holdfast.display import Part
from holdfast.engine.core.context import Context
from holdfast.engine.journal.actions import MARKED, ROLLBACKS
from holdfast.engine.journal.chain import append
from holdfast.engine.journal.events import envelope, number_all
from holdfast.engine.journal.occurrences import check_types, type_of
from holdfast.engine.planes.handle import check_namespace, check_text
from holdfast.errors import InvalidValue, WebhookNotFound
from holdfast.instants import to_us
from holdfast.model.basics import Kind, Tenant
from holdfast.model.events import EventRow
from holdfast.model.traces import Trace
from holdfast.model.webhooks import (
    Delivery,
    DeliveryState,
    NewWebhook,
    SentDelivery,
    Webhook,
)
from holdfast.operations.checks import checked
from holdfast.operations.operation import does
from holdfast.operations.webhooks import (
    CreateWebhook,
    DeleteWebhook,
    GetDelivery,
    GetWebhook,
    ListDeliveries,
    ListWebhooks,
    RedeliverEvent,
    RotateWebhook,
    UpdateWebhook,
)

WebhookList = list[Webhook]
DeliveryList = list[Delivery]
"""`list` is the name of a method below."""

ALL: Final = "*"
MAX_URL_CHARS: Final = 2048
MAX_EVENTS: Final = 100
MAX_DESCRIPTION_CHARS: Final = 512

_RESTORED: Final = MARKED[Kind.RESTORE]
_ROLLBACKS: Final = frozenset(MARKED[kind] for kind in ROLLBACKS)
_TEST: Final = '{"message":"This is a test: whoever reads it can be told of events."}'


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one attempt."""

    ok: bool
    status: int | None = None
    error: str | None = None


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt needs: where to, what, and what it is signed with."""

    delivery: Delivery
    webhook: Webhook
    body: bytes


@checked
class Webhooks(Part):
    """The webhooks of a tenant."""

    def __init__(self, context: Context, tenant: Tenant) -> None:
        self._context, self._tenant = context, tenant

    @does(CreateWebhook)
    def create(self, wanted: CreateWebhook) -> NewWebhook:
        context = self._context
        context.check_takes_away("make a webhook")
        if wanted.namespace is not None:
            check_namespace(context, self._tenant.id, wanted.namespace)
        with context.work() as transaction:
            context.check_room(transaction, self._tenant.id, WEBHOOK_BYTES)
            transaction.listen(now=context.clock())
            number_all(transaction, context, self._tenant.id)
            webhook = NewWebhook(
                id=context.ids.webhook(),
                tenant_id=self._tenant.id,
                url=check_url(wanted.url),
                events=[ALL] if wanted.events is None else _checked(wanted.events),
                namespace=wanted.namespace,
                description=_described(wanted.description),
                secret=context.ids.secret("whsec"),
                created_at=context.clock(),
                cursor=transaction.last_event(self._tenant.id),
            )
            transaction.add_webhook(webhook)
            self._tell(transaction, "webhook.created", webhook)
            # Its own making is not news to it.
            number_all(transaction, context, self._tenant.id)
            end = transaction.last_event(self._tenant.id)
            webhook = replace(webhook, cursor=end)
            transaction.set_webhook(webhook)
        return webhook

    @does(ListWebhooks)
    def list(self, _: ListWebhooks) -> WebhookList:
        with self._context.catalog.read() as transaction:
            return transaction.list_webhooks(self._tenant.id)

    @does(GetWebhook)
    def get(self, wanted: GetWebhook) -> Webhook:
        with self._context.catalog.read() as transaction:
            return self._get(transaction, wanted.webhook_id)

    @does(UpdateWebhook)
    def update(self, wanted: UpdateWebhook) -> Webhook:
        self._context.check_takes_away("change a webhook")
        enabled, said = wanted.enabled, wanted.description
        with self._context.work() as transaction:
            old = self._lock(transaction, wanted.webhook_id)
            new = replace(
                old,
                url=old.url if wanted.url is None else check_url(wanted.url),
                events=old.events if wanted.events is None else _checked(wanted.events),
                description=old.description if said is None else _described(said),
                enabled=old.enabled if enabled is None else enabled,
                disabled_reason=None if enabled else old.disabled_reason,
            )
            if enabled is False and old.enabled:
                new = replace(new, disabled_reason="it was disabled")
            transaction.set_webhook(new)
            self._tell(transaction, "webhook.updated", new)
        return new

    @does(RotateWebhook)
    def rotate(self, wanted: RotateWebhook) -> NewWebhook:
        self._context.check_takes_away("change a webhook")
        with self._context.work() as transaction:
            secret = self._context.ids.secret("whsec")
            old = self._lock(transaction, wanted.webhook_id)
            webhook = replace(NewWebhook(**asdict(old)), secret=secret)
            transaction.set_webhook(webhook)
            self._tell(transaction, "webhook.updated", webhook)
        return webhook

    @does(DeleteWebhook)
    def delete(self, wanted: DeleteWebhook) -> None:
        self._context.check_takes_away("delete a webhook")
        with self._context.work() as transaction:
            webhook = self._lock(transaction, wanted.webhook_id)
            transaction.delete_webhook(self._tenant.id, webhook.id)
            self._tell(transaction, "webhook.deleted", webhook)

    @does(ListDeliveries)
    def deliveries(self, wanted: ListDeliveries) -> DeliveryList:
        # More than there can be, and no more than fits.
        below = NO_LIMIT if wanted.below is None else min(wanted.below, NO_LIMIT)
        most = NO_LIMIT if wanted.limit is None else wanted.limit
        with self._context.catalog.read() as transaction:
            self._get(transaction, wanted.webhook_id)
            return [*transaction.list_deliveries(wanted.webhook_id, below=below, most=most)]

    @does(GetDelivery)
    def delivery(self, wanted: GetDelivery) -> SentDelivery:
        with self._context.catalog.read() as transaction:
            self._get(transaction, wanted.webhook_id)
            found = self._get_delivery(transaction, wanted)
            body = find_body(transaction, found, workspace_id=self._tenant.public_id)
        return SentDelivery(**asdict(found), body=None if body is None else body.decode())

    @does(RedeliverEvent)
    def redeliver(self, wanted: RedeliverEvent) -> Delivery:
        now = self._context.clock()
        with self._context.work() as transaction:
            self._lock(transaction, wanted.webhook_id)
            found = self._get_delivery(transaction, wanted)
            again = replace(
                found,
                state=DeliveryState.PENDING,
                attempts=0,
                next_at=now,
                claimed_until=now if found.finished_at else found.claimed_until,
                finished_at=None,
            )
            transaction.set_delivery(again)
        return again

    def make_test(self, webhook: Webhook) -> Parcel:
        """Returns a parcel with an event that is told to this webhook alone, and kept nowhere."""
        now = self._context.clock()
        created_us = to_us(now)
        event = EventRow(
            tenant_id=self._tenant.id,
            number=0,
            id=self._context.ids.event(created_us),
            created_us=created_us,
            type="webhook.test",
            namespace_id=None,
            namespace=webhook.namespace,
            data=_TEST,
        )
        delivery = Delivery(
            id=self._context.ids.delivery(),
            webhook_id=webhook.id,
            tenant_id=self._tenant.id,
            event_number=0,
            event_id=event.id,
            event_type=event.type,
            created_at=now,
            next_at=now,
            claimed_until=now,
        )
        body = body_of(event, workspace_id=self._tenant.public_id)
        return Parcel(delivery=delivery, webhook=webhook, body=body)

    def note(self, webhook_id: str, outcome: Outcome) -> None:
        """Remembers how an attempt went that was no delivery: a test."""
        with self._context.catalog.write() as transaction:
            now = self._context.clock()
            transaction.note_delivery(webhook_id, now=now, status=outcome.status, ok=outcome.ok)

    def _get(self, transaction: Transaction, webhook_id: str) -> Webhook:
        found = transaction.find_webhook(self._tenant.id, webhook_id)
        if found is None:
            raise WebhookNotFound(webhook_id)
        return found

    def _get_delivery(
        self, transaction: Transaction, wanted: GetDelivery | RedeliverEvent
    ) -> Delivery:
        found = transaction.find_delivery(self._tenant.id, wanted.delivery_id)
        if found is None or found.webhook_id != wanted.webhook_id:
            raise WebhookNotFound(wanted.delivery_id)
        return found

    def _lock(self, transaction: Transaction, webhook_id: str) -> Webhook:
        """Returns a webhook that nobody else changes meanwhile: two changes are both kept."""
        found = transaction.lock_webhook(self._tenant.id, webhook_id)
        if found is None:
            raise WebhookNotFound(webhook_id)
        return found

    def _tell(self, transaction: Transaction, action: str, webhook: Webhook) -> None:
        append(transaction, self._context, self._tenant.id, trace_of_webhook(action, webhook))


def type_for(webhook: Webhook, event: EventRow) -> str | None:
    """Returns the type under which a webhook is told of an event; None if it is not.

    An undo and a redo are restores for who asks for those alone: whatever brings an earlier state
    back is heard under that one name.
    """
    if webhook.namespace is not None and event.namespace != webhook.namespace:
        return None
    wanted = {ALL, f"{event.type.partition('.')[0]}.*", event.type}
    kinds = {type_of(kind) for kind in webhook.events}
    if not wanted.isdisjoint(kinds):
        return event.type
    return _RESTORED if event.type in _ROLLBACKS and _RESTORED in kinds else None


def find_body(transaction: Transaction, delivery: Delivery, *, workspace_id: str) -> bytes | None:
    """Returns what a delivery sends; None if the event is no longer kept."""
    event = transaction.find_event(delivery.tenant_id, delivery.event_id)
    if event is None:
        return None
    return body_of(replace(event, type=delivery.event_type), workspace_id=workspace_id)


def body_of(event: EventRow, *, workspace_id: str) -> bytes:
    """Returns the bytes that are sent and signed."""
    return msgspec.json.encode(envelope(event, workspace_id=workspace_id))


def check_url(url: str) -> str:
    """Returns an address that can be told things; raises `InvalidValue` for any other."""
    if len(url) > MAX_URL_CHARS or not url.isascii() or not url.isprintable() or " " in url:
        message = (
            f"an address is ASCII without spaces, {MAX_URL_CHARS} characters at the most; "
            "a name in another script is written xn--…"
        )
        raise InvalidValue(message)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        message = f"this is not an address: {exc}"
        raise InvalidValue(message) from exc
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InvalidValue("an address begins with http:// or https:// and names a host")
    if parts.username is not None or parts.password is not None:
        raise InvalidValue("an address holds no user and no password: deliveries are signed")
    return url


def trace_of_webhook(action: str, webhook: Webhook) -> Trace:
    """Returns the trace of what became of a webhook; of its address the host alone."""
    details = {
        "host": urlsplit(webhook.url).hostname,
        "events": webhook.events,
        "namespace": webhook.namespace,
        "reason": webhook.disabled_reason,
    }
    return Trace(action=action, resource_type="webhook", resource_id=webhook.id, details=details)


def _described(text: str | None) -> str | None:
    return check_text("description", text, max_chars=MAX_DESCRIPTION_CHARS)


def _checked(events: Sequence[str]) -> list[str]:
    if not events:
        raise InvalidValue("a webhook that is told of nothing is none: leave events out for all")
    if len(events) > MAX_EVENTS:
        message = f"a webhook names {MAX_EVENTS} types of events at the most"
        raise InvalidValue(message)
    check_types(events)
    return [*dict.fromkeys(events)]
