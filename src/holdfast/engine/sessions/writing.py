"""Changes one session: one transaction, in which everything about it is written or nothing.

The session's row, a version, the trace that says who did what, and the plane's entry, which the
next snapshot will fold in, belong together. Writers of one namespace take turns, so versions are
numbered without a gap and nobody overwrites a state that he has not seen.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.catalog.rows import TURN, VERSION, Sealed
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.limits import check_free, check_quota, check_tenant
from holdfast.engine.core.recent import Mistaken
from holdfast.engine.journal import chain
from holdfast.engine.journal.events import unnumbered_of
from holdfast.engine.journal.occurrences import events_of
from holdfast.engine.objects.packing import packed
from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.ownership import note_change
from holdfast.engine.planes.unit import carry_out
from holdfast.engine.planes.writers import written
from holdfast.engine.sessions import state as states
from holdfast.engine.sessions.finding import alive, find_row, get_version
from holdfast.engine.sessions.following import catch_up
from holdfast.engine.sessions.presence import absence_of
from holdfast.engine.sessions.state import StoredState
from holdfast.entries import Session, encode_entry
from holdfast.errors import (
    Busy,
    HoldfastError,
    NamespaceNotFound,
    SessionNotFound,
    StateMoved,
    TooLarge,
)
from holdfast.ids import TraceId
from holdfast.instants import to_us
from holdfast.model.basics import Head, Plane, Size
from holdfast.model.sessions import (
    LeftHead,
    LeftSession,
    OpenedSession,
    SessionRow,
    SessionRows,
    TurnRow,
    VersionKind,
    VersionRow,
)
from holdfast.model.traces import LONG_BYTES, Trace, TraceEnd

T = TypeVar("T")

About = tuple[str, int | None] | None
"""A session's id, and the number of a version that is asked for; None where a session is new."""


class Draft(msgspec.Struct, kw_only=True):
    """One write: what there is, and where what is new goes."""

    handle: Handle
    transaction: Transaction
    head: Head
    opened: OpenedSession | None
    """The session that the write is about, as it was found."""
    left: LeftHead | None
    """How the head was last left by this process."""
    stage: Stage
    now: datetime
    traces: list[tuple[Trace, TraceId]] = []
    made: VersionRow | None = None
    said: TurnRow | None = None
    """A version and a turn that are written with the trace that tells of them."""
    has_row: bool = False
    """Whether the session's row is written already."""
    sequence: int = 0
    """Of the head, which nobody else moves on meanwhile."""
    end: TraceEnd = TraceEnd()
    """Of the namespace's chain, likewise."""
    entry: tuple[SessionRow, bytes, Size] | None = None
    """What is written with them: a session, its entry, and how much the plane grows."""
    leaves: tuple[Head, LeftSession] | None = None
    """How the write leaves its head and its session."""

    def __post_init__(self) -> None:
        self.sequence = self.head.sequence
        self.end = chain.end_of(self.head)

    def source(self) -> StagedObjects:
        """Returns the objects that there are, those that this write has staged among them."""
        return self.stage.source(self.handle.objects_in(self.transaction))

    @property
    def is_believed(self) -> bool:
        """Whether what was found was not looked at: it is compared with the next answer."""
        return self.left is not None and self.left.head is self.head

    def note(self, session: SessionRow, action: str, details: dict[str, Any]) -> TraceId:
        """Tells what is being done to a session; returns the id of its trace."""
        trace = Trace(
            action=action,
            session_id=session.id,
            user_id=session.user_id,
            agent_id=session.agent_id,
            resource_type="session",
            resource_id=session.id,
            actor=self.handle.context.actor,
            details=details,
        )
        trace_id = chain.new_id(self.handle.context, self.now)
        self.traces.append((trace, trace_id))
        return trace_id

    def store(self, parts: Mapping[str, bytes]) -> StoredState:
        """Stages a whole state."""
        most = self.handle.context.limits.state_bytes
        stored = states.store(self.stage, parts, max_bytes=most)
        stored = StoredState(packed(stored.entry), stored.bytes)
        states.keep(self.handle, stored, parts)
        return stored

    def merge(self, old: VersionRow, parts: Mapping[str, bytes]) -> StoredState:
        """Stages a state with some of its keys changed."""
        known = StoredState(old.state, old.bytes)
        most = self.handle.context.limits.state_bytes
        return states.merge(self.handle, self.stage, self.source, known, parts, max_bytes=most)

    def store_over(
        self, old: VersionRow, known: Mapping[str, bytes], parts: Mapping[str, bytes]
    ) -> StoredState:
        """Stages a whole state in place of one that is known: what is equal in both stays."""
        if known.keys() <= parts.keys():
            return self.merge(
                old, {key: parts[key] for key in parts if known.get(key) != parts[key]}
            )
        return self.store(parts)

    def check_turn(self, size: int) -> None:
        """Raises `TooLarge` for a turn with more than so many bytes."""
        most = self.handle.context.limits.turn_bytes
        if size > most:
            message = f"a turn may have {most} bytes as JSON; this one has {size}"
            raise TooLarge(message)

    def add_version(
        self,
        session: SessionRow,
        *,
        kind: VersionKind,
        state: StoredState,
        branch: str | None = None,
        turns: int | None = None,
        target: int | None = None,
        trace_id: str | None = None,
    ) -> tuple[SessionRow, VersionRow]:
        """Adds the next version of a session, and returns both as they are now."""
        version = VersionRow(
            number=session.version + 1,
            kind=kind,
            state=state.entry,
            bytes=state.bytes,
            branch=session.branch if branch is None else branch,
            turns=session.turns if turns is None else turns,
            created_at=self.now,
            target=target,
            trace_id=trace_id,
        )
        session = replace(
            session,
            version=version.number,
            branch=version.branch,
            turns=version.turns,
            updated_at=self.now,
            is_present=True,
        )
        self.made = version
        return session, version

    def extend(self, session: SessionRow, turn: TurnRow) -> SessionRow:
        """Moves the end of the conversation to a turn; makes no version."""
        return replace(
            session, branch=turn.branch, turns=turn.number, updated_at=self.now, is_present=True
        )

    def put(self, session: SessionRow, version: VersionRow, *, old: SessionRows | None) -> None:
        """Writes what the plane holds for a session; `old` is the session that it held."""
        entry = encode_entry(entry_of(session, version))
        more = Size(int(old is None), version.bytes - (old[1].bytes if old else 0))
        check_quota(self.head, more)
        said = self._said_bytes()
        is_back = self.made is not None and self.made.kind is VersionKind.ROLLBACK
        self._check_room(len(entry) + said, counts=not is_back or said > 0)
        self._note(session.id, old, entry)
        if self.made is None and self.said is None:
            self._write(session.id, entry, more)
            return
        self.sequence += 1
        self.entry = (session, entry, more)

    def finish(self) -> None:
        """Stores what was staged, and writes what was put off until all is known.

        A version or a turn and its trace are written at once: nobody else moves the end of the
        namespace's chain, whose row is locked.
        """
        if not self.stage.is_empty:
            self.stage.seal(self.transaction)
            self.stage.record(self.transaction)
        if self.entry is not None:
            ((trace, trace_id),) = self.traces
            self._put(*self.entry, trace, trace_id)
            return
        for trace, trace_id in self.traces:
            chain.append(
                self.transaction,
                self.handle.context,
                self.head,
                trace,
                door=self.handle.door,
                trace_id=trace_id,
            )

    def _put(
        self, session: SessionRow, entry: bytes, more: Size, trace: Trace, trace_id: TraceId
    ) -> None:
        """Writes a version, or a turn, or both, as parts of the trace that tells of them."""
        context, head = self.handle.context, self.head
        made, said = self._sealed(session)
        if made is not None:
            trace = replace(trace, version=made.value.number)
        row = chain.row_after(
            self.end,
            context,
            head,
            trace,
            trace_id=trace_id,
            stream=head.namespace_id,
            door=self.handle.door,
            version=None if made is None else made.digest,
            turn=None if said is None else said.digest,
        )
        telling = partial(events_of, trace, trace_id=trace_id)
        told = unnumbered_of(self.transaction, context, head, telling)
        writer = written(self.handle, head)
        stored = self.transaction.put_change(
            session,
            row,
            entry=entry,
            sequence=self.sequence,
            more=more,
            writer=writer,
            version=made,
            turn=said,
            told=told[0] if told else None,
            has_row=self.has_row,
        )
        self.transaction.count_added(row)
        if self.opened is not None and self.opened.rows is not None:
            moved = replace(
                head,
                sequence=self.sequence,
                size=Size(head.size.entries + more.entries, head.size.bytes + more.bytes),
                writer=writer,
                journal_number=row.number,
                journal_hash=row.hash,
                unfolded=None,  # The database knows whether the session was pending already.
            )
            version, more_of_row = (
                (self.opened.rows[1], ()) if made is None else (made.value, made.values)
            )
            of_both = (*stored, *more_of_row)
            # What is committed only with its answer may yet be undone: the next one looks.
            is_certain = self.handle.context.is_committed_at_once
            commit = self.transaction.commit if is_certain else None
            self.leaves = moved, LeftSession(session, version, of_both, stored[-1], commit)

    def _sealed(
        self, session: SessionRow
    ) -> tuple[Sealed[VersionRow] | None, Sealed[TurnRow] | None]:
        """Returns the version and the turn as they are stored, with the next row of the chain."""
        context, stream, journal = self.handle.context, self.head.namespace_id, self.end.number + 1
        made = said = None
        if self.made is not None:
            version = replace(self.made, journal=journal, salt=context.ids.salt())
            made = VERSION.seal(version, session.namespace_id, session.id)
        if self.said is not None:
            salt = context.ids.salt()
            said = TURN.seal(replace(self.said, stream=stream, journal=journal, salt=salt))
        return made, said

    def remove(self, session: SessionRow, version: VersionRow) -> None:
        """Takes a session out of the plane."""
        self._note(session.id, (session, version), None)
        self._write(session.id, None, Size(-1, -version.bytes))

    def _note(self, session_id: str, old: SessionRows | None, entry: bytes | None) -> None:
        """Notes what becomes of a session, for the tasks that this is done in."""
        if self.handle.door.within():
            key, namespace_id = session_id.encode(), self.head.namespace_id
            was = {} if old is None else {key: encode_entry(entry_of(*old))}
            note_change(
                self.transaction,
                self.handle,
                namespace_id,
                Plane.SESSIONS,
                old=was,
                new={key: entry},
            )

    def _write(self, session_id: str, entry: bytes | None, more: Size) -> None:
        namespace_id = self.head.namespace_id
        self.sequence += 1
        writer = written(self.handle, self.head)
        rows = [(session_id.encode(), entry)]
        self.transaction.note_pending(
            namespace_id, Plane.SESSIONS, rows, sequence=self.sequence, more=more, writer=writer
        )

    def _said_bytes(self) -> int:
        """Returns what is said at length in the traces, and counts there."""
        size = 0
        for trace, _ in self.traces:
            for text in trace.details.values():
                if isinstance(text, str):
                    size += len(text.encode())
        return size if size > LONG_BYTES else 0

    def _check_room(self, size: int, *, counts: bool) -> None:
        context, tenant_id = self.handle.context, self.handle.tenant_id
        check_free(size, limits=context.limits, places=(context.catalog,))
        if not counts:
            return  # With a full quota, too, somebody can go back.
        if self.opened is None:
            quota = self.transaction.get_tenant_quota(tenant_id)
        else:
            quota = self.opened.quota_bytes
        # A turn that was just added counts as used already: its row is written.
        check_tenant(self.transaction, tenant_id, needed_bytes=size, quota=quota)


def write(
    handle: Handle,
    compute: Callable[[Draft], T],
    *,
    about: About = None,
    ahead: states.Parts | None = None,
) -> T:
    """Runs `compute` in a write transaction of the namespace, and stores what it staged.

    With `about`, what is known of a session is looked up with the head. `ahead` are parts of a
    state that it will stage: large ones are on disk before it begins.
    """

    def attempt(stage: Stage) -> T:
        if ahead is not None:
            states.stage_ahead(stage, ahead, limits=handle.context.limits)
        return _try(handle, compute, stage, about)

    return carry_out(handle, attempt)


def change(
    handle: Handle,
    session_id: str,
    compute: Callable[[Draft, SessionRow, VersionRow], tuple[SessionRow, VersionRow]],
    *,
    expected: int | None = None,
    wanted: int | None = None,
    ahead: states.Parts | None = None,
) -> tuple[SessionRow, VersionRow]:
    """Changes a session by what `compute` returns for it; raises `StateMoved`.

    `wanted` is the number of a version that it will ask for.
    """

    def run(draft: Draft) -> tuple[SessionRow, VersionRow]:
        session, version = get_locked(draft, session_id)
        if expected is not None and expected != session.version:
            raise StateMoved(session_id, expected=expected, actual=session.version)
        done = compute(draft, session, version)
        draft.put(*done, old=(session, version) if session.is_present else None)
        return done

    try:
        return write(handle, run, about=(session_id, wanted), ahead=ahead)
    except NamespaceNotFound as exc:
        raise SessionNotFound(session_id) from exc


def get_locked(draft: Draft, session_id: str) -> SessionRows:
    """Returns a session within a write; raises `SessionNotFound`."""
    transaction, handle = draft.transaction, draft.handle
    if draft.opened is None:
        found = find_row(transaction, handle, session_id, now=draft.now)
    else:
        found = alive(draft.opened.rows, now=draft.now)
    if found is None and transaction.is_lagging(draft.head.namespace_id):
        draft.end = catch_up(transaction, handle, draft.head, now=draft.now)
        found = find_row(transaction, handle, session_id, now=draft.now)
    if found is None:
        raise absence_of(transaction, handle, session_id, now=draft.now)
    return found


def get_wanted(draft: Draft, session: SessionRow, wanted: int) -> VersionRow:
    """Returns the version that the write was told of; raises `VersionNotFound`."""
    # Where others had the id before, it may be theirs.
    is_all = session.since is None
    if is_all and draft.opened is not None and draft.opened.wanted is not None:
        return draft.opened.wanted
    return get_version(draft.transaction, session, wanted)


def entry_of(session: SessionRow, version: VersionRow) -> Session:
    """Returns what the plane holds for a session at a version."""
    return Session(
        state=version.state,
        bytes=version.bytes,
        branch=session.branch,
        turns=session.turns,
        agent_id=session.agent_id,
        user_id=session.user_id,
        metadata=session.metadata,
        created_us=to_us(session.created_at),
        expires_us=None if session.expires_at is None else to_us(session.expires_at),
    )


def _try(
    handle: Handle,
    compute: Callable[[Draft], T],
    stage: Stage,
    about: About,
) -> T:
    left = handle.context.lately.take(handle.tenant_id, handle.name)
    try:
        with handle.context.work() as transaction:
            head, opened = _open(transaction, handle, about, left)
            draft = Draft(
                handle=handle,
                transaction=transaction,
                head=head,
                opened=opened,
                left=left,
                stage=stage,
                now=handle.context.clock(),
            )
            try:
                done = compute(draft)
            except HoldfastError as exc:
                if draft.is_believed:
                    raise Mistaken("what was believed has to be looked at first") from exc
                raise
            draft.finish()
    except Busy as exc:
        if left is None or not left.is_alone:
            raise
        # Somebody else was faster: what was believed may have been a mistake.
        raise Mistaken(str(exc)) from exc
    if opened is not None and draft.leaves is not None:
        handle.context.lately.leave(opened, *draft.leaves, before=left)
    return done


def _open(
    transaction: Transaction, handle: Handle, about: About, left: LeftHead | None
) -> tuple[Head, OpenedSession | None]:
    """Returns the head, locked, and what is known of the session; makes a namespace for a new one.

    Raises `NamespaceNotFound`.
    """
    if about is None:
        return handle.lock_or_create(transaction), None
    session_id, wanted = about
    known = handle.context.lately.find(left, session_id)
    if left is not None and known is not None and handle.context.is_committed_at_once:
        transaction.trust(left, known)
        both = (known.session, known.version)
        opened = OpenedSession(left.head, left.quota_bytes, both, None, left.is_unheard)
        return left.head, opened
    opened = transaction.open_session(handle.tenant_id, handle.name, session_id, wanted=wanted)
    if opened is None:
        raise NamespaceNotFound(handle.name)
    return opened.head, opened
