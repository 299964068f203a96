"""Who is told of events: made, looked at, tried out, by a workspace's admins alone."""

import time
from typing import Any, Final

from holdfast.engine.tenancy.webhooks import check_url
from holdfast.errors import InvalidValue
from holdfast.model.webhooks import Delivery, DeliveryState, Webhook
from holdfast.server.outbound import NotPublic, Unreachable
from holdfast.server.paging import page_size, paged
from holdfast.server.requests import Caller, Request
from holdfast.server.routing import Route, Who, delete, get, patch, post
from holdfast.server.threads import Work
from holdfast.server.times import shown, shown_or_none
from holdfast.server.work.delivery import send
from holdfast.signing import standard_secret
from holdfast.wire.webhooks import (
    DeletedWebhookAnswer,
    DeliveryAnswer,
    DeliveryList,
    NewWebhookAnswer,
    TestAnswer,
    WebhookAnswer,
    WebhookList,
    WebhookPatch,
    WebhookRequest,
)

LISTED, MOST_LISTED = 50, 200
_HOOKS: Final = "/v1/workspaces/{workspace_id}/webhooks"
_HOOK: Final = f"{_HOOKS}/{{webhook_id}}"


@post(_HOOKS, status=201, who=Who.OPERATOR, work=Work.SLOW, is_secret=True)
def create(
    request: Request, caller: Caller, workspace_id: str, data: WebhookRequest
) -> NewWebhookAnswer:
    """Makes a webhook; its secret is in this answer and nowhere else."""
    _check_reachable(request, data.url)
    made = caller.vault.webhooks.create(
        data.url,
        events=data.events,
        namespace=data.namespace,
        description=data.description,
    )
    return _with_secret(made)


@get(_HOOKS, who=Who.OPERATOR)
def list_(caller: Caller, workspace_id: str) -> WebhookList:
    """Lists the webhooks, oldest first."""
    found = caller.vault.webhooks.list()
    return WebhookList(webhooks=[WebhookAnswer(**_fields(webhook)) for webhook in found])


@get(_HOOK, who=Who.OPERATOR)
def show(caller: Caller, workspace_id: str, webhook_id: str) -> WebhookAnswer:
    """Returns a webhook."""
    return WebhookAnswer(**_fields(caller.vault.webhooks.get(webhook_id)))


@patch(_HOOK, who=Who.OPERATOR, work=Work.SLOW)
def update(
    request: Request,
    caller: Caller,
    workspace_id: str,
    webhook_id: str,
    data: WebhookPatch,
) -> WebhookAnswer:
    """Changes what is given; one that is enabled again is told what it missed."""
    if data.url is not None:
        _check_reachable(request, data.url)
    changed = caller.vault.webhooks.update(
        webhook_id,
        url=data.url,
        events=data.events,
        description=data.description,
        enabled=data.enabled,
    )
    return WebhookAnswer(**_fields(changed))


@post(f"{_HOOK}/rotate", who=Who.OPERATOR, is_secret=True)
def rotate(caller: Caller, workspace_id: str, webhook_id: str) -> NewWebhookAnswer:
    """Gives a webhook another secret."""
    return _with_secret(caller.vault.webhooks.rotate(webhook_id))


@delete(_HOOK, who=Who.OPERATOR)
def remove(caller: Caller, workspace_id: str, webhook_id: str) -> DeletedWebhookAnswer:
    """Removes a webhook, and what is still on its way to it."""
    caller.vault.webhooks.delete(webhook_id)
    return DeletedWebhookAnswer(webhook_id=webhook_id, deleted=True)


@post(f"{_HOOK}/test", who=Who.OPERATOR, work=Work.SLOW)
def test(request: Request, caller: Caller, workspace_id: str, webhook_id: str) -> TestAnswer:
    """Sends a signed `webhook.test` at once, and says what came of it."""
    parcel = caller.vault.webhooks.make_test(caller.vault.webhooks.get(webhook_id))
    outcome = send(request.services.sender, parcel, now=int(time.time()))
    caller.vault.webhooks.note(webhook_id, outcome)
    return TestAnswer(
        ok=outcome.ok,
        event_id=parcel.delivery.event_id,
        status=outcome.status,
        error=outcome.error,
    )


@get(f"{_HOOK}/deliveries", who=Who.OPERATOR)
def deliveries(
    caller: Caller,
    workspace_id: str,
    webhook_id: str,
    limit: int | None = None,
    below: int = 2**62,
) -> DeliveryList:
    """Lists how deliveries went, those of the newest events first."""

    def fetch(most: int) -> list[Delivery]:
        most_below = min(below, 2**62)  # More than there can be, and no more than fits.
        return [*caller.vault.webhooks.deliveries(webhook_id, limit=most, below=most_below)]

    found, has_more = paged(fetch, page_size(limit, usual=LISTED, most=MOST_LISTED))
    return DeliveryList(deliveries=[_delivery(each) for each in found], has_more=has_more)


@post(f"{_HOOK}/deliveries/{{delivery_id}}/redeliver", who=Who.OPERATOR)
def redeliver(
    caller: Caller, workspace_id: str, webhook_id: str, delivery_id: str
) -> DeliveryAnswer:
    """Sends an event once more, however its delivery went."""
    return _delivery(caller.vault.webhooks.redeliver(webhook_id, delivery_id))


def _check_reachable(request: Request, url: str) -> None:
    """Refuses an address that nothing would ever be sent to; others may come to life later."""
    check_url(url)
    try:
        request.services.sender.check(url)
    except NotPublic as exc:
        raise InvalidValue(f"{exc}: webhooks lead to the public internet") from exc
    except Unreachable:
        return


def _with_secret(webhook: Webhook) -> NewWebhookAnswer:
    return NewWebhookAnswer(
        **_fields(webhook),
        signing_secret=webhook.secret,
        standard_secret=standard_secret(webhook.secret),
    )


def _fields(webhook: Webhook) -> dict[str, Any]:
    return {
        "webhook_id": webhook.id,
        "url": webhook.url,
        "events": list(webhook.events),
        "namespace": webhook.namespace,
        "description": webhook.description,
        "enabled": webhook.enabled,
        "disabled_reason": webhook.disabled_reason,
        "created_at": shown(webhook.created_at),
        "last_delivery_at": shown_or_none(webhook.last_delivery_at),
        "last_delivery_ok": webhook.last_delivery_ok,
        "last_delivery_status": webhook.last_delivery_status,
    }


def _delivery(delivery: Delivery) -> DeliveryAnswer:
    is_pending = delivery.state is DeliveryState.PENDING
    return DeliveryAnswer(
        delivery_id=delivery.id,
        webhook_id=delivery.webhook_id,
        event_id=delivery.event_id,
        event_type=delivery.event_type,
        event_number=delivery.event_number,
        state=delivery.state.value,
        attempts=delivery.attempts,
        created_at=shown(delivery.created_at),
        next_at=shown(delivery.next_at) if is_pending else None,
        finished_at=shown_or_none(delivery.finished_at),
        status=delivery.status,
        error=delivery.error,
    )


ROUTES: Final[list[Route]] = [
    create,
    list_,
    show,
    update,
    rotate,
    remove,
    test,
    deliveries,
    redeliver,
]
