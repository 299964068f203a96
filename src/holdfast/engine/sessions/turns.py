"""The conversation of a session: turns on branches.

A turn is written once and never changed. A conversation that went back and goes on from there
does so on a branch of its own: the turns that it left stay where they are, and are what an undo
or a look at an older version shows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.limits import Limits, check_answer, check_limit
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions.writing import Draft
from holdfast.errors import Damaged, InvalidValue, TooLarge, TurnNotFound
from holdfast.ids import TenantId
from holdfast.jsontext import to_json
from holdfast.model.sessions import BranchRow, Message, SessionRow, Turn, TurnRow
from holdfast.operations.sessions import ListTurns

MAX_METADATA_BYTES: Final = 1 << 20
"""Of a session, as JSON: lists show it of a hundred at once."""

PAGE: Final = 100


NOT_KEPT: Final = msgspec.Raw()
"""Stands for a state that a turn was not given, or that a version holds."""


class TurnData(msgspec.Struct, omit_defaults=True):
    """What the row of a turn holds, as JSON."""

    input: msgspec.Raw
    output: msgspec.Raw
    metadata: msgspec.Raw
    namespace_id: int
    session_id: str
    """Where it was said: the numbers of versions are that session's."""
    before: int
    after: int
    reasoning: str | None = None
    given_before: msgspec.Raw = NOT_KEPT
    """What the state was before it, as whoever added it said, where no version has it."""
    given_after: msgspec.Raw = NOT_KEPT


State = dict[str, Any]


def _no_state(
    _turn: TurnRow, _data: TurnData, _version: int, _given: msgspec.Raw, /
) -> State | None:
    """Returns None: who did not ask for states gets none."""


def append(
    draft: Draft,
    session: SessionRow,
    data: TurnData,
) -> TurnRow:
    """Adds a turn to the end of the conversation as it stands."""
    transaction, tenant_id = draft.transaction, draft.handle.tenant_id
    number, branch, encoded = session.turns + 1, session.branch, msgspec.json.encode(data)
    draft.check_turn(len(encoded))
    # Asked and counted at once: a fork of the namespace may be going on from the same turn.
    if not branch or not transaction.extend_branch(
        tenant_id, branch, turns=session.turns, more=len(encoded), is_sure=draft.is_believed
    ):
        # Nothing was said yet, or what was said after this point belongs to another story.
        branch = draft.handle.context.ids.branch()
        row = BranchRow(branch, session.branch or None, session.turns, number, len(encoded))
        transaction.add_branch(tenant_id, row)
    turn = TurnRow(
        branch=branch,
        number=number,
        id=draft.handle.context.ids.turn(),
        data=encoded,
        created_at=draft.now,
    )
    draft.said = turn
    return turn


def walk(
    transaction: Transaction,
    tenant_id: TenantId,
    branch_id: str,
    turns: int,
    *,
    descending: bool,
    after: int = 0,
    before: int | None = None,
) -> Iterator[TurnRow]:
    """Yields the first `turns` turns of a branch, those between two numbers."""
    end = turns + 1 if before is None else min(before, turns + 1)
    runs = list(_runs(transaction, tenant_id, branch_id, end - 1))
    yield from _walk(transaction, runs, after=after, descending=descending)


def _walk(
    transaction: Transaction, runs: Sequence["_Run"], *, after: int, descending: bool
) -> Iterator[TurnRow]:
    for branch, first, last, _ in runs if descending else reversed(runs):
        low, high = max(first - 1, after), last + 1
        while low + 1 < high:
            page = transaction.list_turns(
                branch, after=low, before=high, most=PAGE, descending=descending
            )
            _check_gaps(page, low=low, high=high, descending=descending)
            yield from page
            low, high = (low, page[-1].number) if descending else (page[-1].number, high)


def _check_gaps(page: Sequence[TurnRow], *, low: int, high: int, descending: bool) -> None:
    """Raises `Damaged` if turns between two numbers leave one out."""
    count = min(PAGE, high - low - 1)
    wanted = (
        range(high - 1, high - 1 - count, -1) if descending else range(low + 1, low + 1 + count)
    )
    if [turn.number for turn in page] != [*wanted]:
        raise Damaged("a conversation is missing some of its turns")


def page(
    transaction: Transaction,
    tenant_id: TenantId,
    session: SessionRow,
    wanted: ListTurns,
    *,
    limits: Limits,
) -> list[TurnRow]:
    """Returns turns of the conversation as it stands, from behind one that was seen on.

    Raises `TooLarge` for several that hold too much together, before any of it is read.
    """
    limit, starting_after, is_down = wanted.limit, wanted.starting_after, wanted.order == "desc"
    most = check_limit(limit)
    after, end = 0, session.turns + 1
    if starting_after is not None:
        cursor = _find_seen(transaction, tenant_id, session, starting_after)
        if cursor is None:
            raise TurnNotFound(starting_after)
        # One that was taken back may stand behind all that there are.
        after, end = (0, min(cursor.number, end)) if is_down else (cursor.number, end)
    # No number is left out: so many are as many turns.
    last = end - 1 if is_down else min(end - 1, after + most)
    after = max(after, last - most)
    runs = list(_runs(transaction, tenant_id, session.branch, last))
    if last - after > 1:
        _check_weight(transaction, runs, after=after, limits=limits)
    return list(_walk(transaction, runs, after=after, descending=is_down))


def _check_weight(
    transaction: Transaction, runs: Sequence["_Run"], *, after: int, limits: Limits
) -> None:
    """Raises `TooLarge` for turns above a number that hold more than one answer may."""
    most = limits.answer_bytes
    # Mostly whole branches hold less: then nobody need ask about turns.
    if most is not None and sum(run.bytes for run in runs if run.last > after) > most:
        spans = ((run.branch, max(run.first - 1, after), run.last + 1) for run in runs)
        check_answer(
            limits,
            (
                transaction.bytes_of_turns(branch, after=low, before=high)
                for branch, low, high in spans
                if low + 1 < high
            ),
        )


class _Run(NamedTuple):
    """Turns of one branch, by their numbers."""

    branch: str
    first: int
    last: int
    bytes: int
    """Of all turns of the branch."""


def _runs(
    transaction: Transaction, tenant_id: TenantId, branch_id: str, turns: int
) -> Iterator[_Run]:
    """Yields a branch and those before it, with the numbers of the turns that count there."""
    name: str | None = branch_id
    while name is not None and turns > 0:
        branch = transaction.find_branch(tenant_id, name)
        if branch is None:
            raise Damaged("a conversation is missing some of its turns")
        if turns > branch.parent_turns:
            yield _Run(branch.id, branch.parent_turns + 1, turns, branch.bytes)
        name, turns = branch.parent, min(turns, branch.parent_turns)


def to_message(kind: str, given: object) -> msgspec.Raw:
    """Returns one side of a turn as JSON with a type and a content, both of them text."""
    if isinstance(given, str):
        message: dict[str, object] = {"type": "text", "content": given}
    elif isinstance(given, dict):
        message = dict(cast("dict[str, object]", given))
    else:
        message = {}
    if not isinstance(message.get("content"), str):
        message["content"] = to_json(cast("object", given), place=kind).decode()
        message["raw"] = cast("object", given)
    if not isinstance(message.get("type"), str):
        if "type" in message:
            message["raw"] = cast("object", given)
        message["type"] = "text"
    return msgspec.Raw(to_json(message, place=kind))


def to_object(kind: str, given: object) -> msgspec.Raw:
    """Returns metadata as JSON; raises if it is not an object."""
    if given is None:
        return msgspec.Raw(b"{}")
    if not isinstance(given, dict):
        message = f"{kind} is an object with keys, not {type(given).__name__!r}"
        raise InvalidValue(message)
    return msgspec.Raw(to_json(cast("object", given), place=kind))


def metadata_text(data: bytes) -> str:
    """Returns the metadata of a session as a row holds it; raises `TooLarge`."""
    if len(data) > MAX_METADATA_BYTES:
        message = f"metadata may have {MAX_METADATA_BYTES} bytes; there are {len(data)}"
        raise TooLarge(message)
    return data.decode()


def to_turn(
    handle: Handle,
    row: TurnRow,
    session_id: str,
    *,
    find_state: Callable[[TurnRow, TurnData, int, msgspec.Raw], State | None] = _no_state,
) -> Turn:
    """Returns a turn as users see it; with `find_state`, with the states before and after it."""
    data = data_of(row)
    return Turn(
        id=row.id,
        session_id=session_id,
        number=row.number,
        input=_message(handle, data.input),
        output=_message(handle, data.output),
        metadata=_shown(handle, data.metadata),
        reasoning=data.reasoning,
        created_at=row.created_at,
        version_before=data.before,
        version_after=data.after,
        state_before=find_state(row, data, data.before, data.given_before),
        state_after=find_state(row, data, data.after, data.given_after),
    )


def data_of(row: TurnRow) -> TurnData:
    """Returns what a turn says; raises `Damaged`."""
    try:
        return msgspec.json.decode(row.data, type=TurnData)
    except (ValueError, RecursionError) as exc:
        message = f"turn {row.number} cannot be read: {exc}"
        raise Damaged(message) from exc


def _message(handle: Handle, text: msgspec.Raw) -> Message:
    shown = _shown(handle, text)
    if handle.context.hands_texts:
        shown |= {key: msgspec.json.decode(shown[key]) for key in ("type", "content")}
    return Message(shown)


def _shown(handle: Handle, text: msgspec.Raw) -> dict[str, Any]:
    """Returns an object; where texts are handed out, its parts are."""
    if handle.context.hands_texts:
        return dict(msgspec.json.decode(text, type=dict[str, msgspec.Raw]))
    return msgspec.json.decode(text)


def find_visible(
    transaction: Transaction, tenant_id: TenantId, session: SessionRow, turn_id: str
) -> TurnRow | None:
    """Returns a turn by its id, if the conversation as it stands holds it."""
    row = transaction.find_turn(turn_id)
    if row is None:
        _check_absent(transaction, tenant_id, session, turn_id)
    if row is None or row.number > session.turns:
        return None
    for branch, first, last, _ in _runs(transaction, tenant_id, session.branch, session.turns):
        if branch == row.branch and first <= row.number <= last:
            return row
    return None


def _find_seen(
    transaction: Transaction, tenant_id: TenantId, session: SessionRow, turn_id: str
) -> TurnRow | None:
    """Returns a turn by its id, if the conversation holds it or has held it.

    One that was taken back is on a branch that the conversation goes on from, or the journal says
    that it was added to this session.
    """
    found = find_visible(transaction, tenant_id, session, turn_id)
    row = found or transaction.find_turn(turn_id)
    if found is not None or row is None:
        return found
    runs = _runs(transaction, tenant_id, session.branch, session.turns)
    is_of_session = (
        row.branch == session.branch
        or any(row.branch == run.branch for run in runs)
        or _was_added(transaction, tenant_id, session, row)
    )
    return row if is_of_session else None


def _was_added(
    transaction: Transaction, tenant_id: TenantId, session: SessionRow, turn: TurnRow
) -> bool:
    """Says whether a turn was a session's own at first, as far as the journal still knows."""
    told = transaction.page_traces(tenant_id, after=turn.journal - 1, most=1, stream=turn.stream)
    of_session = session.namespace_id, session.id, turn.journal
    return any((row.namespace_id, row.session_id, row.number) == of_session for row in told)


def _check_absent(
    transaction: Transaction, tenant_id: TenantId, session: SessionRow, turn_id: str
) -> None:
    """Raises `Damaged` if a turn that is not found by its id is one of the conversation's.

    One whose id was damaged is not what was written: then so it is said of the first such turn.
    """
    turns = walk(transaction, tenant_id, session.branch, session.turns, descending=True)
    if any(turn.id == turn_id for turn in turns):
        message = f"the turn {turn_id} is there, and is not found by its id"
        raise Damaged(message)
