"""The part of a transaction that is about what is erased for good.

Whatever here changes a row that nothing else ever changes is asked for by erasures alone, in the
transaction that has the namespace's head locked.
"""

import json
from collections.abc import Collection, Iterable
from typing import Final

from msgspec import structs

from holdfast.catalog.counting import CountQueries
from holdfast.catalog.driver import Driver
from holdfast.catalog.pending import mark_of
from holdfast.catalog.rows import ERASURE, EVENT, HEAD, NO_LIMIT, SNAPSHOT, TRACE, get_row
from holdfast.ids import NamespaceId, ObjectId, TenantId
from holdfast.model.basics import Head, Plane, Size, SnapshotInfo
from holdfast.model.erasures import ErasureRow
from holdfast.model.events import ERASED, EventRow
from holdfast.model.traces import TraceRow

_PAGE: Final = 1000


class ErasureQueries(CountQueries):
    """Rows of erasures, and what goes of a namespace, a session or a user in other tables."""

    __slots__ = ()

    _db: Driver

    def add_erasure(self, row: ErasureRow) -> None:
        self._db.run("add_erasure", **ERASURE.write(row))

    def set_erasure(self, row: ErasureRow) -> None:
        """Keeps what is known of an erasure, or its certificate."""
        self._db.run("set_erasure", **ERASURE.write(row))

    def list_erasures(self, tenant_id: TenantId) -> list[ErasureRow]:
        """Returns a tenant's erasures, newest first, also those that are not finished."""
        return [ERASURE.read(row) for row in self._db.all("list_erasures", tenant_id=tenant_id)]

    # What was told

    def erase_events(self, events: Iterable[EventRow]) -> None:
        """Removes what some events say, and deliveries of them; their numbers leave no gap."""
        for event in events:
            blank = structs.replace(
                event, type=ERASED, namespace_id=None, namespace=None, data="{}"
            )
            known = EVENT.write(blank)
            self._db.run("erase_deliveries_of", tenant_id=event.tenant_id, number=event.number)
            self._db.run("erase_event", **known)

    def erase_replies(self, tenant_id: TenantId) -> None:
        """Removes the answers that were kept for a tenant's repeated requests."""
        self._db.run("erase_replies", tenant_id=tenant_id)

    def traces_about(
        self,
        namespace_id: NamespaceId,
        session_id: str,
        *,
        user_id: str | None = None,
        numbers: tuple[int, int] = (0, NO_LIMIT),
    ) -> list[TraceRow]:
        """Returns some traces about a session that still say so, those of versions too.

        With a user, not those that are about another; of its chain, those with these numbers.
        """
        found = self._db.all(
            "traces_about",
            namespace_id=namespace_id,
            session_id=session_id,
            user_id=user_id,
            first=numbers[0],
            last=numbers[1],
            most=_PAGE,
        )
        return [TRACE.read(row) for row in found]

    def names_user(
        self, namespace_id: NamespaceId, session_id: str, user_id: str, first: int, last: int
    ) -> bool:
        """Says whether a session was a user's when something was done to it.

        By the rows of its chain with these numbers.
        """
        where = {"namespace_id": namespace_id, "session_id": session_id, "user_id": user_id}
        return self._db.one("names_user", **where, first=first, last=last) is not None

    def traces_about_user(self, tenant_id: TenantId, user_id: str) -> list[TraceRow]:
        """Returns some traces about a user that still say so."""
        found = self._db.all("traces_about_user", tenant_id=tenant_id, user_id=user_id, most=_PAGE)
        return [TRACE.read(row) for row in found]

    def sessions_in_events(
        self, tenant_id: TenantId, user_id: str
    ) -> list[tuple[NamespaceId, str]]:
        """Returns the sessions that were a user's when something was done to them."""
        found = self._db.all("sessions_in_events", tenant_id=tenant_id, user_id=user_id)
        return [(NamespaceId(row[0]), row[1]) for row in found]

    # Timelines

    def rewrite_head(self, head: Head, *, root: ObjectId, more: Size) -> None:
        """Gives a head another root, and a generation: whoever has seen the old one begins anew."""
        new = structs.replace(head, root=root, generation=head.generation + 1)
        self._db.run(
            "rewrite_head",
            **HEAD.write(new),
            more_entries=more.entries,
            more_bytes=more.bytes,
        )

    def rewrite_snapshot(self, snapshot: SnapshotInfo) -> None:
        """Writes another root, size and detail of a snapshot."""
        self._db.run("rewrite_snapshot", **SNAPSHOT.write(snapshot))

    # Sessions, memories, and what tasks noted

    def sessions_of_user(self, namespace_id: NamespaceId, user_id: str) -> list[tuple[str, int]]:
        """Returns the sessions that are a user's, deleted ones and those that lost their id too.

        By their ids and beginnings, and as their rows say it: what is damaged has to go as well.
        """
        found = self._db.all("sessions_of_user", namespace_id=namespace_id, user_id=user_id)
        return [(row[0], row[1]) for row in found]

    def beginnings_of(self, namespace_id: NamespaceId, session_id: str) -> set[int]:
        """Returns when those began that ever had an id, as their rows say it."""
        where = {"namespace_id": namespace_id, "id": session_id}
        return {row[0] for row in self._db.all("beginnings_of", **where)}

    def count_history(self, namespace_id: NamespaceId, session_id: str) -> tuple[int, int]:
        """Returns how many versions a session has, and how many entities, deleted ones too."""
        row = self._db.one("count_history", namespace_id=namespace_id, session_id=session_id)
        versions, entities = get_row(row, "count")
        return versions, entities

    def memories_about(
        self,
        namespace_id: NamespaceId,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
    ) -> list[str]:
        """Returns the memories that belong to a session or to a user, deleted ones too."""
        found = self._db.all(
            "memories_about", namespace_id=namespace_id, session_id=session_id, user_id=user_id
        )
        return [row[0] for row in found]

    def erase_memories(self, namespace_id: NamespaceId, ids: Collection[str]) -> int:
        """Removes memories, and what the index has of them; returns how many there were."""
        known: dict[str, object] = {"namespace_id": namespace_id, "ids": json.dumps([*ids])}
        there = get_row(self._db.one("count_memories_by_id", **known), "count")[0]
        self.count_in(namespace_id, memories=-there)
        self._db.run("unindex_memories_by_id", **known)
        return sum(self._db.run("erase_memory", namespace_id=namespace_id, id=each) for each in ids)

    def erase_keys(self, namespace_id: NamespaceId, plane: Plane, keys: Collection[bytes]) -> None:
        """Removes what is pending of some keys, and what tasks noted of them."""
        rows = [{"namespace_id": namespace_id, "plane": plane.value, "key": key} for key in keys]
        marked = ({**row, "mark": mark_of(plane, key)} for row, key in zip(rows, keys, strict=True))
        self._db.run_many("unmark_pending", marked)
        self._db.run_many("discard_pending", rows)
        for row in rows:
            self._db.say("uncount_task_change", **row)
            self._db.say("erase_task_change", **row)

    def erase_noted(
        self, namespace_id: NamespaceId, plane: Plane, entries: Iterable[tuple[bytes, bytes]]
    ) -> None:
        """Removes what tasks noted of some keys, if it has one of these entries."""
        place = {"namespace_id": namespace_id, "plane": plane.value}
        for key, entry in entries:
            # One after the other: the same row may have two of them.
            for query in ("uncount_noted", "erase_noted"):
                self._db.say(query, **place, key=key, entry=entry)

    def trim_branch(self, tenant_id: TenantId, branch_id: str, *, turns: int) -> None:
        """Removes what was said on a branch after so many turns."""
        self._db.run("trim_turns", id=branch_id, turns=turns)
        self._db.run("trim_branch", tenant_id=tenant_id, id=branch_id, turns=turns)
