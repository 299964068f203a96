"""Sessions come, are found, branch off and go."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.catalog.rows import Row
from holdfast.catalog.sessions import to_both
from holdfast.catalog.transaction import Transaction
from holdfast.engine.memory import plane as memories
from holdfast.engine.planes.handle import Handle, check_text
from holdfast.engine.sessions.bearers import (
    bearer_of,
    free_instant,
    hand_over,
    times_of_others,
    version_numbers,
)
from holdfast.engine.sessions.finding import alive, find_row
from holdfast.engine.sessions.following import catch_up
from holdfast.engine.sessions.lapsing import notice_lapsed
from holdfast.engine.sessions.presence import check_absent, check_list, check_listed
from holdfast.engine.sessions.state import Parts, StoredState, to_parts
from holdfast.engine.sessions.terms import TERMS_KEPT, shortens
from holdfast.engine.sessions.turns import metadata_text, to_object
from holdfast.engine.sessions.writing import Draft, change, get_locked, get_wanted, write
from holdfast.errors import AddOnly, InvalidName, InvalidValue, SessionExists, SessionNotFound
from holdfast.instants import EPOCH, to_us
from holdfast.model.basics import Head
from holdfast.model.sessions import Lineage, SessionRow, SessionRows, VersionKind, VersionRow
from holdfast.operations.sessions import (
    MAX_TTL_SECONDS,
    CreateSession,
    DeleteSession,
    ForkSession,
    ListSessions,
    UpdateSession,
)

MAX_TEXT_CHARS: Final = 4096
_ID_CHARS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
_MAX_ID_CHARS: Final = 128
PAGE: Final = 100
MAX_DEPTH: Final = 100
"""Forks of forks that a lineage shows."""

T = TypeVar("T")

Counted = tuple[SessionRows, int]
"""A session with its newest version, and how many memories belonged to it at that moment."""


def create(handle: Handle, wanted: CreateSession) -> SessionRows:
    """Makes a session, with the first version of its state.

    That is version 0, or the next of an id that another had, which is gone.
    """
    agent_id, session_id, user_id = wanted.agent_id, wanted.session_id, wanted.user_id
    parts = to_parts({} if wanted.initial_state is None else wanted.initial_state)
    shown = metadata_text(bytes(to_object("metadata", wanted.metadata)))
    chosen = handle.context.ids.session() if session_id is None else check_session_id(session_id)
    if not agent_id:
        raise InvalidName("agent", agent_id, reason="it is empty")
    check_texts(agent=agent_id, user=user_id)

    def compute(draft: Draft) -> SessionRows:
        gone = None if session_id is None else _find_gone(draft, session_id)
        number, created_at = 0, draft.now
        if gone is not None:
            number, created_at = gone.version + 1, free_instant(draft.transaction, gone, draft.now)
        expires_at = _expiry(draft.now, wanted.ttl_seconds)
        details = {"agent_id": agent_id, "user_id": user_id, "version": number}
        is_aside = gone is not None and gone.deleted_at is None
        if gone is not None and is_aside and shortens(handle, expires_at, gone.expires_at):
            expires_at, details[TERMS_KEPT] = gone.expires_at, 1
        session = SessionRow(
            namespace_id=draft.head.namespace_id,
            id=chosen,
            agent_id=agent_id,
            user_id=user_id,
            metadata=shown,
            created_at=created_at,
            updated_at=draft.now,
            expires_at=expires_at,
            version=number,
            branch="",
            turns=0,
        )
        trace_id = draft.note(session, "session.created", details)
        return add(
            draft,
            session,
            parts,
            kind=VersionKind.CREATED,
            trace_id=trace_id,
            is_chosen=session_id is not None,
            before=gone,
        )

    try:
        return write(handle, compute, ahead=parts)
    except SessionExists:
        # One whose time is over is out of reach, and may yet have to be ended.
        if read(handle, partial(_find_or_miss, handle, chosen, handle.context.clock())):
            raise
        notice_lapsed(handle.context, handle.tenant_id)
        return write(handle, compute, ahead=parts)


def add(
    draft: Draft,
    session: SessionRow,
    parts: Parts | StoredState,
    *,
    kind: VersionKind,
    trace_id: str | None,
    is_chosen: bool = False,
    before: SessionRow | None = None,
) -> SessionRows:
    """Writes a new session with its first version.

    Somebody may have chosen its id, and another may have had that `before`.
    """
    stored = parts if isinstance(parts, StoredState) else draft.store(parts)
    version = VersionRow(
        number=session.version,
        kind=kind,
        state=stored.entry,
        bytes=stored.bytes,
        branch=session.branch,
        turns=session.turns,
        created_at=draft.now,
        trace_id=trace_id,
    )
    if before is not None:
        session = hand_over(draft.transaction, before, session)
    elif is_chosen and not draft.transaction.add_session(session):
        raise SessionExists(session.id)
    draft.made, draft.has_row = version, is_chosen
    draft.put(session, version, old=None)
    return session, version


def _find_gone(draft: Draft, session_id: str) -> SessionRow | None:
    """Returns a session of this id that is gone, if there was one; raises `SessionExists`.

    It was deleted or is over, or a restore has set it aside.
    """
    transaction, handle = draft.transaction, draft.handle
    if transaction.is_lagging(draft.head.namespace_id):
        draft.end = catch_up(transaction, handle, draft.head, now=draft.now)
    known = transaction.find_session(handle.tenant_id, handle.name, session_id)
    if known is None:
        return None
    if known[0].is_present:
        raise SessionExists(session_id)
    return known[0]


def fork(handle: Handle, wanted: ForkSession) -> SessionRows:
    """Makes a session that goes on from a version of another: nothing is copied."""
    session_id, version, agent_id = wanted.session_id, wanted.version, wanted.agent_id
    more = msgspec.json.decode(to_object("metadata", wanted.metadata))
    check_texts(agent=agent_id)

    def compute(draft: Draft) -> SessionRows:
        origin, newest = get_locked(draft, session_id)
        at = newest if version is None else get_wanted(draft, origin, version)
        known = {"forked_from": origin.id, "forked_version": at.number}
        # As it is now: with what was said since the newest version was made.
        talk = (origin.branch, origin.turns) if version is None else (at.branch, at.turns)
        branch, turns = talk if wanted.include_turns else ("", 0)
        # Made anew: what the row of the origin says of its id is not said of this one's.
        session = SessionRow(
            namespace_id=origin.namespace_id,
            id=handle.context.ids.session(),
            agent_id=agent_id or origin.agent_id,
            user_id=origin.user_id,
            metadata=metadata_text(msgspec.json.encode({**more, **known})),
            created_at=draft.now,
            updated_at=draft.now,
            expires_at=_expiry(draft.now, wanted.ttl_seconds) or _same_term(origin, draft.now),
            version=0,
            branch=branch,
            turns=turns,
            forked_from=origin.id,
            forked_version=at.number,
        )
        details = {"source_session": origin.id, "fork_version": at.number}
        trace_id = draft.note(session, "session.forked", details)
        stored = StoredState(at.state, at.bytes)
        return add(draft, session, stored, kind=VersionKind.FORK, trace_id=trace_id)

    return write(handle, compute, about=(session_id, version))


def update(handle: Handle, wanted: UpdateSession) -> Counted:
    """Merges metadata at the top level, and starts a new term; makes no version."""
    ttl_seconds, remembered = wanted.ttl_seconds, 0
    more = msgspec.json.decode(to_object("metadata", wanted.metadata))

    def compute(draft: Draft, session: SessionRow, version: VersionRow) -> SessionRows:
        nonlocal remembered
        known = msgspec.json.decode(session.metadata)
        merged, encode = {**known, **more}, msgspec.json.encode
        changed = replace(
            session,
            # One that came with more, in an archive, can still be given a new term.
            metadata=metadata_text(encode(merged)) if more else session.metadata,
            updated_at=draft.now,
            expires_at=_expiry(draft.now, ttl_seconds) or session.expires_at,
            is_present=True,
        )
        if shortens(handle, changed.expires_at, session.expires_at):
            raise AddOnly("shorten the term of a session")
        if handle.context.adds_only and encode({**merged, **known}) != encode(merged):
            raise AddOnly("change the metadata of a session")  # No version keeps what it was.
        draft.transaction.set_session(changed)
        details = {"metadata_diff": sorted(more), "ttl_seconds": ttl_seconds}
        draft.note(changed, "session.updated", details)
        memories.ready(draft.transaction, handle, draft.head)
        remembered = count_memories(draft.transaction, changed) or 0
        return changed, version

    return change(handle, wanted.session_id, compute), remembered


def delete(handle: Handle, wanted: DeleteSession) -> None:
    """Takes a session away; a restore of a snapshot that holds it brings it back."""
    session_id, reason = wanted.session_id, wanted.reason
    check_texts(reason=reason)

    def compute(draft: Draft) -> None:
        session, version = get_locked(draft, session_id)
        gone = replace(session, is_present=False, deleted_at=draft.now)
        draft.transaction.set_session(gone)
        if session.is_present:
            draft.remove(session, version)
        others = times_of_others(draft.transaction, session)
        gone_with = memories.delete_those_of(
            draft.transaction, handle, draft.head, session, others=others, now=draft.now
        )
        details = {"reason": reason, "turn_count": session.turns, "memory_count": gone_with}
        draft.note(gone, "session.deleted", details)

    write(handle, compute, about=(session_id, None))


def read(handle: Handle, ask: Callable[[Transaction, Head], T | None]) -> T | None:
    """Asks in one transaction; a fork whose sessions have no rows yet writes them first."""
    context = handle.context
    with context.catalog.read() as transaction:
        head = handle.find_head(transaction)
        if head is None:
            return None
        found = ask(transaction, head)
        if found or not transaction.is_lagging(head.namespace_id):
            return found
    with context.catalog.write() as transaction:
        catch_up(transaction, handle, handle.lock(transaction), now=context.clock())
        return ask(transaction, handle.lock(transaction))


def get(handle: Handle, session_id: str) -> SessionRows:
    """Returns a session with its newest version; raises `SessionNotFound`."""
    with handle.context.catalog.ask() as transaction:
        row = transaction.find_session_row(handle.tenant_id, handle.name, session_id)
    return _alive(handle, row) or _get_slowly(handle, session_id)


def look(
    handle: Handle, session_id: str, ask: Callable[[Transaction, SessionRow, VersionRow], T | None]
) -> T:
    """Asks about a session in the transaction that shows it: the answer is of one moment.

    It asks again once the memories of a fork have their rows, if the answer is None for want of
    them. Raises `SessionNotFound`.
    """
    context = handle.context
    while True:
        with context.catalog.read() as transaction:
            row = transaction.find_session_row(handle.tenant_id, handle.name, session_id)
            found = _alive(handle, row)
            answer = None if found is None else ask(transaction, *found)
        if answer is not None:
            return answer
        if found is None:
            _get_slowly(handle, session_id)
        else:
            _remember(handle)


def _remember(handle: Handle) -> None:
    """Writes the rows of a fork's memories, if that is still to be done."""
    with handle.context.catalog.write() as transaction:
        head = handle.find_and_lock(transaction)
        if head is not None and transaction.is_lagging_memories(head.namespace_id):
            memories.catch_up(transaction, handle, head)


def _alive(handle: Handle, row: Row | None) -> SessionRows | None:
    """Returns what the row of a session says, unless that is gone."""
    if row is None:
        return None
    found = handle.context.lately.checked((row[0], row[1]), row, to_both)
    # Most have no end: whatever time it is, they are not past it.
    is_endless = found[0].expires_at is None
    return alive(found, now=EPOCH if is_endless else handle.context.clock())


def _get_slowly(handle: Handle, session_id: str) -> SessionRows:
    """Returns a session whose row was not there at first; raises `SessionNotFound`."""
    found = read(handle, partial(_find_or_miss, handle, session_id, handle.context.clock()))
    if found is None:
        notice_lapsed(handle.context, handle.tenant_id)
        raise SessionNotFound(session_id)
    return found


def count_memories(transaction: Transaction, session: SessionRow) -> int | None:
    """Returns how many memories belong to a session; None if those of a fork have no rows yet."""
    return transaction.count_memories(
        *(session.namespace_id, session.id),
        since=session.created_at,
        others=times_of_others(transaction, session),
    )


def _find_or_miss(
    handle: Handle, session_id: str, now: datetime, transaction: Transaction, head: Head
) -> SessionRows | None:
    """Returns a session; raises `Damaged` if it has no row, and the plane holds it."""
    # Both in one transaction: else one that is created in between has no row, and an entry.
    found = find_row(transaction, handle, session_id, now=now)
    if found is None and not transaction.is_lagging(head.namespace_id):
        check_absent(transaction, handle, session_id, now=now)
    return found


def iterate(handle: Handle, wanted: ListSessions) -> Iterator[Counted]:
    """Yields sessions, newest first, as many as are wanted, each with what it remembers then."""
    until, after, metadata = wanted.created_before, wanted.created_after, wanted.metadata
    before = None if until is None else (to_us(check_instant(until)), "")
    after = None if after is None else check_instant(after)
    if wanted.starting_after is not None:
        cursor = _cursor(handle, wanted.starting_after)
        before = cursor if before is None else min(before, cursor)
    context = handle.context
    notice_lapsed(context, handle.tenant_id)
    with context.catalog.read() as transaction:
        head = handle.find_head(transaction)
        is_lagging = head is not None and transaction.is_lagging(head.namespace_id)
        is_forgetful = head is not None and memories.is_lagging(transaction, head)
    if is_lagging or is_forgetful:
        with context.catalog.write() as transaction:
            memories.ready(transaction, handle, handle.lock(transaction))
            if is_lagging:
                catch_up(transaction, handle, handle.lock(transaction), now=context.clock())
    if head is None:
        return
    is_all = (before, after, wanted.agent_id, wanted.user_id) == (None, None, None, None)
    left = wanted.limit
    while left is None or left > 0:
        now = context.clock()
        with context.catalog.read() as transaction:
            page = transaction.list_sessions(
                head.namespace_id,
                most=PAGE,
                before=before,
                after=after,
                agent_id=wanted.agent_id,
                user_id=wanted.user_id,
            )
            present = check_list(transaction, handle, page.damaged)
            if is_all and before is None and page.last is None and not page.damaged:
                check_listed(transaction, handle, len(page.sound), present)
            chosen = [
                each
                for each in page.sound
                if alive(each, now=now) and (metadata is None or matches(each[0], metadata))
            ][:left]
            counted = [(each, count_memories(transaction, each[0]) or 0) for each in chosen]
        yield from counted
        left = None if left is None else left - len(counted)
        if page.last is None:
            return
        before = page.last


def lineage(handle: Handle, session_id: str) -> Lineage:
    """Returns where a session comes from, and the tree of what came from it."""
    found = get(handle, session_id)
    with handle.context.catalog.read() as transaction:
        return _lineage(transaction, handle, found[0], depth=0)


def _lineage(transaction: Transaction, handle: Handle, session: SessionRow, depth: int) -> Lineage:
    ancestors, last = list[str](), session
    while last is not None and last.forked_from is not None and last.forked_from not in ancestors:
        ancestors.append(last.forked_from)
        last = _origin(transaction, handle, last)
    below, own = list[Lineage](), version_numbers(transaction, session)
    for name in transaction.forks_of(session.namespace_id, session.id):
        found = transaction.find_session(handle.tenant_id, handle.name, name)
        if found is None or not found[0].is_present or depth >= MAX_DEPTH:
            continue
        # Others that had the id may have been forked, too.
        if _is_of(found[0], session) and any(found[0].forked_version in span for span in own):
            below.append(_lineage(transaction, handle, found[0], depth + 1))
    return Lineage(session.id, session.forked_from, session.forked_version, ancestors, below)


def _origin(transaction: Transaction, handle: Handle, fork: SessionRow) -> SessionRow | None:
    """Returns the session that a fork goes on from, if anything is known of it still."""
    name = fork.forked_from or ""
    found = transaction.find_session(handle.tenant_id, handle.name, name)
    if found is None or fork.forked_version is None:
        return None
    origin = bearer_of(transaction, found[0], fork.forked_version)
    return origin if origin is not None and _is_of(fork, origin) else None


def _is_of(fork: SessionRow, origin: SessionRow) -> bool:
    """Says whether a fork can be of a session: not of one that began later."""
    return fork.created_at >= origin.created_at


def _cursor(handle: Handle, session_id: str) -> tuple[int, str]:
    """Returns where a list goes on; the session may be gone since it was seen."""
    found = read(handle, lambda t, _: t.find_session(handle.tenant_id, handle.name, session_id))
    if found is None:
        raise SessionNotFound(session_id)
    return to_us(found[0].created_at), found[0].id


def check_instant(instant: datetime) -> datetime:
    """Returns an instant that says in which time zone it is meant; raises `InvalidValue`."""
    if instant.tzinfo is None:
        raise InvalidValue("an instant needs its time zone: datetime.now(tz=UTC), for example")
    return instant


def matches(session: SessionRow, wanted: dict[str, Any]) -> bool:
    """Says whether a session's metadata has these values."""
    known: dict[str, Any] = msgspec.json.decode(session.metadata)
    return all(key in known and known[key] == value for key, value in wanted.items())


def _expiry(now: datetime, ttl_seconds: int | None) -> datetime | None:
    if ttl_seconds is None:
        return None
    if not 0 < ttl_seconds <= MAX_TTL_SECONDS:
        message = f"ttl_seconds is a number from 1 to {MAX_TTL_SECONDS}, or None for no end"
        raise InvalidValue(message)
    return now + timedelta(seconds=ttl_seconds)


def _same_term(origin: SessionRow, now: datetime) -> datetime | None:
    if origin.expires_at is None:
        return None
    return now + (origin.expires_at - origin.created_at)


def check_texts(**texts: str | None) -> None:
    """Raises unless each is text that a row can hold."""
    for kind, text in texts.items():
        if text is not None and not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped callers
            message = f"{kind} is text, not {type(text).__name__!r}"
            raise InvalidValue(message)
        check_text(kind, text, max_chars=MAX_TEXT_CHARS)


def check_session_id(session_id: str) -> str:
    """Returns an id that somebody chose, if it can be used; raises `InvalidName`."""
    reason = None
    check_texts(session_id=session_id)
    if not session_id or len(session_id) > _MAX_ID_CHARS:
        reason = f"it has 1 to {_MAX_ID_CHARS} characters"
    elif not set(session_id) <= _ID_CHARS or session_id in (".", ".."):
        reason = "it has letters, digits, '-', '_' and '.' alone, so that it can stand in a URL"
    if reason is not None:
        raise InvalidName("session id", session_id, reason=reason)
    return session_id
