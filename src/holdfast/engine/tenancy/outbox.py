"""The outbox of webhooks: makes sure that events get there.

An event that was committed reaches every webhook that wants it at least once, always with the
same id. What is on its way is rows of the catalog: each event becomes one delivery of each
webhook that wants it, and a worker claims a delivery for a while before it tries it, so that no
two try the same one at once, and what one that died had claimed is claimed again. An address that
fails is tried again over a day; then the webhook is disabled and says why. How bytes get there is
not this module's business.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.core.rounds import set_aside, tell_damage
from holdfast.engine.journal.chain import append
from holdfast.engine.journal.events import follow
from holdfast.engine.tenancy.webhooks import Outcome, Parcel, find_body, trace_of_webhook, type_for
from holdfast.errors import Damaged
from holdfast.model.webhooks import Delivery, DeliveryState, Webhook

RETRIES_S: Final = (5, 15, 60, 300, 900, 3600, 7200, 14_400, 28_800, 28_800)
"""Seconds until the next attempt: about a day in all."""

LEASE: Final = timedelta(seconds=60)
"""How long a worker has for an attempt, which takes 10 s at the most."""

KEPT: Final = timedelta(days=7)
"""How long it can be looked up how a delivery went."""

_HOOKS: Final = 100
_PAGE: Final = 500
_GONE: Final = 410
_MAX_ERROR_CHARS: Final = 300
_NOBODY: Final[Mapping[str, int]] = {}


class Outbox:
    """What is on its way, over all tenants: what a worker asks for."""

    def __init__(
        self,
        context: Context,
        *,
        retries_s: Sequence[float] = RETRIES_S,
        lease: timedelta = LEASE,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._context, self._retries_s = context, retries_s
        self._lease, self._jitter = lease, jitter
        self._served = ""
        """The webhook that was served last: the others come first."""

    def expand(self) -> bool:
        """Turns new events into deliveries; says whether there was anything to look at."""
        with self._context.catalog.read() as transaction:
            tenants = transaction.tenants_to_number()
        for tenant_id in tenants:
            with set_aside():
                follow(self._context, tenant_id)
        last: str | None = ""
        has_any = False
        while last is not None:
            with self._context.catalog.read() as transaction:
                lagging, last = transaction.lagging_webhooks(after=last, most=_HOOKS)
            _tell(lagging.damaged)
            for webhook in lagging.sound:
                with set_aside():
                    self._expand(webhook)
                    has_any = True
        return has_any

    def claim(
        self, most: int, *, of_one: int | None = None, busy: Mapping[str, int] = _NOBODY
    ) -> list[Parcel]:
        """Returns what is due, claimed for this worker alone.

        Webhooks take turns. With `of_one` there are at most so many for one of them, with those
        that it is `busy` with.
        """
        now, parcels = self._context.clock(), list[Parcel]()
        due = self._due(most, now, lambda each: of_one is None or busy.get(each, 0) < of_one)
        if not due:
            return []
        with self._context.catalog.write() as transaction:
            for webhook_id in due:
                room = most - len(parcels)
                if of_one is not None:
                    room = min(room, of_one - busy.get(webhook_id, 0))
                claimed = transaction.claim_deliveries(
                    webhook_id, now=now, until=now + self._lease, most=room
                )
                # What is damaged stays claimed for a while: it keeps nothing behind it waiting.
                _tell(claimed.damaged)
                for delivery in claimed.sound:
                    with set_aside():
                        parcel = self._pack(transaction, delivery)
                        parcels += [] if parcel is None else [parcel]
                self._served = webhook_id
                if len(parcels) >= most:
                    break
        return parcels

    def record(self, parcel: Parcel, outcome: Outcome) -> None:
        """Writes down how an attempt went, and when the next one is."""
        claimed = parcel.delivery
        with set_aside(), self._context.catalog.write() as transaction:
            webhook = transaction.lock_webhook(claimed.tenant_id, claimed.webhook_id)
            if webhook is None:
                return  # Deleted since, and what was on its way to it.
            now = self._context.clock()
            tried = self._tried(claimed, outcome, now)
            if not transaction.settle_delivery(tried, claimed=claimed.claimed_until):
                return  # It took longer than the lease: whoever has it now says how it went.
            noted = transaction.note_delivery(
                webhook.id, now=now, status=outcome.status, ok=outcome.ok
            )
            webhook = noted or webhook
            reason = _why_disabled(webhook, tried)
            if reason is not None:
                webhook = replace(webhook, enabled=False, disabled_reason=reason)
                transaction.set_webhook(webhook)
                told = trace_of_webhook("webhook.disabled", webhook)
                append(transaction, self._context, webhook.tenant_id, told)

    def purge(self) -> int:
        """Removes what was finished long ago; returns how many deliveries that were."""
        with self._context.catalog.write() as transaction:
            return transaction.purge_deliveries(before=self._context.clock() - KEPT)

    def _due(self, most: int, now: datetime, is_free: Callable[[str], bool]) -> list[str]:
        """Returns webhooks that something is due for, from the one after the last served on."""
        found = list[str]()
        with self._context.catalog.read() as transaction:
            for start, stop in ((self._served, None), ("", self._served)):
                after: str | None = start
                while after is not None and len(found) < most:
                    page = transaction.due_webhooks(after=after, now=now, most=_HOOKS)
                    after = page[-1] if len(page) == _HOOKS else None
                    found += [
                        each for each in page if is_free(each) and (stop is None or each <= stop)
                    ]
        return found

    def _expand(self, seen: Webhook) -> None:
        with self._context.catalog.write() as transaction:
            webhook = transaction.lock_webhook(seen.tenant_id, seen.id)
            if webhook is None or webhook.cursor != seen.cursor:
                return  # Another was faster.
            # First: what is told between the two is on the page, or comes with the next one.
            last = transaction.last_event(webhook.tenant_id)
            page = transaction.page_events(webhook.tenant_id, after=webhook.cursor, most=_PAGE)
            end = page[-1].number if page else last
            transaction.set_webhook(replace(webhook, cursor=end))
            now = self._context.clock()
            wanted = [(event, type_for(webhook, event)) for event in page]
            transaction.add_deliveries(
                [
                    Delivery(
                        id=self._context.ids.delivery(),
                        webhook_id=webhook.id,
                        tenant_id=webhook.tenant_id,
                        event_number=event.number,
                        event_id=event.id,
                        event_type=kind,
                        created_at=now,
                        next_at=now,
                        claimed_until=now,
                    )
                    for event, kind in wanted
                    if kind is not None
                ]
            )

    def _pack(self, transaction: Transaction, delivery: Delivery) -> Parcel | None:
        """Returns what an attempt needs; None if there is nothing left to send, or to send to."""
        webhook = transaction.find_webhook(delivery.tenant_id, delivery.webhook_id)
        if webhook is None:
            return None
        if not webhook.enabled:  # Since a moment ago: it waits with the others.
            transaction.set_delivery(replace(delivery, claimed_until=delivery.next_at))
            return None
        tenant = transaction.get_tenant(delivery.tenant_id)
        body = find_body(transaction, delivery, workspace_id=tenant.public_id)
        if body is None:
            lost = Outcome(ok=False, error="the event is no longer kept")
            now = self._context.clock()
            transaction.set_delivery(_finished(delivery, lost, DeliveryState.FAILED, now))
            return None
        return Parcel(delivery=delivery, webhook=webhook, body=body)

    def _tried(self, delivery: Delivery, outcome: Outcome, now: datetime) -> Delivery:
        """Returns a delivery after one more attempt: over, or put off."""
        delivery = replace(delivery, attempts=delivery.attempts + 1)
        if outcome.ok:
            return _finished(delivery, outcome, DeliveryState.DELIVERED, now)
        if outcome.status == _GONE or delivery.attempts > len(self._retries_s):
            return _finished(delivery, outcome, DeliveryState.FAILED, now)
        # Half of it is chance: receivers that come back are not met by everybody at once.
        wait = self._retries_s[delivery.attempts - 1] * (0.75 + self._jitter() / 2)
        return replace(
            delivery,
            next_at=now + timedelta(seconds=wait),
            claimed_until=now,
            status=outcome.status,
            error=_why(outcome),
        )


def _tell(damaged: Sequence[Damaged]) -> None:
    for each in damaged:
        tell_damage(str(each))


def _finished(
    delivery: Delivery, outcome: Outcome, state: DeliveryState, now: datetime
) -> Delivery:
    return replace(
        delivery,
        state=state,
        finished_at=now,
        claimed_until=now,
        status=outcome.status,
        error=None if outcome.ok else _why(outcome),
    )


def _why_disabled(webhook: Webhook, tried: Delivery) -> str | None:
    """Returns why a webhook is told nothing more after this; None if it is.

    An address that took anything else meanwhile is there: it refuses one event, not all.
    """
    if tried.state is not DeliveryState.FAILED or not webhook.enabled:
        return None
    if tried.status == _GONE:
        return "the address answered that it is gone (410)"
    if webhook.last_success_at is not None and webhook.last_success_at > tried.created_at:
        return None
    return f"{tried.attempts} attempts failed; the last: {tried.error}"


def _why(outcome: Outcome) -> str:
    text = outcome.error or f"the address answered {outcome.status}"
    return text[:_MAX_ERROR_CHARS]
