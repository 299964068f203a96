"""The part of a transaction that is about webhooks and their deliveries.

A webhook has a cursor over its tenant's events. Whoever moves it, adds the deliveries of what it
moved over in the same transaction, and it moves only from where it was seen: each event becomes
one delivery of each webhook that wants it, whoever looks and however often. A delivery is claimed
for a while before it is tried: two workers never try the same one at once.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from holdfast.ids import TenantId
from holdfast.model_webhooks import Delivery, Webhook


class WebhookRows(Protocol):
    """Rows of webhooks and deliveries."""

    def add_webhook(self, webhook: Webhook) -> None: ...
    def find_webhook(self, tenant_id: TenantId, webhook_id: str) -> Webhook | None: ...
    def lock_webhook(self, tenant_id: TenantId, webhook_id: str) -> Webhook | None:
        """Returns a webhook that nobody else changes until the transaction is over.

        To be locked before its deliveries are touched.
        """
        ...

    def list_webhooks(self, tenant_id: TenantId) -> list[Webhook]: ...
    def set_webhook(self, webhook: Webhook) -> None:
        """Replaces what users can change in a webhook, and whether it is enabled."""
        ...

    def delete_webhook(self, tenant_id: TenantId, webhook_id: str) -> bool:
        """Removes a webhook with its deliveries; False if there is none."""
        ...

    def lagging_webhooks(self, *, after: str, most: int) -> list[Webhook]:
        """Returns enabled webhooks, of all tenants, that have events to look at, by their ids."""
        ...

    def due_webhooks(self, *, after: str, now: datetime, most: int) -> list[str]:
        """Returns enabled webhooks, of all tenants, with deliveries that can be claimed."""
        ...

    def move_webhook(self, webhook_id: str, *, old: int, new: int) -> bool:
        """Moves a cursor; False if it is not where it was seen."""
        ...

    def note_delivery(
        self, webhook_id: str, *, now: datetime, status: int | None, ok: bool
    ) -> None: ...
    def add_deliveries(self, deliveries: Sequence[Delivery]) -> None: ...
    def claim_deliveries(
        self, webhook_id: str, *, now: datetime, until: datetime, most: int
    ) -> list[Delivery]:
        """Returns deliveries that are due, the longest due first, and nobody else's by now."""
        ...

    def find_delivery(self, tenant_id: TenantId, delivery_id: str) -> Delivery | None: ...
    def set_delivery(self, delivery: Delivery) -> None:
        """Writes how far a delivery is, whoever has claimed it."""
        ...

    def settle_delivery(self, delivery: Delivery, *, claimed: datetime) -> bool:
        """Writes how an attempt went; False if the claim until then is no longer the last."""
        ...

    def list_deliveries(self, webhook_id: str, *, below: int, most: int) -> list[Delivery]:
        """Returns the deliveries of events numbered below, newest first."""
        ...

    def purge_deliveries(self, *, before: datetime) -> int:
        """Removes what was finished by then; returns how many deliveries that were."""
        ...
