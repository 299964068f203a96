"""The part of a transaction that is about traces.

A tenant's traces are a chain: numbered from 1 without a gap, each with the hash of the one
before it. Where the chain ends is a row of its own, so that a missing end is noticed; whoever
appends locks that row until the transaction ends. It is therefore the last lock that a
transaction takes: two that each wait for something else behind it could wait for ever.
"""

from typing import Protocol

from holdfast.ids import NamespaceId, TenantId
from holdfast.model_traces import Rollback, TraceEnd, TraceFilter, TraceRow


class TraceRows(Protocol):
    """Rows of traces; no row is ever changed, but for details that are redacted."""

    def lock_trace_end(self, tenant_id: TenantId) -> TraceEnd:
        """Returns where the chain ends; nobody else appends until the transaction is over."""
        ...

    def add_trace(self, row: TraceRow) -> None:
        """Appends a trace, and moves the end there; the end has to be locked."""
        ...

    def find_trace_end(self, tenant_id: TenantId) -> TraceEnd | None: ...
    def find_trace(self, tenant_id: TenantId, trace_id: str) -> TraceRow | None: ...
    def page_traces(self, tenant_id: TenantId, *, after: int, most: int) -> list[TraceRow]:
        """Returns the traces numbered above `after`, in the chain's order."""
        ...

    def list_traces(
        self, tenant_id: TenantId, wanted: TraceFilter, *, most: int
    ) -> list[tuple[TraceRow, str | None]]:
        """Returns traces with the names of their namespaces, newest first."""
        ...

    def redact_trace(self, tenant_id: TenantId, number: int, *, details: str) -> None:
        """Puts what stands for a trace's details in their place."""
        ...

    def count_active_sessions(
        self,
        tenant_id: TenantId,
        namespace_id: NamespaceId | None,
        *,
        since_us: int,
        agent_id: str | None,
    ) -> int:
        """Returns how many sessions have left a trace; of one namespace, or of all."""
        ...

    def list_rollbacks(
        self,
        tenant_id: TenantId,
        namespace_id: NamespaceId | None,
        *,
        since_us: int,
        agent_id: str | None,
    ) -> list[Rollback]:
        """Returns the rollbacks of sessions; of one namespace, or of all."""
        ...
