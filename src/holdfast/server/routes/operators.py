"""What operators do, where a server says or does more than a vault.

Of keys, what does not fit together and whose a key is; webhooks lead to addresses that are looked
at, and get a test; what is erased for good is said once more, since there is no way back.
"""

import time
from typing import Final

from holdfast.engine.erasing.door import Erasures
from holdfast.engine.tenancy.keys import Keys
from holdfast.engine.tenancy.webhooks import Webhooks, check_url
from holdfast.errors import InvalidValue
from holdfast.model.erasures import Certificate
from holdfast.model.keys import Me, NewKey
from holdfast.model.webhooks import NewWebhook, Webhook, WebhookTest
from holdfast.operations.keys import CreateKey, GetMe
from holdfast.operations.upkeep import Erase
from holdfast.operations.webhooks import CreateWebhook, TestWebhook, UpdateWebhook
from holdfast.server.doors import answers, routes_of
from holdfast.server.outbound import NotPublic, Unreachable
from holdfast.server.problems import Unfit
from holdfast.server.requests import Caller, Services
from holdfast.server.routing import Route
from holdfast.server.work.delivery import send


@answers(CreateKey)
def create_key(caller: Caller, wanted: CreateKey) -> NewKey:
    """Makes a key of one kind."""
    if wanted.admin and wanted.add_only:
        raise Unfit("a key is an admin's or adds only, not both", param="add_only")
    return caller.vault.keys.create(**vars(wanted))


@answers(GetMe)
def me(caller: Caller, _: GetMe) -> Me:
    """Says whose key this is, and what it opens."""
    key = caller.key
    return Me(
        workspace_id=caller.vault.tenant_id,
        key_id=key.id,
        key_name=key.name,
        scope=key.scope,
        namespace=key.namespace,
        capabilities=["files", "snapshots", "sessions", "store", "events", "webhooks"],
    )


@answers(CreateWebhook)
def create_webhook(caller: Caller, wanted: CreateWebhook, services: Services) -> NewWebhook:
    """Makes a webhook whose address is one that something may be sent to."""
    _check_reachable(services, wanted.url)
    return caller.vault.webhooks.create(**vars(wanted))


@answers(UpdateWebhook)
def update_webhook(caller: Caller, wanted: UpdateWebhook, services: Services) -> Webhook:
    """Changes a webhook; its address to one that something may be sent to."""
    if wanted.url is not None:
        _check_reachable(services, wanted.url)
    return caller.vault.webhooks.update(**vars(wanted))


@answers(TestWebhook)
def test_webhook(caller: Caller, wanted: TestWebhook, services: Services) -> WebhookTest:
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


@answers(Erase)
def erase(caller: Caller, wanted: Erase) -> Certificate:
    """Erases what is named, and confirmed."""
    if wanted.confirm != (wanted.user_id or wanted.session_id or wanted.namespace):
        raise Unfit("confirm is the id or the name of what is to be erased", param="confirm")
    erasures = caller.vault.erasures
    if wanted.user_id is not None:
        if wanted.namespace or wanted.session_id or wanted.number is not None:
            raise Unfit("a user is erased from all namespaces: say user_id alone", param="user_id")
        return erasures.user(wanted.user_id)
    if wanted.namespace is None:
        raise Unfit("say in which namespace the session is", param="namespace")
    if wanted.session_id is None:
        return erasures.namespace(wanted.namespace, number=wanted.number)
    if wanted.number is not None:
        raise Unfit("a number is for a whole namespace", param="number")
    return erasures.session(wanted.namespace, wanted.session_id)


KEYS: Final[list[Route]] = [
    *routes_of(Keys, lambda caller: caller.vault.keys, without=[CreateKey]),
    create_key,
    me,
]

ERASURES: Final[list[Route]] = [
    *routes_of(Erasures, lambda caller: caller.vault.erasures),
    erase,
]

WEBHOOKS: Final[list[Route]] = [
    *routes_of(
        Webhooks,
        lambda caller: caller.vault.webhooks,
        without=[CreateWebhook, UpdateWebhook],
    ),
    create_webhook,
    update_webhook,
    test_webhook,
]
