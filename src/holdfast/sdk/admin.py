"""The clients of operators: `AdminClient` and `AsyncAdminClient`.

    admin = holdfast.AdminClient(api_key="…")
    key = admin.create_key("alice's agent", namespace="alice")
    admin.create_webhook("https://example.com/events", ["snapshot.created"], namespace="alice")

An admin's key opens no agent's data; an agent's key opens none of this.
"""

from datetime import timedelta
from typing import Final

from holdfast.model.entities import Totals
from holdfast.model.health import Health, Thresholds
from holdfast.model.upkeep import AuditReport
from holdfast.operations.keys import CreateKey, GetMe, ListKeys, RevokeKey
from holdfast.operations.namespaces import GetQuota, SetQuota
from holdfast.operations.upkeep import Collect, Verify
from holdfast.operations.webhooks import CreateWebhook, DeleteWebhook, ListWebhooks
from holdfast.progress import Progress, no_progress
from holdfast.sdk.agent import DAY, health_query
from holdfast.sdk.calls import Async, Call, Download, F, Group, Sender, Sync, call, download, method
from holdfast.sdk.content import Target
from holdfast.sdk.forms import Awaiting, Waiting
from holdfast.sdk.groups.erasures import Erasures
from holdfast.sdk.groups.events import Events
from holdfast.sdk.groups.operators import Keys, Namespaces, Webhooks, WorkspaceTraces
from holdfast.sdk.lines import TIMEOUT_S, line_for
from holdfast.sdk.reading import read_report, read_totals, reads, to_health, whole
from holdfast.wire.audit import RollbackRateAnswer

MINE: Final = "me"
"""The workspace of the key itself."""

_WORKSPACE: Final = "/v1/workspaces/{workspace_id}"


class Operator(Group[F]):
    """One workspace, as its operators see it; once for both clients."""

    def __init__(self, sender: Sender, *, workspace_id: str) -> None:
        super().__init__(sender)
        self.above = self._workspace = {"workspace_id": workspace_id}
        self.keys: Keys[F] = Keys(sender, workspace_id=workspace_id)
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

    @call
    def verify_audit(self, *, anchor: str | None = None) -> Call[AuditReport]:
        """Checks that no trace was edited, removed, inserted or moved since it was written.

        `anchor` is that of an earlier report: the chain has to go through it.
        """
        return Call(
            method="GET",
            path=f"{_WORKSPACE}/audit/verify",
            place=self._workspace,
            query={"anchor": anchor},
            read=read_report,
            is_slow=True,
        )

    @download
    def export_audit(self, target: Target, *, progress: Progress = no_progress) -> Download[int]:
        """Writes all traces to a file that `holdfast.verify_audit_file` checks without a server."""
        path = f"{_WORKSPACE}/audit/export"
        ask = Call(method="GET", path=path, place=self._workspace, read=whole, is_slow=True)
        return Download(ask, target, lambda size: size, progress)

    @call
    def health(
        self,
        *,
        window: timedelta = DAY,
        agent_id: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> Call[Health]:
        """Returns how often sessions of all namespaces were rolled back lately."""
        return Call(
            method="GET",
            path=f"{_WORKSPACE}/rollbacks",
            place=self._workspace,
            query=health_query(window, agent_id, thresholds),
            read=reads(RollbackRateAnswer, to_health),
        )

    @call
    def totals(self) -> Call[Totals]:
        """Returns how much there is in all namespaces together."""
        return Call(method="GET", path="/v1/dashboard/stats", read=read_totals)


class AdminClient(Operator[Sync], Waiting):
    """One workspace on a server; its methods wait for the answer."""

    def __init__(
        self,
        api_key: str | None = None,
        *,
        workspace_id: str | None = None,
        url: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: int | None = None,
        patience_s: float | None = None,
    ) -> None:
        """Makes a client; without `workspace_id`, for the workspace that the key belongs to."""
        from holdfast.sdk.sending import SyncSender  # noqa: PLC0415 - loads the HTTP library

        line = line_for(
            api_key,
            url=url,
            timeout_s=timeout_s,
            retries=retries,
            patience_s=patience_s,
            is_admin=True,
        )
        super().__init__(SyncSender(line), workspace_id=workspace_id or MINE)


class AsyncAdminClient(Operator[Async], Awaiting):
    """One workspace on a server; its methods are coroutines."""

    def __init__(
        self,
        api_key: str | None = None,
        *,
        workspace_id: str | None = None,
        url: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: int | None = None,
        patience_s: float | None = None,
    ) -> None:
        """Makes a client; without `workspace_id`, for the workspace that the key belongs to."""
        from holdfast.sdk.awaiting import AsyncSender  # noqa: PLC0415 - loads the HTTP library

        line = line_for(
            api_key,
            url=url,
            timeout_s=timeout_s,
            retries=retries,
            patience_s=patience_s,
            is_admin=True,
        )
        super().__init__(AsyncSender(line), workspace_id=workspace_id or MINE)
