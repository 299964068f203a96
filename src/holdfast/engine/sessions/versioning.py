"""A session's state changes by versions, and going back is one more of them."""

from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from msgspec import Raw

from holdfast.catalog.rows import Row
from holdfast.catalog.sessions import to_traced
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.limits import check_items
from holdfast.engine.journal.chain import details_of, is_whole
from holdfast.engine.planes.handle import Handle, check_text
from holdfast.engine.sessions import state as states
from holdfast.engine.sessions.bearers import version_numbers
from holdfast.engine.sessions.finding import check_number, get_version
from holdfast.engine.sessions.following import Keeping, keep_conversation
from holdfast.engine.sessions.lifecycle import get, read
from holdfast.engine.sessions.patching import Patch, make_patch, to_text
from holdfast.engine.sessions.state import StoredState, is_same, to_parts
from holdfast.engine.sessions.turns import NOT_KEPT, TurnData, append, to_message, to_object
from holdfast.engine.sessions.writing import Draft, change, get_wanted
from holdfast.errors import ConversationMoved, Damaged, InvalidValue, VersionNotFound
from holdfast.ids import NamespaceId
from holdfast.model.sessions import (
    SessionRow,
    SessionRows,
    TurnRow,
    Version,
    VersionKind,
    VersionRow,
)


def update(
    handle: Handle,
    session_id: str,
    state: object,
    *,
    kind: VersionKind,
    reasoning: str | None,
    expected: int | None,
) -> SessionRows:
    """Makes a version with some keys changed, or (`REPLACED`) with another state altogether."""
    parts = to_parts(state)
    _check_reasoning(reasoning)

    def compute(draft: Draft, session: SessionRow, version: VersionRow) -> SessionRows:
        is_whole = kind is VersionKind.REPLACED
        stored = draft.store(parts) if is_whole else draft.merge(version, parts)
        details = {"version": session.version + 1, "reasoning": reasoning, "keys": sorted(parts)}
        return draft.add_version(
            session,
            kind=kind,
            state=stored,
            trace_id=draft.note(session, "state.updated", details),
        )

    return change(handle, session_id, compute, expected=expected, ahead=parts)


def rollback(
    handle: Handle,
    session_id: str,
    version: int,
    *,
    reason: str | None,
    conversation: bool,
    expected: int | None,
    expected_turns: int | None,
) -> SessionRows:
    """Makes a version with the state of an earlier one; constant time, whatever it holds.

    Raises `ConversationMoved` if there are other than the expected number of turns.
    """
    _check_reasoning(reason)
    check_number(version)

    def compute(draft: Draft, session: SessionRow, newest: VersionRow) -> SessionRows:
        if expected_turns is not None and expected_turns != session.turns:
            raise ConversationMoved(session_id, expected=expected_turns, actual=session.turns)
        target = get_wanted(draft, session, version)
        if conversation and handle.context.adds_only:
            keeping = Keeping(draft.transaction, handle, draft.head, draft.now)
            session, _ = keep_conversation(keeping, (session, newest), now=draft.now)
            draft.end = keeping.finish()
        why = reason or f"rollback to version {target.number}"
        details = {"from_version": session.version, "to_version": target.number, "reason": why}
        return draft.add_version(
            session,
            kind=VersionKind.ROLLBACK,
            state=StoredState(target.state, target.bytes),
            branch=target.branch if conversation else None,
            turns=target.turns if conversation else None,
            target=target.number,
            trace_id=draft.note(session, "state.rolled_back", details),
        )

    return change(handle, session_id, compute, expected=expected, wanted=version)


def add_turn(
    handle: Handle,
    session_id: str,
    *,
    given_input: object,
    given_output: object,
    metadata: object,
    reasoning: str | None,
    state_before: object,
    state_after: object,
) -> tuple[TurnRow, SessionRows]:
    """Adds a turn; a state after it that differs becomes a version, and nothing else does."""
    _check_reasoning(reasoning)
    sides = to_message("input", given_input), to_message("output", given_output)
    about = to_object("metadata", metadata)
    before = None if state_before is None else to_parts(state_before)
    after = None if state_after is None else to_parts(state_after)
    added = list[TurnRow]()

    def compute(draft: Draft, session: SessionRow, version: VersionRow) -> SessionRows:
        current: states.Parts = {}
        if before is not None or after is not None:
            current = states.recall_parts(handle, draft.source(), version.state)
        given_before = _if_other(handle, before, than=current)
        given_after = _if_other(handle, after, than=current)
        is_new = given_after is not None and _if_other(handle, after, than=before) is not None
        data = TurnData(
            *sides,
            about,
            namespace_id=session.namespace_id,
            session_id=session.id,
            before=session.version,
            after=session.version + int(is_new),
            reasoning=reasoning,
            given_before=given_before or NOT_KEPT,
            # One that is new is kept as the state of a version.
            given_after=NOT_KEPT if is_new or given_after is None else given_after,
        )
        turn = append(draft, session, data)
        added[:] = [turn]
        details: dict[str, Any] = {
            "turn_number": turn.number,
            "turn_id": turn.id,
            "reasoning": reasoning,
        }
        trace_id = draft.note(session, "turn.added", details)
        if is_new and after is not None:
            return draft.add_version(
                session,
                kind=VersionKind.TURN,
                state=draft.store_over(version, current, after),
                branch=turn.branch,
                turns=turn.number,
                trace_id=trace_id,
            )
        return draft.extend(session, turn), version

    found = change(handle, session_id, compute, ahead=after)
    return added[0], found


def _if_other(
    handle: Handle, given: states.Parts | None, *, than: states.Parts | None
) -> Raw | None:
    """Returns the text of a state that was given, unless it is the same as another."""
    if given is None or (than is not None and is_same(handle.context.limits, given, than)):
        return None
    return Raw(states.joined(given))


def history(
    handle: Handle, session_id: str, *, since: int, limit: int, include_state: bool
) -> list[Version]:
    """Returns versions above a number, oldest first."""
    session, _ = get(handle, session_id)
    key = (session.namespace_id, session.id)

    def ask(transaction: Transaction, _head: object) -> tuple[list[range], list[Row]]:
        rows, spans = list[Row](), version_numbers(transaction, session)
        for span in spans:
            rows += transaction.list_traced_versions(
                handle.tenant_id,
                *key,
                after=max(since, span.start - 1),
                before=span.stop,
                most=limit - len(rows),
            )
        return spans, rows

    spans, rows = read(handle, ask) or ([], [])
    known, checked = handle.context.lately.checked, partial(_checked, *key)
    found = [known((*key, row[0]), row, checked) for row in rows]
    own = (number for span in spans for number in span[max(since + 1 - span.start, 0) :])
    if [row.number for row, _, _ in found] != [*islice(own, limit)]:
        message = f"the history of session {session.id} is not whole"
        raise Damaged(message)
    if include_state:
        check_items(handle.context.limits, [row.bytes for row, _, _ in found])
    return [
        Version(
            number=row.number,
            kind=row.kind,
            state=states.show(handle, row.state) if include_state else None,
            created_at=row.created_at,
            turn_count=row.turns,
            target=row.target,
            reasoning=why or (_why_begun(session, row) if row.number == spans[0].start else None),
            actor=actor,
            trace_id=row.trace_id,
        )
        for row, why, actor in found
    ]


def _checked(
    namespace_id: NamespaceId, session_id: str, row: Row
) -> tuple[VersionRow, str | None, str | None]:
    """Returns a version with why it was made and by whom, which the trace says that made it.

    Raises `Damaged` unless that is whole, and has the version's hash.
    """
    version, trace = to_traced(namespace_id, session_id, row)
    if trace is None or not is_whole(trace):
        message = f"version {version.number} of session {session_id} is not what the journal says"
        raise Damaged(message)
    told = details_of(trace)
    return version, told.get("reasoning") or told.get("reason"), trace.actor


class Compared(NamedTuple):
    """What leads from one version to another: as JSON Patch, and as text."""

    patch: Patch
    text: str
    old: int
    new: int


def compare(handle: Handle, session_id: str, old: int, new: int | None) -> Compared:
    """Compares two versions, or one with the newest."""
    session, newest = get(handle, session_id)

    def ask(transaction: Transaction, _head: object) -> tuple[VersionRow, VersionRow]:
        other = newest if new is None else get_version(transaction, session, new)
        return get_version(transaction, session, old), other

    found = read(handle, ask)
    if found is None:
        raise VersionNotFound(session_id, old)
    one, other = (states.weigh(handle, row.state) for row in found)
    patched = make_patch(one, other)
    return Compared(patched.patch, to_text(one, patched), *(row.number for row in found))


def _why_begun(session: SessionRow, first: VersionRow) -> str:
    """Returns why there is a first version: nobody is asked when it is made."""
    if first.kind is VersionKind.CREATED:
        return "initial state"
    if session.forked_from is None:
        return "came with the namespace, which was forked or imported"
    return f"forked from {session.forked_from} at version {session.forked_version}"


def _check_reasoning(reasoning: str | None) -> None:
    if reasoning is not None and not isinstance(reasoning, str):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped callers
        message = f"reasoning is text, not {type(reasoning).__name__!r}"
        raise InvalidValue(message)
    check_text("reasoning", reasoning, max_chars=65_536)
