"""The part of a transaction that is about traces.

What is done to a namespace is a chain: numbered from 1 without a gap, each trace with the hash of
the one before it; what is done to the tenant itself is another. Where a chain ends stands in the
row of its namespace, which whoever writes there has locked, or in the tenant's, which is locked by
few: so a missing end is noticed, and writers of two namespaces never wait for each other.
The tenant's row is the last that a transaction locks.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.catalog.driver import Driver, Several
from holdfast.catalog.rows import TRACE, Row, get_row
from holdfast.ids import NamespaceId, TenantId, instant_of_trace
from holdfast.model.traces import (
    NO_HASH,
    OWN,
    Rollback,
    StreamEnd,
    TraceEnd,
    TraceFilter,
    TraceGap,
    TraceRow,
)

_FREQUENT: Final = frozenset({"state.updated", "turn.added"})
"""Actions that the index of actions leaves out."""


_TO_OWN: Final = Several(["add_trace", "move_tenant_end"], TRACE.columns)
_TO_NAMESPACE: Final = Several(["add_trace", "move_end"], TRACE.columns)


class TraceQueries:
    """Rows of traces; no row is ever changed, but for what is taken out of it."""

    __slots__ = ()

    _db: Driver
    _ends: dict[int, TraceEnd]

    def lock_end(self, tenant_id: TenantId, stream: int) -> TraceEnd:
        """Returns where a chain ends; nobody else appends until the transaction is over."""
        if (known := self._ends.get(stream)) is not None:
            return known
        if stream == OWN:
            row = self._db.one("lock_tenant_end", tenant_id=tenant_id)
        else:
            row = self._db.one("lock_end", stream=stream)
        return _to_end(*get_row(row, "end of traces"))

    def add_trace(self, row: TraceRow) -> None:
        """Appends a trace, and moves the end there; the end has to be locked."""
        self._db.say_all(_TO_OWN if row.stream == OWN else _TO_NAMESPACE, TRACE.values(row))
        self.count_added(row)
        self._remember_end(row)

    def add_traces(self, rows: Sequence[TraceRow]) -> None:
        """Appends traces that follow on each other, all of one chain, whose end is locked."""
        if rows:
            known = [TRACE.write(row) for row in rows]
            self._db.say_many("add_trace", known)
            move = "move_tenant_end" if rows[-1].stream == OWN else "move_end"
            self._db.say(move, **known[-1])
            self._remember_end(rows[-1])

    def _remember_end(self, row: TraceRow) -> None:
        # Tenants' own chains have one number, and are seldom written to.
        if row.stream != OWN:
            self._ends[row.stream] = TraceEnd(row.number, row.hash)

    def find_own_end(self, tenant_id: TenantId) -> TraceEnd:
        """Returns where the chain of what is done to a tenant itself ends."""
        return _to_end(*get_row(self._db.one("find_tenant_end", tenant_id=tenant_id), "tenant"))

    def list_ends(self, tenant_id: TenantId) -> list[StreamEnd]:
        """Returns where the chains of namespaces end, deleted ones too."""
        found = self._db.all("list_ends", tenant_id=tenant_id)
        return [StreamEnd(row[0], row[1], _to_end(*row[2:])) for row in found]

    def list_streams(self, tenant_id: TenantId) -> list[tuple[int, int]]:
        """Returns the streams that have a row, and the greatest number in each.

        Those of namespaces that are gone are among them.
        """
        return [(row[0], row[1]) for row in self._db.all("list_streams", tenant_id=tenant_id)]

    def moved_ends(self, tenant_id: TenantId, *, most: int) -> list[tuple[NamespaceId, TraceEnd]]:
        """Returns the ends of namespaces' chains that no anchor has yet."""
        found = self._db.all("moved_ends", tenant_id=tenant_id, most=most)
        return [(row[0], _to_end(*row[1:])) for row in found]

    def set_anchored(
        self, tenant_id: TenantId, ends: Iterable[tuple[NamespaceId, TraceEnd]]
    ) -> None:
        """Notes that these ends stand in an anchor."""
        rows = [
            {"tenant_id": tenant_id, "namespace_id": of, "number": end.number} for of, end in ends
        ]
        self._db.say_many("set_anchored", rows)

    def drop_anchored(self, tenant_id: TenantId, namespace_id: NamespaceId) -> None:
        """Forgets up to where a namespace that goes had an anchor."""
        self._db.say("drop_anchored", tenant_id=tenant_id, namespace_id=namespace_id)

    def find_trace(self, tenant_id: TenantId, trace_id: str) -> TraceRow | None:
        created_at = instant_of_trace(trace_id)
        if created_at is None:
            return None
        row = self._db.one("find_trace", tenant_id=tenant_id, created_at=created_at, id=trace_id)
        return TRACE.find(row)

    def page_traces(
        self, tenant_id: TenantId, *, after: int, most: int, stream: int = OWN
    ) -> list[TraceRow]:
        """Returns the traces of a chain numbered above `after`, in its order."""
        found = self._db.all(
            "page_traces", tenant_id=tenant_id, stream=stream, after=after, most=most
        )
        return [TRACE.read(row) for row in found]

    def walk_traces(
        self, tenant_id: TenantId, *, stream: int, after: int, most: int
    ) -> list[TraceRow]:
        """Returns the same for who looks for damage: also what says something that none does."""
        found = self._db.all_as_stored(
            "page_traces", tenant_id=tenant_id, stream=stream, after=after, most=most
        )
        return [TRACE.read(row) for row in found]

    def stray_traces(self, *, most: int) -> list[TraceRow]:
        """Returns rows that say to be of no tenant that there is."""
        return [TRACE.read(row) for row in self._db.all_as_stored("stray_traces", most=most)]

    def mend_trace(self, found: TraceRow, row: TraceRow) -> None:
        """Writes in the place of a damaged row what it was."""
        where = {"was_of": found.tenant_id, "was_in": found.stream, "was": found.number}
        self._db.run("mend_trace", **TRACE.write(row), **where)

    def set_end(self, tenant_id: TenantId, stream: int, end: TraceEnd) -> None:
        """Writes anew where a chain ends, which has to be locked."""
        where = {"tenant_id": tenant_id} if stream == OWN else {"stream": stream}
        move = "move_tenant_end" if stream == OWN else "move_end"
        self._db.run(move, number=end.number, hash=end.hash, **where)

    def find_listed(self, tenant_id: TenantId, stream: int, *, after: int, before: int) -> TraceGap:
        """Returns what of a chain stands between two numbers, and which of it a list shows."""
        where: dict[str, object] = {"tenant_id": tenant_id, "stream": stream}
        where |= {"after": after, "before": before}
        count = get_row(self._db.one("count_between", **where), "count")[0]
        found = self._db.all("listed_between", **where)
        return TraceGap(count, [(row[0], row[1]) for row in found])

    def list_traces(self, tenant_id: TenantId, wanted: TraceFilter, *, most: int) -> list[TraceRow]:
        """Returns traces, newest first."""
        found = self._list(
            wanted,
            tenant_id=tenant_id,
            namespace_id=wanted.namespace_id,
            session_id=wanted.session_id,
            user_id=wanted.user_id,
            agent_id=wanted.agent_id,
            action=wanted.action,
            actor=wanted.actor,
            task_id=wanted.task_id,
            resource_type=wanted.resource_type,
            resource_id=wanted.resource_id,
            since=wanted.since_us,
            until=wanted.until[0],
            until_stream=wanted.until[1],
            until_number=wanted.until[2],
            most=most,
        )
        return [TRACE.read(row) for row in found]

    def _list(self, wanted: TraceFilter, **parameters: object) -> list[Row]:
        """Asks by what narrows it down the most, of what there is an index for."""
        if wanted.session_id is not None:
            return [*self._db.all("list_traces_of_session", **parameters)]
        if wanted.namespace_id is None:
            return [*self._db.all("list_traces", **parameters)]
        if wanted.action is not None and wanted.action not in _FREQUENT:
            return [*self._db.all("list_traces_of_action", **parameters)]
        return [*self._db.all("list_traces_of_namespace", **parameters)]

    def redact_trace(self, found: TraceRow, row: TraceRow) -> None:
        """Writes a trace that something was taken out of: its details, or its ids, too."""
        self._db.say("redact_trace", **TRACE.write(row))
        self.count_less(found, found.added_bytes - row.added_bytes)

    def count_less(self, of: TraceRow, less: int) -> None:
        """Takes so many bytes off what counts against a quota, where a trace was written."""
        if not less:
            return
        if of.stream != OWN and self._db.run("count_added", stream=of.stream, bytes=-less):
            return
        # It was the tenant's own, or its namespace is gone (`keep_added`).
        self._db.say("count_added_of_tenant", tenant_id=of.tenant_id, bytes=-less)

    def count_added(self, row: TraceRow) -> None:
        """Counts what a trace takes against a quota, where it was written."""
        added = row.added_bytes
        if added and row.stream == OWN:
            self._db.say("count_added_of_tenant", tenant_id=row.tenant_id, bytes=added)
        elif added:
            self._db.say("count_added", stream=row.stream, bytes=added)

    def keep_added(self, tenant_id: TenantId, namespace_id: NamespaceId) -> None:
        """Goes on counting what was added to a namespace that goes, and whose traces stay."""
        self._db.say("keep_added", tenant_id=tenant_id, namespace_id=namespace_id)

    def added_bytes(self, tenant_id: TenantId) -> int:
        """Returns how many bytes the traces take that somebody has added."""
        return int(get_row(self._db.one("added_bytes", tenant_id=tenant_id), "sum")[0])

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


def _to_end(number: int, digest: bytes | None) -> TraceEnd:
    return TraceEnd(number, NO_HASH if digest is None else bytes(digest))
