"""The part of a transaction that is about sessions, their versions and their turns.

A session's row says what is true of it now, its versions and turns what has been. Turns lie on
branches, since a conversation may go back and on from there; a branch belongs to a tenant and not
to a namespace, for a fork of either goes on where the other is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, Final

from holdfast.catalog.absence import AbsenceQueries
from holdfast.catalog.counting import in_order
from holdfast.catalog.driver import Driver, Moment, Several
from holdfast.catalog.pending import mark_of, seal
from holdfast.catalog.rows import (
    BRANCH,
    HEAD,
    HEARD,
    MADE,
    NO_LIMIT,
    SAID,
    SESSION,
    TOLD,
    TRACE,
    TURN,
    VERSION,
    Row,
    Sealed,
    get_row,
)
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, TenantId
from holdfast.instants import to_us
from holdfast.model.basics import Plane, Size
from holdfast.model.events import UnnumberedRow
from holdfast.model.sessions import (
    BranchRow,
    LeftHead,
    LeftSession,
    OpenedSession,
    SessionRow,
    TurnRow,
    VersionRow,
)
from holdfast.model.traces import TraceEnd, TraceRow

_QUOTA = HEAD.width
_HEARD = _QUOTA + 1
_SESSION = _HEARD + 1
_VERSION = _SESSION + SESSION.width
_WANTED = _VERSION + VERSION.width
"""Where the tenant's quota, whether somebody listens, a session, its newest version and another one
begin in a row that has all of them."""


@cache
def _changing(*given: bool) -> Several:
    """Returns the queries of a change of a session, and what their values are called."""
    is_new, has_row, has_version, has_turn, is_told = given
    names = [] if has_row else ["add_session" if is_new else "move_session"]
    columns = [*SESSION.columns, *TOLD.columns, "key", "entry", "checksum", "session_id", "plane"]
    columns += ["sequence", "more_entries", "more_bytes", "writer", "new_sessions", "mark"]
    if has_version:
        names.append("add_version")
        columns += MADE.columns
    if has_turn:
        names.append("add_turn")
        columns += SAID.columns
    if is_told:
        names.append("add_unnumbered")
        columns += HEARD.columns
    # The head comes first: it has a mark for what is not pending yet.
    names += ["set_sequence_and_end", "put_pending", "add_told_trace"]
    return Several(names, columns)


_PLANE: Final = Plane.SESSIONS.value
_ID, _CREATED = SESSION.columns.index("id"), SESSION.columns.index("created_at")


@dataclass(slots=True)
class SessionPage:
    """A part of a list of sessions."""

    sound: list[tuple[SessionRow, VersionRow]]
    damaged: dict[str, Damaged]
    """By id, what of the page is not what was written."""
    last: tuple[int, str] | None
    """Where the next page begins, if there may be one: an instant and an id."""


class SessionQueries(AbsenceQueries):
    """Rows of sessions; a method is one named query."""

    __slots__ = ()

    _db: Driver
    _ends: dict[int, TraceEnd]
    _sequences: dict[int, int]

    def add_session(self, session: SessionRow) -> bool:
        """Adds a session; False if there is one with its id."""
        is_added = self._db.run("add_session", **SESSION.write(session)) == 1
        if is_added and session.is_present:
            self._db.say("count_new_session", namespace_id=session.namespace_id)
        return is_added

    def set_session(self, session: SessionRow) -> None:
        """Replaces what can change in a session's row."""
        known = SESSION.write(session)
        self._db.say("count_session", **known)
        self._db.say("set_session", **known)

    @property
    def commit(self) -> Moment:
        """What stands for the commit of this transaction, for `trust` and `follows`."""
        return self._db.becomes

    @property
    def era(self) -> int:
        """What is only believed has to be of the same: else a standby may have taken over."""
        return self._db.era

    def follows(self, commit: tuple[int, ...] | None) -> bool:
        """Says whether a commit is known to be the last of all: what it left is still so."""
        return commit is not None and commit == self._db.follows

    def put_change(
        self,
        session: SessionRow,
        trace: TraceRow,
        *,
        entry: bytes,
        sequence: int,
        more: Size,
        writer: str = "",
        version: Sealed[VersionRow] | None = None,
        turn: Sealed[TurnRow] | None = None,
        told: UnnumberedRow | None = None,
        has_row: bool = False,
    ) -> Row:
        """Adds the next version of a session, or a turn, or both, and all that goes with it.

        Returns the session's row.

        The session's row moves on, or for version 0 is added, with an id that nobody else has, or
        if it `has_row` neither; `add_version`, `add_turn`, `add_trace`, `add_unnumbered`,
        `note_pending` in one. The trace has the hashes of both, and follows on the end of the
        namespace's chain, whose row is locked.
        """
        namespace_id, key = session.namespace_id, session.id.encode()
        is_new = version is not None and not version.value.number and not has_row
        sealed = SESSION.seal(session)
        values = [
            *sealed.values,
            *TRACE.values(trace),
            *seal(namespace_id, Plane.SESSIONS, key, entry, sequence=sequence),
            *(session.id, _PLANE, sequence, more.entries, more.bytes, writer, int(is_new)),
            mark_of(Plane.SESSIONS, key),
        ]
        for part in (version, turn):
            if part is not None:
                values += part.values
        if told is not None:
            values += HEARD.row(told)
        given = (version is not None, turn is not None, told is not None)
        self._db.say_all(_changing(is_new, has_row, *given), values)
        self._ends[namespace_id] = TraceEnd(trace.number, trace.hash)
        self._sequences[namespace_id] = sequence
        return sealed.values

    def trust(self, left: LeftHead, found: LeftSession) -> None:
        """Locks a head that is as somebody left it, and so is one of its sessions.

        If either is not, that is `Busy`, here or with the next answer, and so it is if somebody
        listens by now. Who made the last commit of all, and with it wrote both, need not ask.
        """
        if found.commit == left.commit and self.follows(left.commit):
            return
        head = left.head
        self._db.insist(
            "trust_head",
            locked=True,
            namespace_id=head.namespace_id,
            tenant_id=head.tenant_id,
            sequence=head.sequence,
            writer=head.writer,
            journal_number=head.journal_number,
            journal_hash=head.journal_hash,
            checksum=left.checksum,
            session_id=found.session.id,
            seal=found.seal,
            quota_bytes=-1 if left.quota_bytes is None else left.quota_bytes,
            is_unheard=int(left.is_unheard),
        )
        self._db.is_unheard = self._db.is_unheard or left.is_unheard

    def open_session(
        self, tenant_id: TenantId, name: str, session_id: str, *, wanted: int | None = None
    ) -> OpenedSession | None:
        """Locks a live head, and returns it with what is known of one of its sessions.

        `wanted` is the number of a version that is asked for, too; below 0 it counts from the
        newest. None if there is no such head.
        """
        # Locked first: what is asked next is answered as of then.
        self._db.lock("lock_live_head", tenant_id=tenant_id, name=name)
        asked: dict[str, object] = {"tenant_id": tenant_id, "name": name, "id": session_id}
        if wanted is None or abs(wanted) > NO_LIMIT:
            query = "open_session"
        else:
            query, asked["wanted"] = "open_session_at", wanted
        row = self._db.one(query, **asked) or self.look_again(HEAD, query, asked)
        return None if row is None else to_opened(row)

    def find_session(
        self, tenant_id: TenantId, name: str, session_id: str
    ) -> tuple[SessionRow, VersionRow] | None:
        """Returns a session of a live namespace with its newest version."""
        row = self.find_session_row(tenant_id, name, session_id)
        return None if row is None else to_both(row)

    def find_session_row(self, tenant_id: TenantId, name: str, session_id: str) -> Row | None:
        """Returns the row of a session and its newest version, for `to_both`."""
        return self._db.one("find_session", tenant_id=tenant_id, name=name, id=session_id)

    def list_sessions(
        self,
        namespace_id: NamespaceId,
        *,
        most: int,
        before: tuple[int, str] | None = None,
        after: datetime | None = None,
        agent_id: str | None = None,
        user_id: str | None = None,
    ) -> SessionPage:
        """Returns what is present, newest first, below `before`; also what is past its time."""
        found = self._db.all(
            "list_sessions",
            namespace_id=namespace_id,
            before_us=NO_LIMIT if before is None else before[0],
            before_id="" if before is None else before[1],
            after_us=-NO_LIMIT if after is None else to_us(after),
            agent_id=agent_id,
            user_id=user_id,
            most=most,
        )
        page = SessionPage([], {}, None)
        for row in found:
            try:
                page.sound.append(to_both(row))
            except Damaged as exc:
                page.damaged[str(row[_ID])] = exc
        in_order((each for each, _ in page.sound), attrgetter("created_at", "id"))
        if found and len(found) == most:
            page.last = (found[-1][_CREATED], str(found[-1][_ID]))
        return page

    def present_ids(self, namespace_id: NamespaceId) -> list[str]:
        """Returns the ids of the sessions that are present, in any order."""
        return [row[0] for row in self._db.all("present_ids", namespace_id=namespace_id)]

    def session_ids(self, namespace_id: NamespaceId) -> list[str]:
        """Returns the ids of all sessions, also of those that have ended, in any order."""
        return [row[0] for row in self._db.all("session_ids", namespace_id=namespace_id)]

    def count_present(self, namespace_id: NamespaceId, *, most: int) -> tuple[int, int | None]:
        """Returns how many sessions have to be present, and how many are.

        None for the second if there have to be more than `most`.
        """
        row = self._db.one("count_present", namespace_id=namespace_id, most=most)
        return (0, 0) if row is None else (row[0], row[1])

    def forks_of(self, namespace_id: NamespaceId, session_id: str) -> list[str]:
        found = self._db.all("forks_of", namespace_id=namespace_id, session_id=session_id)
        return [row[0] for row in found]

    def add_version(self, namespace_id: NamespaceId, session_id: str, version: VersionRow) -> None:
        known = MADE.write(version, namespace_id, session_id)
        self._db.say("add_version", namespace_id=namespace_id, session_id=session_id, **known)

    def find_version(
        self, namespace_id: NamespaceId, session_id: str, number: int
    ) -> VersionRow | None:
        row = self._db.one(
            "find_version", namespace_id=namespace_id, session_id=session_id, number=number
        )
        found = VERSION.find(row, namespace_id, session_id)
        return found and _numbered(found, number, of=session_id)

    def list_versions(
        self,
        namespace_id: NamespaceId,
        session_id: str,
        *,
        after: int,
        most: int,
        before: int | None = None,
    ) -> list[VersionRow]:
        """Returns the versions above `after` and below `before`, oldest first."""
        found = self._db.all(
            "list_versions",
            namespace_id=namespace_id,
            session_id=session_id,
            after=after,
            before=NO_LIMIT if before is None else before,
            most=most,
        )
        return [VERSION.read(row, namespace_id, session_id) for row in found]

    def list_traced_versions(
        self,
        tenant_id: TenantId,
        namespace_id: NamespaceId,
        session_id: str,
        *,
        after: int,
        before: int,
        most: int,
    ) -> Sequence[Row]:
        """Returns the rows of versions between two numbers, oldest first, for `to_traced`."""
        return self._db.all(
            "list_traced_versions",
            tenant_id=tenant_id,
            namespace_id=namespace_id,
            session_id=session_id,
            after=after,
            before=before,
            most=most,
        )

    def iter_version_states(self, tenant_id: TenantId) -> Iterator[bytes]:
        """Yields the entry of every version's state: what collection has to keep."""
        for row in self._db.all("all_version_states", tenant_id=tenant_id):
            yield bytes(row[0])

    def add_branch(self, tenant_id: TenantId, branch: BranchRow) -> None:
        known = BRANCH.write(branch, tenant_id)
        self._db.say("add_branch", tenant_id=tenant_id, **known)

    def find_branch(self, tenant_id: TenantId, branch_id: str) -> BranchRow | None:
        row = self._db.one("find_branch", tenant_id=tenant_id, id=branch_id)
        return BRANCH.find(row, tenant_id)

    def extend_branch(
        self, tenant_id: TenantId, branch_id: str, *, turns: int, more: int, is_sure: bool = False
    ) -> bool:
        """Counts one more turn, of `more` bytes, on a branch that has so many.

        False if it has another number; for who `is_sure`, that is `Busy` with the next answer.
        """
        known: dict[str, Any] = {
            "tenant_id": tenant_id,
            "id": branch_id,
            "turns": turns,
            "more": more,
        }
        if is_sure:
            self._db.insist("extend_branch", **known)
            return True
        return self._db.one("extend_branch", **known) is not None

    def add_turn(self, turn: TurnRow) -> None:
        self._db.say("add_turn", **SAID.write(turn))

    def find_turn(self, turn_id: str) -> TurnRow | None:
        row = self._db.one("find_turn", id=turn_id)
        return TURN.find(row)

    def list_turns(
        self, branch_id: str, *, after: int, before: int, most: int, descending: bool
    ) -> list[TurnRow]:
        query = "list_turns_down" if descending else "list_turns_up"
        found = self._db.all(query, branch=branch_id, after=after, before=before, most=most)
        return [TURN.read(row) for row in found]

    def bytes_of_turns(self, branch_id: str, *, after: int, before: int) -> int:
        """Returns what the turns of a branch between two numbers hold; they are not read."""
        found = self._db.one("bytes_of_turns", branch=branch_id, after=after, before=before)
        return int(get_row(found, "sum")[0])

    def add_lagging(self, namespace_id: NamespaceId) -> None:
        """Notes that a namespace has sessions without rows."""
        self._db.say("add_lagging", namespace_id=namespace_id)

    def is_lagging(self, namespace_id: NamespaceId) -> bool:
        return self._db.one("is_lagging", namespace_id=namespace_id) is not None

    def drop_lagging(self, namespace_id: NamespaceId) -> None:
        self._db.say("drop_lagging", namespace_id=namespace_id)


def to_opened(row: Row) -> OpenedSession:
    """Returns a row of a head, its tenant, a session, and one or two of its versions."""
    found = at = None
    if row[_SESSION] is not None:
        found = to_both(row[_SESSION:_WANTED])
        if len(row) > _WANTED and row[_WANTED] is not None:
            at = VERSION.read(row[_WANTED:], found[0].namespace_id, found[0].id)
    return OpenedSession(HEAD.read(row[:_QUOTA]), row[_QUOTA], found, at, not row[_HEARD])


def to_traced(
    namespace_id: NamespaceId, session_id: str, row: Row
) -> tuple[VersionRow, TraceRow | None]:
    """Returns a row of a version joined with the trace that made it.

    None for a trace that is not there, or that has not the hash of its version.
    """
    version, trace = row[: VERSION.width], None
    if row[VERSION.width] is not None:
        trace = TRACE.read(row[VERSION.width :])
        if not VERSION.is_whole(version, namespace_id, session_id, digest=trace.version_hash):
            trace = None
    return VERSION.peek(version), trace


def to_both(row: Row) -> tuple[SessionRow, VersionRow]:
    """Returns a row of a session joined with its newest version; raises `Damaged`."""
    session = SESSION.read(row[: SESSION.width])
    if row[SESSION.width] is None:
        message = f"version {session.version} of session {session.id} is missing"
        raise Damaged(message)
    version = VERSION.read(row[SESSION.width :], session.namespace_id, session.id)
    return session, _numbered(version, session.version, of=session.id)


def _numbered(version: VersionRow, number: int, *, of: str) -> VersionRow:
    """Returns a version; raises `Damaged` if a damaged index has led to another, which is sound."""
    if version.number != number:
        message = f"version {number} of session {of} is not found by its number"
        raise Damaged(message)
    return version
