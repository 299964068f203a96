"""What operators do: keys, webhooks, namespaces as a whole, what is erased for good."""

from holdfast.model.erasures import Certificate
from holdfast.model.traces import TraceInfo
from holdfast.model.webhooks import Delivery
from holdfast.operations.keys import (
    ApproveLogin,
    CreateKey,
    DenyLogin,
    FindLogin,
    ListKeys,
    RevokeKey,
)
from holdfast.operations.namespaces import (
    DeleteNamespace,
    ForgetSnapshots,
    GetNamespace,
    GetNamespaceQuota,
    GetRetention,
    ListDeletedNamespaces,
    ListDeletedSnapshots,
    ListNamespaces,
    RecoverEntity,
    RecoverMemory,
    RecoverNamespace,
    RecoverSnapshot,
    SetNamespaceQuota,
    SetRetention,
)
from holdfast.operations.traces import GetWorkspaceTrace, ListWorkspaceTraces
from holdfast.operations.upkeep import Erase, ListErasures
from holdfast.operations.webhooks import (
    CreateWebhook,
    DeleteWebhook,
    GetDelivery,
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
    all_of,
    asking,
    call,
    method,
    pages,
    paging,
)


class OperatorGroup(Group[F]):
    """Calls about one workspace."""

    def __init__(self, sender: Sender, *, workspace_id: str) -> None:
        super().__init__(sender)
        self.above = {"workspace_id": workspace_id}


class Keys(OperatorGroup[F]):
    """API keys of the workspace."""

    create = method(CreateKey)
    list = method(ListKeys)
    revoke = method(RevokeKey)


class Logins(OperatorGroup[F]):
    """Programs that wait for a person to sign them in."""

    find = method(FindLogin)
    approve = method(ApproveLogin)
    deny = method(DenyLogin)


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
    delivery = method(GetDelivery)
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

    forget = method(ForgetSnapshots)
    deleted_snapshots = method(ListDeletedSnapshots)
    recover_snapshot = method(RecoverSnapshot)
    recover_memory = method(RecoverMemory)
    recover_entity = method(RecoverEntity)


class WorkspaceTraces(OperatorGroup[F]):
    """What happened in all namespaces of a workspace, and to the workspace itself."""

    list = method(ListWorkspaceTraces)
    get = method(GetWorkspaceTrace)

    @pages
    def iter(
        self,
        *,
        session_id: str | None = None,
        action: str | None = None,
        actor: str | None = None,
        task_id: str | None = None,
    ) -> Pages[TraceInfo]:
        """Goes through all traces, newest first."""
        wanted = ListWorkspaceTraces(
            session_id=session_id, action=action, actor=actor, task_id=task_id
        )
        return all_of(wanted, self.above)


class Erasures(OperatorGroup[F]):
    """What is erased for good, with all bytes that nothing else needs: there is no way back."""

    list = method(ListErasures)

    @call
    def namespace(self, name: str, *, number: int | None = None) -> Call[Certificate]:
        """Erases a namespace.

        Of several with this name the live one, else the last deleted, or that with the `number`
        that `namespaces.deleted` tells. Namespaces that were forked from it keep what they hold.
        """
        return asking(Erase(confirm=name, namespace=name, number=number), self.above)

    @call
    def session(self, namespace: str, session_id: str) -> Call[Certificate]:
        """Erases a session: state, conversation, history, memories and entities.

        Snapshots that held it get a root without it. Forks of it keep what they hold.
        """
        wanted = Erase(confirm=session_id, namespace=namespace, session_id=session_id)
        return asking(wanted, self.above)

    @call
    def user(self, user_id: str) -> Call[Certificate]:
        """Erases all that is known to be a user's, in all namespaces, deleted ones too."""
        return asking(Erase(confirm=user_id, user_id=user_id), self.above)
