"""What operators do: keys, webhooks, namespaces as a whole.

`admin.keys`, `admin.webhooks`, `admin.namespaces`.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Final, TypeVar

import msgspec

from holdfast.errors import InvalidName
from holdfast.model.basics import SnapshotInfo
from holdfast.model.entities import Entity
from holdfast.model.memories import Memory
from holdfast.model.upkeep import Policy
from holdfast.sdk.calls import (
    Call,
    F,
    Group,
    Page,
    Pages,
    Sender,
    Steps,
    call,
    flow,
    page_of,
    pages,
)
from holdfast.sdk.reading import (
    as_it_is,
    nothing,
    reads,
    texts,
    texts_or_none,
    to_entity,
    to_memory,
    to_snapshot,
)
from holdfast.sdk.values import (
    DeletedNamespace,
    Delivery,
    Key,
    NamespaceInfo,
    NewKey,
    NewWebhook,
    Quota,
    Webhook,
    WebhookTest,
)
from holdfast.wire.entities import EntityAnswer
from holdfast.wire.keys import KeyRequest
from holdfast.wire.memories import MemoryAnswer
from holdfast.wire.namespaces import (
    DeletedSnapshotList,
    ForgetRequest,
    ForgottenAnswer,
    NamespaceList,
    QuotaRequest,
    RecoverRequest,
    RetentionBody,
)
from holdfast.wire.snapshots import SnapshotAnswer
from holdfast.wire.webhooks import WebhookPatch, WebhookRequest

PAGE: Final = 200
T = TypeVar("T")
_WORKSPACE: Final = "/v1/workspaces/{workspace_id}"
_KEYS: Final = f"{_WORKSPACE}/keys"
_HOOKS: Final = f"{_WORKSPACE}/webhooks"
_HOOK: Final = f"{_HOOKS}/{{webhook_id}}"
_NAMESPACE: Final = f"{_WORKSPACE}/namespaces/-"
"""The name itself is in a header: any character can be in it there."""


DeliveryList = list[Delivery]
DeletedList = list[DeletedNamespace]
SnapshotList = list[SnapshotInfo]
"""`list` is the name of methods below."""


class _KeyList(msgspec.Struct):
    keys: list[Key]


class _WebhookList(msgspec.Struct):
    webhooks: list[Webhook]


class _DeliveryList(msgspec.Struct):
    deliveries: list[Delivery]
    has_more: bool


class _DeletedList(msgspec.Struct):
    deleted: list[DeletedNamespace]


class OperatorGroup(Group[F]):
    """Calls about one workspace."""

    def __init__(self, sender: Sender, *, workspace_id: str) -> None:
        super().__init__(sender)
        self._workspace = {"workspace_id": workspace_id}


class Keys(OperatorGroup[F]):
    """API keys of the workspace."""

    @call
    def create(
        self,
        name: str,
        *,
        namespace: str | None = None,
        admin: bool = False,
        add_only: bool = False,
        expires_in: timedelta | None = None,
        rate_limit: int | None = None,
    ) -> Call[NewKey]:
        """Makes a key; its secret is in this answer and nowhere else.

        With `namespace`, it reaches that one alone. With `add_only`, it takes nothing of the
        history away. `rate_limit` is requests a minute.
        """
        body = KeyRequest(
            name=name,
            namespace=namespace,
            admin=admin,
            add_only=add_only,
            expires_in_seconds=None if expires_in is None else int(expires_in.total_seconds()),
            rate_limit=rate_limit,
        )
        read = as_it_is(NewKey)
        return Call(method="POST", path=_KEYS, place=self._workspace, body=body, read=read)

    @call
    def list(self) -> Call[list[Key]]:
        """Returns the keys that are not revoked, oldest first."""
        read = reads(_KeyList, lambda answer: answer.keys)
        return Call(method="GET", path=_KEYS, place=self._workspace, read=read)

    @call
    def revoke(self, key_id: str) -> Call[None]:
        """Revokes a key: the next request with it is refused."""
        place = {**self._workspace, "key_id": key_id}
        return Call(method="DELETE", path=f"{_KEYS}/{{key_id}}", place=place, read=nothing)


class Webhooks(OperatorGroup[F]):
    """Addresses that are told of events."""

    @call
    def create(
        self,
        url: str,
        events: Iterable[str] | None = None,
        *,
        namespace: str | None = None,
        description: str | None = None,
    ) -> Call[NewWebhook]:
        """Makes a webhook; its secret is in this answer and nowhere else. Without `events`, all."""
        body = WebhookRequest(
            url=url,
            events=None if events is None else texts("events", events),
            namespace=namespace,
            description=description,
        )
        read = as_it_is(NewWebhook)
        return Call(method="POST", path=_HOOKS, place=self._workspace, body=body, read=read)

    @call
    def list(self) -> Call[list[Webhook]]:
        """Returns the webhooks, oldest first."""
        read = reads(_WebhookList, lambda answer: answer.webhooks)
        return Call(method="GET", path=_HOOKS, place=self._workspace, read=read)

    @call
    def get(self, webhook_id: str) -> Call[Webhook]:
        """Returns a webhook; raises `WebhookNotFound`."""
        return Call(method="GET", path=_HOOK, place=self._place(webhook_id), read=as_it_is(Webhook))

    @call
    def update(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        events: Iterable[str] | None = None,
        description: str | None = None,
        enabled: bool | None = None,
    ) -> Call[Webhook]:
        """Changes what is given."""
        kinds = texts_or_none("events", events)
        body = WebhookPatch(url=url, events=kinds, description=description, enabled=enabled)
        place, read = self._place(webhook_id), as_it_is(Webhook)
        return Call(method="PATCH", path=_HOOK, place=place, body=body, read=read)

    @call
    def rotate(self, webhook_id: str) -> Call[NewWebhook]:
        """Gives a webhook another secret, which is in this answer and nowhere else."""
        place, read = self._place(webhook_id), as_it_is(NewWebhook)
        return Call(method="POST", path=f"{_HOOK}/rotate", place=place, read=read)

    @call
    def delete(self, webhook_id: str) -> Call[None]:
        """Takes a webhook away."""
        return Call(method="DELETE", path=_HOOK, place=self._place(webhook_id), read=nothing)

    @call
    def test(self, webhook_id: str) -> Call[WebhookTest]:
        """Sends one event now, and says what came of it."""
        place, read = self._place(webhook_id), as_it_is(WebhookTest)
        return Call(method="POST", path=f"{_HOOK}/test", place=place, read=read)

    @flow
    def deliveries(self, webhook_id: str, *, limit: int = 50) -> Steps[DeliveryList]:
        """Returns how events are getting to an address, those of the newest first."""
        return (yield from self._deliveries(webhook_id, limit).collect())

    @pages
    def iter_deliveries(self, webhook_id: str) -> Pages[Delivery]:
        """Goes through all deliveries that are still kept, those of the newest events first."""
        return self._deliveries(webhook_id, None)

    @call
    def redeliver(self, webhook_id: str, delivery_id: str) -> Call[Delivery]:
        """Sends an event once more."""
        place = {**self._place(webhook_id), "delivery_id": delivery_id}
        path = f"{_HOOK}/deliveries/{{delivery_id}}/redeliver"
        return Call(method="POST", path=path, place=place, read=as_it_is(Delivery))

    def _place(self, webhook_id: str) -> dict[str, str]:
        return {**self._workspace, "webhook_id": webhook_id}

    def _deliveries(self, webhook_id: str, limit: int | None) -> Pages[Delivery]:
        def read(answer: _DeliveryList) -> Page[Delivery]:
            return page_of(
                answer.deliveries,
                has_more=answer.has_more,
                cursor=lambda last: str(last.event_number),
            )

        def ask(cursor: str | None, most: int) -> Call[Page[Delivery]]:
            return Call(
                method="GET",
                path=f"{_HOOK}/deliveries",
                place=self._place(webhook_id),
                query={"limit": most, "below": None if cursor is None else int(cursor)},
                read=reads(_DeliveryList, read),
            )

        return Pages(PAGE, ask, limit)


class Namespaces(OperatorGroup[F]):
    """The namespaces of the workspace, with what is an operator's to decide about them."""

    @flow
    def list(self) -> Steps[list[str]]:
        """Returns the names of the namespaces, in order."""
        return (yield from self._names().collect())

    @pages
    def iter(self) -> Pages[str]:
        """Goes through the names of the namespaces, in order."""
        return self._names()

    @call
    def get(self, name: str) -> Call[NamespaceInfo]:
        """Returns a namespace; raises `NamespaceNotFound`."""
        return self._about("GET", name, "", as_it_is(NamespaceInfo))

    @call
    def delete(self, name: str) -> Call[None]:
        """Deletes a namespace with its timeline; recoverable until the grace period ends."""
        return self._about("DELETE", name, "", nothing)

    @call
    def deleted(self) -> Call[DeletedList]:
        """Returns the deleted namespaces that can still be recovered, newest first."""
        read = reads(_DeletedList, lambda answer: answer.deleted)
        path = f"{_WORKSPACE}/deleted-namespaces"
        return Call(method="GET", path=path, place=self._workspace, read=read)

    @call
    def recover(
        self, name: str, *, number: int | None = None, as_name: str | None = None
    ) -> Call[NamespaceInfo]:
        """Brings a deleted namespace back during the grace period.

        Of several with this name the last deleted one, or that with the `number` that `deleted`
        tells. `as_name` gives it another name, where its own is taken.
        """
        body = RecoverRequest(number=number, as_name=as_name)
        return self._about("POST", name, "/recover", as_it_is(NamespaceInfo), body=body)

    @call
    def retention(self, name: str) -> Call[Policy]:
        """Returns which snapshots are kept."""
        return self._about("GET", name, "/retention", as_it_is(Policy))

    @call
    def set_retention(
        self, name: str, *, keep_last: int = 0, keep_daily: int = 0, keep_weekly: int = 0
    ) -> Call[Policy]:
        """Sets which snapshots are kept; all at 0 means that only age decides."""
        body = RetentionBody(keep_last=keep_last, keep_daily=keep_daily, keep_weekly=keep_weekly)
        return self._about("PUT", name, "/retention", as_it_is(Policy), body=body)

    @call
    def forget(
        self, name: str, *, policy: Policy | None = None, dry_run: bool = False
    ) -> Call[SnapshotList]:
        """Takes expired snapshots, and those that the policy does not keep, off the timeline.

        With `policy`, as that says, and not as the namespace's own does.
        """
        read = reads(ForgottenAnswer, lambda answer: [to_snapshot(x) for x in answer.snapshots])
        body = ForgetRequest(dry_run=dry_run, policy=None if policy is None else _rules(policy))
        return self._about("POST", name, "/forget", read, body=body)

    @call
    def quota(self, name: str) -> Call[Quota]:
        """Returns how many bytes a namespace may hold, and holds."""
        return self._about("GET", name, "/quota", as_it_is(Quota))

    @call
    def set_quota(self, name: str, quota_bytes: int | None) -> Call[Quota]:
        """Limits how many bytes a namespace may hold; None takes the limit away."""
        body = QuotaRequest(quota_bytes=quota_bytes)
        return self._about("PUT", name, "/quota", as_it_is(Quota), body=body)

    @call
    def deleted_snapshots(self, name: str) -> Call[SnapshotList]:
        """Returns the deleted snapshots that can still be recovered, newest first."""
        read = reads(DeletedSnapshotList, lambda answer: [to_snapshot(x) for x in answer.snapshots])
        return self._about("GET", name, "/deleted-snapshots", read)

    @call
    def recover_snapshot(self, name: str, snapshot_id: str) -> Call[SnapshotInfo]:
        """Brings a deleted snapshot back during the grace period."""
        read = reads(SnapshotAnswer, to_snapshot)
        return self._recover(name, "/snapshots/{part}/recover", snapshot_id, read)

    @call
    def recover_memory(self, name: str, memory_id: str) -> Call[Memory]:
        """Brings a deleted memory back during the grace period."""
        read = reads(MemoryAnswer, to_memory)
        return self._recover(name, "/memories/{part}/recover", memory_id, read)

    @call
    def recover_entity(self, name: str, row_id: str) -> Call[Entity]:
        """Brings a deleted entity back during the grace period."""
        read = reads(EntityAnswer, to_entity)
        return self._recover(name, "/entities/{part}/recover", row_id, read)

    def _names(self) -> Pages[str]:
        def read(answer: NamespaceList) -> Page[str]:
            return page_of(answer.namespaces, has_more=answer.has_more, cursor=str)

        def ask(cursor: str | None, most: int) -> Call[Page[str]]:
            return Call(
                method="GET",
                path=f"{_WORKSPACE}/namespaces",
                place=self._workspace,
                query={"limit": most, "starting_after": cursor},
                read=reads(NamespaceList, read),
            )

        return Pages(PAGE, ask)

    def _about(
        self,
        method: str,
        name: str,
        what: str,
        read: Callable[[bytes], T],
        *,
        body: object = None,
    ) -> Call[T]:
        return Call(
            method=method,
            path=_NAMESPACE + what,
            place=self._workspace,
            headers=_named(name),
            body=body,
            read=read,
        )

    def _recover(self, name: str, path: str, part: str, read: Callable[[bytes], T]) -> Call[T]:
        return Call(
            method="POST",
            path=_NAMESPACE + path,
            place={**self._workspace, "part": part},
            headers=_named(name),
            read=read,
        )


def _named(name: str) -> dict[str, str]:
    """Returns the header that says which namespace is meant: it is called `-` in the path."""
    if not name:
        # Without a name it would be the namespace that really is called so.
        raise InvalidName("namespace", name, reason="it is empty")
    return {"X-Namespace": name}


def _rules(policy: Policy) -> RetentionBody:
    return RetentionBody(
        keep_last=policy.keep_last,
        keep_daily=policy.keep_daily,
        keep_weekly=policy.keep_weekly,
    )
