"""The part of a transaction that is about traces which retention lets go of.

What goes of a chain goes from its first row on, in sections that follow on each other: of each
there is a row that says from which number to which, with what hash it ended, and which of its rows
stay.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import TRACE
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, TenantId
from holdfast.model.traces import Section, TraceRow


class OldChain(NamedTuple):
    """A chain of which something may go."""

    stream: NamespaceId
    is_gone: bool
    """Whether its namespace is gone for good."""
    since_us: int
    """The instant of its first row beyond what was let go, or of when that was looked at."""
    said: str | None
    """What its namespace says of retention, or said when it was purged."""


class ForgettingQueries:
    """Rows of sections, and what of the journal is still needed."""

    __slots__ = ()

    _db: Driver

    def list_sections(self, tenant_id: TenantId, stream: int) -> list[Section]:
        """Returns what was let go of a chain, from its beginning on."""
        found = self._db.all("list_sections", tenant_id=tenant_id, stream=stream)
        return [_to_section(row) for row in found]

    def find_last_section(self, tenant_id: TenantId, stream: int) -> Section | None:
        """Returns the newest part of a chain that was let go of; None if all of it is there."""
        row = self._db.one("last_section", tenant_id=tenant_id, stream=stream)
        return None if row is None else _to_section(row)

    def all_sections(self, tenant_id: TenantId) -> dict[int, list[Section]]:
        """Returns what was let go of all chains of a tenant, by their streams."""
        found = dict[int, list[Section]]()
        for stream, *row in self._db.all("all_sections", tenant_id=tenant_id):
            found.setdefault(stream, []).append(_to_section(row))
        return found

    def set_section(self, tenant_id: TenantId, stream: int, section: Section) -> None:
        """Notes what was let go of a chain, in the place of what was noted from there on."""
        self._db.say(
            "set_section",
            tenant_id=tenant_id,
            stream=stream,
            first=section.first,
            last=section.last,
            hash=section.hash,
            at_us=section.at_us,
            kept=section.kept,
            digest=section.digest,
        )

    def drop_section(self, tenant_id: TenantId, stream: int, section: Section) -> None:
        """Deletes what is noted of a section."""
        self._db.say("drop_section", tenant_id=tenant_id, stream=stream, first=section.first)

    def drop_traces(self, tenant_id: TenantId, stream: int, runs: Iterable[tuple[int, int]]) -> int:
        """Deletes the rows from one number to another, of each run; returns how many there were."""
        where = {"tenant_id": tenant_id, "stream": stream}
        return self._db.run_many(
            "drop_traces", [{**where, "first": first, "last": last} for first, last in runs]
        )

    def find_last_done(self, tenant_id: TenantId, stream: int, *, action: str) -> TraceRow | None:
        """Returns the last trace of this action that we did in, or to, a namespace."""
        where: dict[str, object] = {"tenant_id": tenant_id, "stream": stream}
        return TRACE.find(self._db.one("last_done", action=action, **where))

    def chains_to_forget(
        self, tenant_id: TenantId, *, before_us: int, forgotten: str, purged: str
    ) -> list[OldChain]:
        """Returns the chains of which something older may go, and those with a period of their own.

        `forgotten` and `purged` are the actions that tell of letting go and of a purge. Asked once,
        however many chains there are of which nothing is to go.
        """
        found = self._db.all(
            "chains_to_forget",
            tenant_id=tenant_id,
            before_us=before_us,
            forgotten=forgotten,
            purged=purged,
            of_their_own='%"keep_traces_days":%',
        )
        return [
            OldChain(NamespaceId(stream), bool(is_gone), since, said)
            for stream, is_gone, since, said in found
        ]

    def rows_of_versions(
        self, namespace_id: NamespaceId, session_id: str, *, first: int, last: int
    ) -> set[int]:
        """Returns the numbers of the rows that made some versions of a session."""
        found = self._db.all(
            "rows_of_versions",
            namespace_id=namespace_id,
            session_id=session_id,
            first=first,
            last=last,
        )
        return {row[0] for row in found}

    def find_row_of_turn(self, turn_id: str) -> tuple[int, int] | None:
        """Returns the chain and the number of the row that made a turn; None if it is gone."""
        row = self._db.one("row_of_turn", id=turn_id)
        return None if row is None else (row[0], row[1])


def _to_section(row: Sequence[Any]) -> Section:
    first, last, digest, at_us, kept, of_kept = row
    numbers, digests = (first, last, at_us, kept), (digest, of_kept)
    is_one = all(isinstance(each, int) for each in numbers)
    if not is_one or not all(isinstance(each, bytes) for each in digests):
        raise Damaged("what retention has let go of traces cannot be read")
    return Section(first, last, digest, at_us, kept, of_kept)
