"""Traces, as their user holds them: what happened, newest first, and a way to add to it.

Whatever changes a timeline, a session or a memory leaves a trace in its own transaction
(`journal/chain.py`); single writes of files and of keys of the store leave none, since the snapshot
that follows says what they came to. Nothing here changes or removes a trace.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from math import inf
from typing import Any, Final

import msgspec

from holdfast.catalog.counting import in_order
from holdfast.catalog.hashing import REDACTED
from holdfast.catalog.transaction import Transaction
from holdfast.display import Part
from holdfast.engine.audit.content import TraceContent
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import check_limit
from holdfast.engine.journal.actions import normalise
from holdfast.engine.journal.chain import DONE_VIA, REQUEST_ID, append, details_of, is_whole
from holdfast.engine.journal.withheld import for_operators
from holdfast.engine.planes.handle import Handle, check_text
from holdfast.engine.sessions.lapsing import notice_lapsed
from holdfast.errors import (
    Damaged,
    InvalidValue,
    NoLongerKept,
    TooLarge,
    TraceNotFound,
    shorten,
)
from holdfast.ids import NamespaceId, TenantId, instant_of_trace
from holdfast.instants import from_us, to_us
from holdfast.jsontext import to_json
from holdfast.model.basics import Head
from holdfast.model.traces import Trace, TraceFilter, TraceInfo, TraceKind, TraceRow
from holdfast.operations.choices import check_zone
from holdfast.operations.operation import does, takes
from holdfast.operations.traces import (
    AddTrace,
    GetTrace,
    GetWorkspaceTrace,
    ListTraces,
    ListWorkspaceTraces,
    TraceChoice,
)

MAX_ACTION_CHARS: Final = 128
MAX_TEXT_CHARS: Final = 4096
MAX_DETAILS_BYTES: Final = 1 << 16
"""A trace says what was done; what it was done to is kept elsewhere."""

_PAGE: Final = 500
_IDS: Final = ("session_id", "user_id", "agent_id", "resource_type", "resource_id")
_NEAR: Final = 20
"""Rows of a chain before and behind where one would stand that is not found."""

TraceList = list[TraceInfo]
"""`list` is the name of methods below."""


class _Chain(Part):
    """What happened in one namespace, or to all that a tenant has."""

    def __init__(self, context: Context, tenant_id: TenantId, handle: Handle | None = None) -> None:
        self._context = context
        self._tenant_id = tenant_id
        self._handle = handle

    def _list(self, asked: TraceChoice, *, with_content: bool = False) -> TraceList:
        most = check_limit(asked.limit)
        wanted = TraceFilter(
            session_id=asked.session_id,
            action=None if asked.action is None else normalise(asked.action),
            actor=asked.actor,
            task_id=asked.task_id,
            user_id=asked.user_id,
            agent_id=asked.agent_id,
            resource_type=asked.resource_type,
            resource_id=asked.resource_id,
        )
        is_all = wanted == TraceFilter()
        notice_lapsed(self._context, self._tenant_id)
        with self._context.catalog.read() as transaction:
            head = None
            if self._handle is not None:
                head = self._handle.find_head(transaction)
                if head is None:
                    return []
                wanted = msgspec.structs.replace(wanted, namespace_id=head.namespace_id)
            wanted = self._between(transaction, wanted, asked)
            found = transaction.list_traces(self._tenant_id, wanted, most=most)
            in_order(found, _place_of)
            if head is not None and is_all:
                _check_gaps(
                    transaction,
                    head,
                    found,
                    is_newest=wanted.until == TraceFilter().until,
                    is_oldest=asked.after is None and len(found) < most,
                )
            shown = self._shown(transaction, found)
            return self._with_content(transaction, shown) if with_content else shown

    def _get(self, trace_id: str, *, with_content: bool = False) -> TraceInfo:
        with self._context.catalog.read() as transaction:
            row = self._find(transaction, trace_id)
            if row is None:
                raise TraceNotFound(trace_id)
            shown = self._shown(transaction, [row])
            return (self._with_content(transaction, shown) if with_content else shown)[0]

    def _shown(self, transaction: Transaction, rows: Sequence[TraceRow]) -> TraceList:
        """Returns traces with the names of their namespaces."""
        names = dict[NamespaceId | None, str | None]()
        for of in {row.namespace_id for row in rows}:
            if self._handle is not None:
                names[of] = self._handle.name
            else:
                head = None if of is None else transaction.find_head_by_id(of)
                names[of] = None if head is None else head.name
        return [_to_info(row, names[row.namespace_id]) for row in rows]

    def _add(self, wanted: AddTrace) -> TraceInfo:
        action = wanted.action
        if not action or len(action) > MAX_ACTION_CHARS:
            message = f"an action is text of 1 to {MAX_ACTION_CHARS} characters"
            raise InvalidValue(message)
        ids = {name: getattr(wanted, name) for name in _IDS}
        for text in (action, *ids.values()):
            check_text("text of a trace", text, max_chars=MAX_TEXT_CHARS)
        return self._append(
            Trace(action=normalise(action), details=_checked(wanted.details), **ids)
        )

    def _append(self, trace: Trace) -> TraceInfo:
        context = self._context
        with context.work() as transaction:
            context.check_room(transaction, self._tenant_id, len(msgspec.json.encode(trace)))
            of: Head | TenantId = self._tenant_id
            door = None
            if self._handle is not None:
                of, door = self._handle.lock_or_create(transaction), self._handle.door
            trace_id = append(transaction, context, of, trace, door=door, kind=TraceKind.ADDED)
            row = self._find(transaction, trace_id)
        if row is None:
            raise Damaged("a trace that was just written is not there")
        return _to_info(row, self._handle.name if self._handle else None)

    def _with_content(self, transaction: Transaction, traces: Sequence[TraceInfo]) -> TraceList:
        if self._handle is None:
            return [*traces]  # Of all namespaces: an operator asks.
        more = TraceContent(self._handle, transaction)
        return [more.add(trace) for trace in traces]

    def _find(self, transaction: Transaction, trace_id: str) -> TraceRow | None:
        """Returns the trace of this id, if it is one of ours."""
        row = transaction.find_trace(self._tenant_id, trace_id)
        if self._handle is not None:
            head = self._handle.find_head(transaction)
            if head is not None and row is None:
                _check_absent(transaction, head, trace_id)
            if head is None or row is None:
                return None
            if head.namespace_id != row.namespace_id:
                if not is_whole(row):
                    raise _missing(head, row.number)
                return None
        return row

    def _between(
        self,
        transaction: Transaction,
        wanted: TraceFilter,
        asked: TraceChoice,
    ) -> TraceFilter:
        until, seen = wanted.until, asked.starting_after
        if asked.before is not None:
            until = min(until, (_us("before", asked.before), 0, 0))
        if seen is not None:
            last = self._find(transaction, seen)
            if last is None:
                raise TraceNotFound(seen)
            until = min(until, _place_of(last))
        since = wanted.since_us if asked.after is None else _us("after", asked.after)
        return msgspec.structs.replace(wanted, since_us=since, until=until)


class Traces(_Chain):
    """What happened in one namespace."""

    @does(ListTraces)
    def list(self, wanted: ListTraces) -> TraceList:
        return self._list(wanted, with_content=wanted.with_content)

    @does(GetTrace)
    def get(self, wanted: GetTrace) -> TraceInfo:
        return self._get(wanted.trace_id, with_content=wanted.with_content)

    @does(AddTrace)
    def add(self, wanted: AddTrace) -> TraceInfo:
        return self._add(wanted)


class WorkspaceTraces(_Chain):
    """What happened in all namespaces of a tenant, and to the tenant itself."""

    @does(ListWorkspaceTraces)
    def list(self, wanted: ListWorkspaceTraces) -> TraceList:
        return self._list(wanted)

    @does(GetWorkspaceTrace)
    def get(self, wanted: GetWorkspaceTrace) -> TraceInfo:
        return self._get(wanted.trace_id)

    @takes(AddTrace)
    def add(self, wanted: AddTrace) -> TraceInfo:
        """Adds a trace of your own to the chain of the tenant."""
        return self._add(wanted)

    def for_operators(self) -> "WorkspaceTraces":
        """Returns the same for those who see no agent's content."""
        return _WithheldTraces(self._context, self._tenant_id)


class _WithheldTraces(WorkspaceTraces):
    """The same, without what repeats an agent's content."""

    def _list(self, asked: TraceChoice, *, with_content: bool = False) -> TraceList:
        return [for_operators(each) for each in super()._list(asked, with_content=with_content)]

    def _get(self, trace_id: str, *, with_content: bool = False) -> TraceInfo:
        return for_operators(super()._get(trace_id, with_content=with_content))


def _check_gaps(
    transaction: Transaction,
    head: Head,
    rows: Sequence[TraceRow],
    *,
    is_newest: bool,
    is_oldest: bool,
) -> None:
    """Raises `Damaged` if a list of a namespace's traces leaves one out that has to be there.

    Up to the newest, and down to the oldest, where the list goes as far. One that was dated by a
    clock that went back stands elsewhere in the list: it is there all the same.
    """
    if not rows and not (is_newest and is_oldest):
        return
    stream = head.namespace_id
    listed = dict.fromkeys(row.number for row in rows if row.stream == stream)
    newest = (inf,) if is_newest else _place_of(rows[0])
    oldest = (-inf,) if is_oldest else _place_of(rows[-1])
    ends = [_last_of(head) + 1] if is_newest else [], [0] if is_oldest else []
    for newer, older in pairwise((*ends[0], *listed, *ends[1])):
        low, high = min(newer, older), max(newer, older)
        if high - low <= 1:
            continue
        gap = transaction.find_listed(head.tenant_id, stream, after=low, before=high)
        if gap.count != high - low - 1:
            # What was let go of is no gap; which of it stayed, an audit knows.
            low = min(max(low, _last_forgotten(transaction, head)), high - 1)
            gap = transaction.find_listed(head.tenant_id, stream, after=low, before=high)
        if gap.count != high - low - 1:
            raise _missing(head, low + 1)
        for number, created_us in gap.listed:
            # One that was dated by a clock that went back stands elsewhere, or beyond the list.
            if number not in listed and oldest < (created_us, stream, number) < newest:
                raise _missing(head, number)


def _check_absent(transaction: Transaction, head: Head, trace_id: str) -> None:
    """Raises `Damaged` if the chain is not whole about where a trace of this id would stand.

    And `NoLongerKept` where that is no newer than what retention has let go.
    """
    at, stream = instant_of_trace(trace_id), head.namespace_id
    if at is None:
        return
    wanted = TraceFilter(namespace_id=stream, until=(at + 1, 0, 0))
    before = transaction.list_traces(head.tenant_id, wanted, most=1)
    # Those of one transaction need not be dated in the order of their numbers.
    last = max((row.number for row in before if row.stream == stream), default=0)
    first, end = max(last - _NEAR, 0) + 1, min(last + _NEAR, _last_of(head)) + 1
    found = transaction.page_traces(
        head.tenant_id, stream=stream, after=first - 1, most=max(end - first, 0)
    )
    sound = {row.number for row in found if row.id != trace_id and is_whole(row)}
    section = transaction.find_last_section(head.tenant_id, stream)
    for number in range(max(first, section.last + 1 if section else 0), end):
        if number not in sound:
            raise _missing(head, number)
    if section is not None and at <= section.at_us:
        raise NoLongerKept(f"traces of {shorten(head.name)}", begins=section.last + 1)


def _last_forgotten(transaction: Transaction, head: Head) -> int:
    """Returns up to which number traces were let go of; 0 if all are there."""
    section = transaction.find_last_section(head.tenant_id, head.namespace_id)
    return 0 if section is None else section.last


def _last_of(head: Head) -> int:
    """Returns how many rows a chain has, over which its head has no checksum; raises `Damaged`."""
    if not isinstance(head.journal_number, int):  # pyright: ignore[reportUnnecessaryIsInstance] - as it is stored
        message = f"the end of the traces of {head.name} is not what was written"
        raise Damaged(message)
    return head.journal_number


def _missing(head: Head, number: int) -> Damaged:
    return Damaged(f"trace {number} of {head.name} is missing")


def _place_of(row: TraceRow) -> tuple[int, int, int]:
    """Returns where a trace stands in a list."""
    return row.created_us, row.stream, row.number


def _us(name: str, instant: datetime) -> int:
    check_zone(name, instant)
    return to_us(instant)


def _checked(details: Mapping[str, Any] | None) -> dict[str, Any]:
    given = dict(details or {})
    size = len(to_json(given))
    if size > MAX_DETAILS_BYTES:
        message = f"the details of a trace may have {MAX_DETAILS_BYTES} bytes; these have {size}"
        raise TooLarge(message)
    return given


def _to_info(row: TraceRow, namespace: str | None) -> TraceInfo:
    if not is_whole(row):
        message = f"trace {row.number} is not what was written: its hash is another"
        raise Damaged(message)
    is_redacted = row.details.startswith(REDACTED)
    try:
        details, created_at = details_of(row), from_us(row.created_us)
    except OverflowError as exc:
        message = f"trace {row.number} cannot be read: {exc}"
        raise Damaged(message) from exc
    # What somebody adds says what he wants.
    is_done = row.kind == TraceKind.DONE.value
    return TraceInfo(
        id=row.id,
        number=row.number,
        action=row.action,
        created_at=created_at,
        namespace=namespace,
        session_id=row.session_id,
        user_id=row.user_id,
        agent_id=row.agent_id,
        resource_type=row.resource_type,
        resource_id=row.resource_id,
        actor=row.actor,
        task_id=row.task_id,
        request_id=details.pop(REQUEST_ID, None) if is_done else None,
        via=details.pop(DONE_VIA, None) if is_done else None,
        details=details,
        is_redacted=is_redacted,
        hash=row.hash.hex(),
    )
