"""The clients of operators: `AdminClient` and `AsyncAdminClient`.

    admin = holdfast.AdminClient(api_key="…")
    key = admin.create_key("alice's agent", namespace="alice")
    admin.create_webhook("https://example.com/events", ["snapshot.created"], namespace="alice")

An admin's key opens no agent's data; an agent's key opens none of this.
"""

from typing import Final

from holdfast.operations.audit import (
    GetStorageSeries,
    GetWorkspaceHealth,
    GetWorkspaceRollbackSeries,
    GetWorkspaceTotals,
    VerifyAudit,
)
from holdfast.operations.keys import CreateKey, GetMe, ListKeys, RevokeKey
from holdfast.operations.namespaces import GetQuota, ListRunningTasks, Overview, SetQuota
from holdfast.operations.operation import takes
from holdfast.operations.upkeep import Collect, Verify
from holdfast.operations.webhooks import CreateWebhook, DeleteWebhook, ListWebhooks
from holdfast.progress import Progress, no_progress
from holdfast.sdk.calls import Async, Call, Download, F, Group, Sender, Sync, download, method
from holdfast.sdk.client import Awaiting, Waiting
from holdfast.sdk.content import Target
from holdfast.sdk.groups.events import Events
from holdfast.sdk.groups.operators import (
    Erasures,
    Keys,
    Logins,
    Namespaces,
    Webhooks,
    WorkspaceTraces,
)
from holdfast.sdk.lines import ReachWorkspace, line_to
from holdfast.sdk.reading import whole

MINE: Final = "me"
"""The workspace of the key itself."""


class Operator(Group[F]):
    """One workspace, as its operators see it; once for both clients."""

    def __init__(self, sender: Sender, *, workspace_id: str) -> None:
        super().__init__(sender)
        self.above = {"workspace_id": workspace_id}
        self.keys: Keys[F] = Keys(sender, workspace_id=workspace_id)
        self.logins: Logins[F] = Logins(sender, workspace_id=workspace_id)
        self.webhooks: Webhooks[F] = Webhooks(sender, workspace_id=workspace_id)
        self.namespaces: Namespaces[F] = Namespaces(sender, workspace_id=workspace_id)
        self.erasures: Erasures[F] = Erasures(sender, workspace_id=workspace_id)
        self.traces: WorkspaceTraces[F] = WorkspaceTraces(sender, workspace_id=workspace_id)
        self.events: Events[F] = Events(sender, workspace_id=workspace_id)

    # By the names of other clients

    create_key = method(CreateKey)
    list_keys = method(ListKeys)
    revoke_key = method(RevokeKey)
    create_webhook = method(CreateWebhook)
    list_webhooks = method(ListWebhooks)
    delete_webhook = method(DeleteWebhook)

    # Looking after

    collect = method(Collect)
    verify = method(Verify)
    quota = method(GetQuota)
    set_quota = method(SetQuota)
    me = method(GetMe)

    verify_audit = method(VerifyAudit)
    health = method(GetWorkspaceHealth)
    totals = method(GetWorkspaceTotals)
    overview = method(Overview)
    running_tasks = method(ListRunningTasks)
    rollback_series = method(GetWorkspaceRollbackSeries)
    storage_series = method(GetStorageSeries)

    @download
    def export_audit(self, target: Target, *, progress: Progress = no_progress) -> Download[int]:
        """Writes all traces to a file that `holdfast.verify_audit_file` checks without a server."""
        path = "/v1/workspaces/{workspace_id}/audit/export"
        ask = Call(method="GET", path=path, place=self.above, read=whole, is_slow=True)
        return Download(ask, target, lambda size: size, progress, begins_again=True)


class AdminClient(Operator[Sync], Waiting):
    """One workspace on a server; its methods wait for the answer."""

    @takes(ReachWorkspace)
    def __init__(self, given: ReachWorkspace) -> None:
        """Makes a client; without `workspace_id`, for the workspace that the key belongs to."""
        from holdfast.sdk.sending import SyncSender  # noqa: PLC0415 - loads the HTTP library

        super().__init__(SyncSender(line_to(given)), workspace_id=given.workspace_id or MINE)


class AsyncAdminClient(Operator[Async], Awaiting):
    """One workspace on a server; its methods are coroutines."""

    @takes(ReachWorkspace)
    def __init__(self, given: ReachWorkspace) -> None:
        """Makes a client; without `workspace_id`, for the workspace that the key belongs to."""
        from holdfast.sdk.awaiting import AsyncSender  # noqa: PLC0415 - loads the HTTP library

        super().__init__(AsyncSender(line_to(given)), workspace_id=given.workspace_id or MINE)
