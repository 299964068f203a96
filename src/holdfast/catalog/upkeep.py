"""The parts of a transaction about all rows: which of sessions may go, and a copy of everything.

A branch is needed by the sessions and versions that name it, by those that go on from it, and by
the planes of snapshots and heads, of which the rows here know nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from holdfast.catalog import rows
from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import BRANCH, TURN, VERSION, get_row
from holdfast.catalog.sessions import to_both
from holdfast.ids import NamespaceId, TenantId
from holdfast.instants import from_us, to_us
from holdfast.model.sessions import BranchRow, SessionRow, TurnRow, VersionRow

_PAGE: Final = 1000

Ended = tuple[NamespaceId, str, int]
"""A session: its namespace, its id, and the microsecond at which it began."""

_LAGS: Final = (
    *("deliveries", "deliveries_since", "webhooks", "unnumbered", "unnumbered_since"),
    *("pending", "namespaces", "anchors", "schedules", "git_backups", "forgotten"),
)
"""What `count_lags` returns, in its order."""


class UpkeepQueries:
    """What collection and verification ask about sessions."""

    __slots__ = ()

    _db: Driver

    def count_lags(self, *, now: datetime) -> dict[str, Any]:
        """Counts what waits to be done by itself, in all of the catalog."""
        row = get_row(self._db.one("count_lags", now=to_us(now)), "count")
        found: dict[str, Any] = dict(zip(_LAGS, row, strict=True))
        for name in ("deliveries_since", "unnumbered_since"):
            found[name] = None if found[name] is None else from_us(found[name])
        return found

    def measure(self, *, now: datetime, most: int) -> dict[str, Any]:
        """Counts what is due, `most` at the most, and what of packs is in the catalog."""
        due = get_row(self._db.one("measure_deliveries", now=to_us(now), most=most), "count")
        inline = get_row(self._db.one("measure_inline"), "count")
        since = None if due[1] is None else from_us(due[1])
        return {
            "deliveries": due[0],
            "deliveries_since": since,
            "inline_packs": inline[0],
            "inline_bytes": inline[1],
        }

    def find_replicas(self) -> tuple[int, int | None]:
        """Returns how many replicas there are, and how many bytes the last of them is behind.

        None for these where there is none, or nobody may know.
        """
        row = get_row(self._db.one("find_replicas"), "count")
        # Where the log ends is asked for before, and they may have come further.
        return int(row[0]), None if row[1] is None else max(0, row[1])

    def ended_sessions(self, tenant_id: TenantId, *, before: datetime) -> list[Ended]:
        """Returns the sessions of live namespaces that were deleted or past their time by then.

        And those that a restore has set aside, whenever that was: as long as an undo can bring
        one back, a plane holds it. Those whose id another has by now are among them.
        """
        found = self._db.all("ended_sessions", tenant_id=tenant_id, before=to_us(before))
        return [(NamespaceId(row[0]), row[1], row[2]) for row in found]

    def lapsed_sessions(self, namespace_id: NamespaceId, *, now: datetime) -> list[str]:
        """Returns the ids of sessions that are there, and whose time is over."""
        found = self._db.all("lapsed_sessions", namespace_id=namespace_id, now=to_us(now))
        return [row[0] for row in found]

    def sessions_to_end(
        self, tenant_id: TenantId | None, *, now: datetime, most: int, skip: int = 0
    ) -> list[tuple[TenantId, str, str]]:
        """Returns sessions that are present though their time is over, of one tenant or of all.

        Each with its tenant and its namespace's name; those that were over first come first.
        `skip` of them are left out: those that could not be ended stand before all others.
        """
        found = self._db.all(
            "sessions_to_end", tenant_id=tenant_id, now=to_us(now), most=most, skip=skip
        )
        return [(TenantId(row[0]), row[1], row[2]) for row in found]

    def purge_session(self, namespace_id: NamespaceId, session_id: str) -> None:
        """Removes a session with its history."""
        self._db.say("count_session", namespace_id=namespace_id, id=session_id, is_present=0)
        self._db.say("count_entities_out", namespace_id=namespace_id, session_id=session_id)
        for query in ("purge_versions_of", "purge_session"):
            self._db.run(query, namespace_id=namespace_id, session_id=session_id)

    def spare_branches(self, tenant_id: TenantId) -> list[BranchRow]:
        """Returns the branches that no row needs."""
        found = self._db.all("spare_branches", tenant_id=tenant_id)
        return [BRANCH.read(row, tenant_id) for row in found]

    def delete_branches(self, tenant_id: TenantId, branch_ids: Iterable[str]) -> None:
        """Removes branches with their turns."""
        rows = [{"id": branch_id, "tenant_id": tenant_id} for branch_id in branch_ids]
        self._db.run_many("delete_turns", [{"id": row["id"]} for row in rows])
        self._db.run_many("delete_branch", rows)

    def turn_bytes(self, tenant_id: TenantId) -> int:
        """Returns how many bytes the turns of a tenant take."""
        return int(get_row(self._db.one("turn_bytes", tenant_id=tenant_id), "sum")[0])

    def iter_branches(self, tenant_id: TenantId) -> list[BranchRow]:
        found = self._db.all("iter_branches", tenant_id=tenant_id)
        return [BRANCH.read(row, tenant_id) for row in found]

    def named_branches(self, tenant_id: TenantId) -> dict[str, int]:
        """Returns the branches that sessions and versions name, with the most turns they need."""
        return {row[0]: row[1] for row in self._db.all("named_branches", tenant_id=tenant_id)}

    def iter_present(self, namespace_id: NamespaceId) -> Iterator[tuple[SessionRow, VersionRow]]:
        """Yields the sessions that the plane has to hold, by id, with their newest versions."""
        after = ""
        while page := self._db.all(
            "present_sessions", namespace_id=namespace_id, after=after, most=_PAGE
        ):
            yield from (to_both(row) for row in page)
            after = page[-1][1]

    def broken_histories(self, namespace_id: NamespaceId) -> list[str]:
        """Returns the ids whose versions are not 0, 1, 2… up to the newest, each somebody's.

        Of a session that had the id before another and is gone for good, none are there.
        """
        return [row[0] for row in self._db.all("broken_histories", namespace_id=namespace_id)]

    def find_version_at(
        self, namespace_id: NamespaceId, session_id: str, span: range, *, state: bytes, at: datetime
    ) -> VersionRow | None:
        """Returns the version with this state that was the newest then, or became so later.

        Of those with the numbers of a span.
        """
        row = self._db.one(
            "find_version_at",
            namespace_id=namespace_id,
            session_id=session_id,
            first=span.start,
            last=span.stop - 1,
            state=state,
            at=to_us(at),
        )
        return VERSION.find(row, namespace_id, session_id)

    def iter_versions(
        self, tenant_id: TenantId, namespace_id: NamespaceId
    ) -> Iterator[tuple[str, int, bool]]:
        """Yields versions by session and number; whether they are what the journal says."""
        after_id, after = "", -1
        while page := self._db.all(
            "page_versions",
            tenant_id=tenant_id,
            namespace_id=namespace_id,
            after_id=after_id,
            after=after,
            most=_PAGE,
        ):
            for session_id, *row, digest in page:
                is_whole = VERSION.is_whole(row, namespace_id, session_id, digest=digest)
                yield session_id, row[0], is_whole
            after_id, after = page[-1][:2]

    def page_turns(
        self, tenant_id: TenantId, branch_id: str, *, after: int, before: int, most: int
    ) -> list[tuple[TurnRow, bool]]:
        """Returns turns as their rows have them; whether they are what the journal says."""
        found = self._db.all(
            "page_turns",
            tenant_id=tenant_id,
            branch=branch_id,
            after=after,
            before=before,
            most=most,
        )
        return [(TURN.peek(row[:-1]), TURN.is_whole(row[:-1], digest=row[-1])) for row in found]


class BackupQueries:
    """All rows at once."""

    __slots__ = ()

    _db: Driver

    def dump(self, path: str, *, opened: Callable[[], None]) -> None:
        """Writes all rows, as this transaction sees them, to a file, which is empty.

        `opened` is called before the first of them, when the file needs its name no more.
        """
        self._db.dump(path, opened=opened)

    def count_migrations(self) -> int:
        """Returns how many migrations the tables have seen: which tables they are."""
        return rows.get_row(self._db.one("count_migrations"), "number")[0]
