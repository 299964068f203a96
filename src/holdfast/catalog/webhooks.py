"""The part of a transaction that is about webhooks and their deliveries.

A webhook has a cursor over its tenant's events. Whoever moves it has its row locked, and adds the
deliveries of what it moved over in the same transaction: each event becomes one delivery of each
webhook that wants it, whoever looks and however often. A delivery is claimed
for a while before it is tried: two workers never try the same one at once.
"""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter

from msgspec.structs import replace

from holdfast.catalog.absence import AbsenceQueries
from holdfast.catalog.counting import in_order
from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import DELIVERY, WEBHOOK, Sorted
from holdfast.ids import TenantId
from holdfast.instants import to_us
from holdfast.model.webhooks import Delivery, Webhook


class WebhookQueries(AbsenceQueries):
    """Rows of webhooks and deliveries."""

    __slots__ = ()

    _db: Driver

    def add_webhook(self, webhook: Webhook) -> None:
        self._db.say("add_webhook", **WEBHOOK.write(webhook))
        self.count_in_tenant(webhook.tenant_id, webhooks=1)

    def find_webhook(self, tenant_id: TenantId, webhook_id: str) -> Webhook | None:
        query, asked = "find_webhook", {"tenant_id": tenant_id, "id": webhook_id}
        return WEBHOOK.find(self._db.one(query, **asked) or self.look_again(WEBHOOK, query, asked))

    def lock_webhook(self, tenant_id: TenantId, webhook_id: str) -> Webhook | None:
        """Returns a webhook that nobody else changes until the transaction is over.

        To be locked before its deliveries are touched.
        """
        query, asked = "lock_webhook", {"tenant_id": tenant_id, "id": webhook_id}
        return WEBHOOK.find(self._db.one(query, **asked) or self.look_again(WEBHOOK, query, asked))

    def list_webhooks(self, tenant_id: TenantId) -> list[Webhook]:
        """Returns webhooks, oldest first; raises `Damaged` if one is missing."""
        compare = self.comparing_tenants(tenant_id, "webhooks")
        found = self._db.all("list_webhooks", tenant_id=tenant_id)
        compare(len(found))
        return in_order(map(WEBHOOK.read, found), attrgetter("created_at", "id"), rising=True)

    def set_webhook(self, webhook: Webhook) -> None:
        """Replaces what can change in a webhook that is locked."""
        self._db.say("set_webhook", **WEBHOOK.write(webhook))

    def delete_webhook(self, tenant_id: TenantId, webhook_id: str) -> bool:
        """Removes a webhook with its deliveries; False if there is none."""
        self._db.say("delete_deliveries_of", tenant_id=tenant_id, id=webhook_id)
        if self._db.run("delete_webhook", tenant_id=tenant_id, id=webhook_id) == 0:
            return False
        self.count_in_tenant(tenant_id, webhooks=-1)
        return True

    def lagging_webhooks(self, *, after: str, most: int) -> tuple[Sorted[Webhook], str | None]:
        """Returns enabled webhooks, of all tenants, that have events to look at, by their ids.

        And the id that the next page begins after, if there may be one.
        """
        rows = self._db.all("lagging_webhooks", after=after, most=most)
        last = WEBHOOK.name_of(rows[-1]) if len(rows) == most else None
        return WEBHOOK.sort(rows), last

    def due_webhooks(self, *, after: str, now: datetime, most: int) -> list[str]:
        """Returns enabled webhooks, of all tenants, with deliveries that can be claimed."""
        rows = self._db.all("due_webhooks", after=after, now=to_us(now), most=most)
        return [row[0] for row in rows]

    def note_delivery(
        self, webhook_id: str, *, now: datetime, status: int | None, ok: bool
    ) -> Webhook | None:
        """Remembers how the last delivery went; returns the webhook, if it is still there."""
        found = WEBHOOK.find(self._db.one("hold_webhook", id=webhook_id))
        if found is None:
            return None
        noted = replace(
            found,
            last_delivery_at=now,
            last_delivery_ok=ok,
            last_delivery_status=status,
            last_success_at=now if ok else found.last_success_at,
        )
        self.set_webhook(noted)
        return noted

    def add_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        rows = [DELIVERY.write(each) for each in deliveries]
        if rows:
            self._db.run_many("add_delivery", rows)

    def claim_deliveries(
        self, webhook_id: str, *, now: datetime, until: datetime, most: int
    ) -> Sorted[Delivery]:
        """Returns deliveries that are due, the longest due first, and nobody else's by now."""
        rows = self._db.all(
            "claim_deliveries",
            webhook_id=webhook_id,
            now=to_us(now),
            until=to_us(until),
            most=most,
        )
        found = DELIVERY.sort(rows)
        found.sound.sort(key=lambda delivery: (delivery.next_at, delivery.event_number))
        return found

    def find_delivery(self, tenant_id: TenantId, delivery_id: str) -> Delivery | None:
        row = self._db.one("find_delivery", tenant_id=tenant_id, id=delivery_id)
        return DELIVERY.find(row)

    def set_delivery(self, delivery: Delivery) -> None:
        """Writes how far a delivery is, whoever has claimed it."""
        self._db.say("set_delivery", **DELIVERY.write(delivery))

    def settle_delivery(self, delivery: Delivery, *, claimed: datetime) -> bool:
        """Writes how an attempt went; False if the claim until then is no longer the last."""
        known = DELIVERY.write(delivery)
        return self._db.run("settle_delivery", claimed=to_us(claimed), **known) == 1

    def list_deliveries(self, webhook_id: str, *, below: int, most: int) -> list[Delivery]:
        """Returns the deliveries of events numbered below, newest first."""
        rows = self._db.all("list_deliveries", webhook_id=webhook_id, below=below, most=most)
        return [DELIVERY.read(row) for row in rows]

    def purge_deliveries(self, *, before: datetime) -> int:
        """Removes what was finished by then; returns how many deliveries that were."""
        return self._db.run("purge_deliveries", before=to_us(before))
