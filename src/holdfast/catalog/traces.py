"""The part of a transaction that is about traces.

A tenant's traces are a chain: numbered from 1 without a gap, each with the hash of the one
before it. Where the chain ends is a row of its own, so that a missing end is noticed; whoever
appends locks that row until the transaction ends. It is therefore the last lock that a
transaction takes: two that each wait for something else behind it could wait for ever.
"""

from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import TRACE, Row, get_row
from holdfast.ids import NamespaceId, TenantId, instant_of_trace
from holdfast.model_traces import Rollback, TraceEnd, TraceFilter, TraceRow


class TraceQueries:
    """Rows of traces; no row is ever changed, but for details that are redacted."""

    __slots__ = ()

    _db: Driver

    def lock_trace_end(self, tenant_id: TenantId) -> TraceEnd:
        """Returns where the chain ends; nobody else appends until the transaction is over."""
        row = self._db.one("lock_trace_end", tenant_id=tenant_id)
        if row is None:
            # Two first writers: one adds the row, the other waits for it and finds it.
            start = TraceEnd()
            self._db.run("add_trace_end", tenant_id=tenant_id, number=start.number, hash=start.hash)
            row = get_row(self._db.one("lock_trace_end", tenant_id=tenant_id), "end of traces")
        return TraceEnd(row[0], row[1])

    def add_trace(self, row: TraceRow) -> None:
        """Appends a trace, and moves the end there; the end has to be locked."""
        self._db.say_all(("add_trace", "move_trace_end"), **TRACE.write(row))

    def find_trace_end(self, tenant_id: TenantId) -> TraceEnd | None:
        row = self._db.one("find_trace_end", tenant_id=tenant_id)
        return None if row is None else TraceEnd(row[0], row[1])

    def find_trace(self, tenant_id: TenantId, trace_id: str) -> TraceRow | None:
        created_at = instant_of_trace(trace_id)
        if created_at is None:
            return None
        row = self._db.one("find_trace", tenant_id=tenant_id, created_at=created_at, id=trace_id)
        return TRACE.find(row)

    def page_traces(self, tenant_id: TenantId, *, after: int, most: int) -> list[TraceRow]:
        """Returns the traces numbered above `after`, in the chain's order."""
        found = self._db.all("page_traces", tenant_id=tenant_id, after=after, most=most)
        return [TRACE.read(row) for row in found]

    def list_traces(
        self, tenant_id: TenantId, wanted: TraceFilter, *, most: int
    ) -> list[tuple[TraceRow, str | None]]:
        """Returns traces with the names of their namespaces, newest first."""
        found = self._list(
            wanted,
            tenant_id=tenant_id,
            namespace_id=wanted.namespace_id,
            session_id=wanted.session_id,
            user_id=wanted.user_id,
            agent_id=wanted.agent_id,
            action=wanted.action,
            actor=wanted.actor,
            resource_type=wanted.resource_type,
            resource_id=wanted.resource_id,
            since=wanted.since_us,
            until=wanted.until[0],
            until_number=wanted.until[1],
            most=most,
        )
        return [(TRACE.read(row[:-1]), row[-1]) for row in found]

    def _list(self, wanted: TraceFilter, **parameters: object) -> list[Row]:
        """Asks by what narrows it down the most, of what there is an index for."""
        if wanted.session_id is not None:
            return [*self._db.all("list_traces_of_session", **parameters)]
        if wanted.namespace_id is None:
            return [*self._db.all("list_traces", **parameters)]
        if wanted.action is not None:
            return [*self._db.all("list_traces_of_action", **parameters)]
        return [*self._db.all("list_traces_of_namespace", **parameters)]

    def redact_trace(self, tenant_id: TenantId, number: int, *, details: str) -> None:
        """Puts what stands for a trace's details in their place."""
        self._db.run("redact_trace", tenant_id=tenant_id, number=number, details=details)

    def count_active_sessions(
        self,
        tenant_id: TenantId,
        namespace_id: NamespaceId | None,
        *,
        since_us: int,
        agent_id: str | None,
    ) -> int:
        """Returns how many sessions have left a trace; of one namespace, or of all."""
        if namespace_id is None:
            row = self._db.one(
                "count_active_sessions", tenant_id=tenant_id, since=since_us, agent_id=agent_id
            )
        else:
            row = self._db.one(
                "count_active_sessions_of_namespace",
                namespace_id=namespace_id,
                since=since_us,
                agent_id=agent_id,
            )
        return get_row(row, "count")[0]

    def list_rollbacks(
        self,
        tenant_id: TenantId,
        namespace_id: NamespaceId | None,
        *,
        since_us: int,
        agent_id: str | None,
    ) -> list[Rollback]:
        """Returns the rollbacks of sessions; of one namespace, or of all."""
        if namespace_id is None:
            found = self._db.all(
                "list_rollbacks", tenant_id=tenant_id, since=since_us, agent_id=agent_id
            )
        else:
            found = self._db.all(
                "list_rollbacks_of_namespace",
                namespace_id=namespace_id,
                since=since_us,
                agent_id=agent_id,
            )
        return [Rollback(*row) for row in found]
