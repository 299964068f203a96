"""Events, page by page, and webhooks: who else is told of them.

Of events, admins see everything, an agent's key one namespace; webhooks are for operators.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from datetime import datetime
from typing import Annotated, Final

from holdfast.model.events import EventPage
from holdfast.model.marks import Shape
from holdfast.model.webhooks import Delivery, NewWebhook, SentDelivery, Webhook, WebhookTest
from holdfast.operations.operation import WORKSPACE, Operation, Paged, Who, Work

_ALL: Final = f"{WORKSPACE}/webhooks"
_ONE: Final = f"{_ALL}/{{webhook_id}}"


class CreateWebhook(
    Operation[NewWebhook],
    post=_ALL,
    status=201,
    who=Who.OPERATOR,
    work=Work.SLOW,
    is_secret=True,
):
    """Makes a webhook; its secret is in this answer and nowhere else.

    It is told of what happens from now on: of some types of `events`, or of all; with `namespace`,
    in that one alone.
    """

    url: str
    events: Sequence[str] | None = None
    _: KW_ONLY
    namespace: str | None = None
    description: str | None = None


class ListWebhooks(Operation[list[Webhook]], get=_ALL, who=Who.OPERATOR, under="webhooks"):
    """Returns the webhooks, oldest first."""


class GetWebhook(Operation[Webhook], get=_ONE, who=Who.OPERATOR):
    """Returns a webhook; raises `WebhookNotFound`."""

    webhook_id: str


class UpdateWebhook(Operation[Webhook], patch=_ONE, who=Who.OPERATOR, work=Work.SLOW):
    """Changes what is given; one that is enabled again is told what it missed."""

    webhook_id: str
    _: KW_ONLY
    url: str | None = None
    events: Sequence[str] | None = None
    description: str | None = None
    enabled: bool | None = None


class RotateWebhook(Operation[NewWebhook], post=f"{_ONE}/rotate", who=Who.OPERATOR, is_secret=True):
    """Gives a webhook another secret, which is in this answer and nowhere else.

    What is sent from now on is signed with it.
    """

    webhook_id: str


class DeleteWebhook(
    Operation[None], delete=_ONE, who=Who.OPERATOR, done="deleted", repeats=("webhook_id",)
):
    """Takes a webhook away, and what is still on its way to it."""

    webhook_id: str


class TestWebhook(Operation[WebhookTest], post=f"{_ONE}/test", who=Who.OPERATOR, work=Work.SLOW):
    """Sends a signed `webhook.test` at once, and says what came of it."""

    webhook_id: str


class ListDeliveries(
    Operation[list[Delivery]],
    get=f"{_ONE}/deliveries",
    who=Who.OPERATOR,
    under="deliveries",
    paged=Paged(cursor="below", last="event_number", usual=50, most=200),
):
    """Returns how events are getting to an address, those of the newest first.

    `below` goes on under the number of an event.
    """

    webhook_id: str
    _: KW_ONLY
    limit: int | None = 50
    below: int | None = None


class GetDelivery(
    Operation[SentDelivery], get=f"{_ONE}/deliveries/{{delivery_id}}", who=Who.OPERATOR
):
    """Returns how one event is getting to an address, and the body that is sent.

    None in place of a body once the event is no longer kept. Raises `WebhookNotFound`.
    """

    webhook_id: str
    delivery_id: str


class RedeliverEvent(
    Operation[Delivery],
    post=f"{_ONE}/deliveries/{{delivery_id}}/redeliver",
    who=Who.OPERATOR,
):
    """Sends an event once more, however its delivery went.

    What is on its way already is not sent twice at once; that of a webhook that is disabled waits
    until it is enabled.
    """

    webhook_id: str
    delivery_id: str


def split_types(text: str) -> list[str]:
    """Returns the types of events that a query names, with commas between them."""
    return [kind.strip() for kind in text.split(",") if kind.strip()]


_Types = Annotated[Sequence[str], Shape(str, ",".join, split_types)]

LISTED: Final = Paged("cursor", None, usual=20, most=200)
EVENTS: Final = f"{WORKSPACE}/events"


class ListEvents(Operation[EventPage], get=EVENTS, part=LISTED, who=Who.KEY):
    """Returns events of some types, or all, newest first: those since an instant.

    `cursor` goes on where a page ended.
    """

    _: KW_ONLY
    types: _Types | None = None
    since: datetime | None = None
    namespace: str | None = None
    limit: int | None = None
    cursor: str | None = None
