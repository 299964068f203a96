"""Deliveries of webhooks, as `trove_sdk.verify_webhook` believes them."""

from holdfast.engine.tenancy.webhooks import Parcel
from holdfast.server.work import delivery
from holdfast.signing import stamp


def sign(parcel: Parcel, now: int) -> dict[str, str]:
    """Returns the headers of a delivery: those that everybody gets, and theirs."""
    return {
        **delivery.sign(parcel, now),
        "X-Trove-Signature": stamp(parcel.webhook.secret, parcel.body, now=now),
        "X-Trove-Event": parcel.delivery.event_type,
        "X-Trove-Event-Id": parcel.delivery.event_id,
    }
