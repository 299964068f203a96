"""What operators do: keys, webhooks, namespaces as a whole.

`admin.keys`, `admin.webhooks`, `admin.namespaces`.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.errors import InvalidName
from holdfast.model.basics import SnapshotInfo
from holdfast.model.upkeep import Policy
from holdfast.model.webhooks import Delivery
from holdfast.operations.keys import CreateKey, ListKeys, RevokeKey
from holdfast.operations.namespaces import (
    DeleteNamespace,
    GetNamespace,
    GetNamespaceQuota,
    GetRetention,
    ListDeletedNamespaces,
    ListNamespaces,
    RecoverEntity,
    RecoverMemory,
    RecoverNamespace,
    SetNamespaceQuota,
    SetRetention,
)
from holdfast.operations.webhooks import (
    CreateWebhook,
    DeleteWebhook,
    GetWebhook,
    ListDeliveries,
    ListWebhooks,
    RedeliverEvent,
    RotateWebhook,
    TestWebhook,
    UpdateWebhook,
)
from holdfast.sdk.calls import (
    Call,
    F,
    Group,
    Pages,
    Sender,
    call,
    method,
    pages,
    paging,
)
from holdfast.sdk.reading import (
    reads,
    to_snapshot,
)
from holdfast.wire.namespaces import (
    DeletedSnapshotList,
    ForgetRequest,
    ForgottenAnswer,
    RetentionBody,
)
from holdfast.wire.snapshots import SnapshotAnswer

PAGE: Final = 200
T = TypeVar("T")
_WORKSPACE: Final = "/v1/workspaces/{workspace_id}"
_NAMESPACE: Final = f"{_WORKSPACE}/namespaces/-"
"""The name itself is in a header: any character can be in it there."""


SnapshotList = list[SnapshotInfo]
"""`list` is the name of methods below."""


class OperatorGroup(Group[F]):
    """Calls about one workspace."""

    def __init__(self, sender: Sender, *, workspace_id: str) -> None:
        super().__init__(sender)
        self.above = self._workspace = {"workspace_id": workspace_id}


class Keys(OperatorGroup[F]):
    """API keys of the workspace."""

    create = method(CreateKey)
    list = method(ListKeys)
    revoke = method(RevokeKey)


class Webhooks(OperatorGroup[F]):
    """Addresses that are told of events."""

    create = method(CreateWebhook)
    list = method(ListWebhooks)
    get = method(GetWebhook)
    update = method(UpdateWebhook)
    rotate = method(RotateWebhook)
    delete = method(DeleteWebhook)
    test = method(TestWebhook)
    deliveries = method(ListDeliveries)
    redeliver = method(RedeliverEvent)

    @pages
    def iter_deliveries(self, webhook_id: str) -> Pages[Delivery]:
        """Goes through all deliveries that are still kept, those of the newest events first."""
        return paging(ListDeliveries(webhook_id, limit=None), self.above)


class Namespaces(OperatorGroup[F]):
    """The namespaces of the workspace, with what is an operator's to decide about them."""

    list = method(ListNamespaces)
    get = method(GetNamespace)
    delete = method(DeleteNamespace)
    deleted = method(ListDeletedNamespaces)
    recover = method(RecoverNamespace)
    retention = method(GetRetention)
    set_retention = method(SetRetention)
    quota = method(GetNamespaceQuota)
    set_quota = method(SetNamespaceQuota)

    @pages
    def iter(self) -> Pages[str]:
        """Goes through the names of the namespaces, in order."""
        return paging(ListNamespaces(), self.above)

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
    def deleted_snapshots(self, name: str) -> Call[SnapshotList]:
        """Returns the deleted snapshots that can still be recovered, newest first."""
        read = reads(DeletedSnapshotList, lambda answer: [to_snapshot(x) for x in answer.snapshots])
        return self._about("GET", name, "/deleted-snapshots", read)

    @call
    def recover_snapshot(self, name: str, snapshot_id: str) -> Call[SnapshotInfo]:
        """Brings a deleted snapshot back during the grace period."""
        read = reads(SnapshotAnswer, to_snapshot)
        return self._recover(name, "/snapshots/{part}/recover", snapshot_id, read)

    recover_memory = method(RecoverMemory)
    recover_entity = method(RecoverEntity)

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
