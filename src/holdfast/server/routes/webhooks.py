"""Webhooks, where a server does more than a vault: it looks at addresses, and sends a test."""

import time
from typing import Final

from holdfast.engine.tenancy.webhooks import Webhooks, check_url
from holdfast.errors import InvalidValue
from holdfast.model.webhooks import NewWebhook, Webhook, WebhookTest
from holdfast.operations.webhooks import CreateWebhook, TestWebhook, UpdateWebhook
from holdfast.server.doors import answers, routes_of
from holdfast.server.outbound import NotPublic, Unreachable
from holdfast.server.requests import Caller, Services
from holdfast.server.routing import Route
from holdfast.server.work.delivery import send


@answers(CreateWebhook)
def create(caller: Caller, wanted: CreateWebhook, services: Services) -> NewWebhook:
    """Makes a webhook whose address is one that something may be sent to."""
    _check_reachable(services, wanted.url)
    return caller.vault.webhooks.create(**vars(wanted))


@answers(UpdateWebhook)
def update(caller: Caller, wanted: UpdateWebhook, services: Services) -> Webhook:
    """Changes a webhook; its address to one that something may be sent to."""
    if wanted.url is not None:
        _check_reachable(services, wanted.url)
    return caller.vault.webhooks.update(**vars(wanted))


@answers(TestWebhook)
def test(caller: Caller, wanted: TestWebhook, services: Services) -> WebhookTest:
    """Sends a test."""
    hooks = caller.vault.webhooks
    parcel = hooks.make_test(hooks.get(wanted.webhook_id))
    outcome = send(services.sender, parcel, now=int(time.time()), sign=services.sign)
    hooks.note(wanted.webhook_id, outcome)
    return WebhookTest(
        ok=outcome.ok,
        event_id=parcel.delivery.event_id,
        status=outcome.status,
        error=outcome.error,
    )


def _check_reachable(services: Services, url: str) -> None:
    """Refuses an address that nothing would ever be sent to; others may come to life later."""
    check_url(url)
    try:
        services.sender.check(url)
    except NotPublic as exc:
        raise InvalidValue(f"{exc}: webhooks lead to the public internet") from exc
    except Unreachable:
        return


ROUTES: Final[list[Route]] = [
    *routes_of(
        Webhooks,
        lambda caller: caller.vault.webhooks,
        without=[CreateWebhook, UpdateWebhook],
    ),
    create,
    update,
    test,
]
