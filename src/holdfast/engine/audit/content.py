"""What a trace says beyond its row to those who may see content: the agents of its namespace.

Nothing of it is stored with the trace. What a change did to a state stands in the versions before
and after it, what was said in the turn that it names, and what is remembered in the memory: it is
looked up when somebody asks, and is gone from traces when it is gone there. Operators never see it
(`journal/withheld.py`), and neither does anybody once a trace was redacted.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions import state as states
from holdfast.engine.sessions.bearers import bearer_of
from holdfast.engine.sessions.turns import data_of
from holdfast.errors import Damaged
from holdfast.model.sessions import SessionRow, TurnRow, VersionRow
from holdfast.model.traces import TraceInfo

MOST_BYTES: Final = 1 << 20
"""Of the states and turns that one answer tells of: beyond that, ask for a single trace."""

PREVIEW_CHARS: Final = 100

_PREVIEW: Final = "content_preview"

Details = dict[str, Any]


class TraceContent:
    """Adds content to the traces of one answer, for as much as it may hold."""

    def __init__(self, handle: Handle, transaction: Transaction) -> None:
        self._handle, self._transaction = handle, transaction
        head = handle.find_head(transaction)
        self._namespace_id = None if head is None else head.namespace_id
        self._left = MOST_BYTES
        self._sessions = dict[str, SessionRow | None]()
        """Of these traces, by their ids."""

    def add(self, trace: TraceInfo) -> TraceInfo:
        """Returns a trace with what can still be told of it."""
        if trace.is_redacted or self._namespace_id is None or self._left <= 0:
            return trace
        # What an older version stored of a memory is told for as long as the memory is there.
        known = {name: value for name, value in trace.details.items() if name != _PREVIEW}
        more = self._more(trace)
        return msgspec.structs.replace(trace, details={**known, **more})

    def _more(self, trace: TraceInfo) -> Details:
        match trace.action:
            case "session.created":
                return self._created(trace)
            case "state.updated":
                return self._updated(trace)
            case "state.rolled_back":
                return {"reasoning": trace.details.get("reason")}
            case "turn.added":
                return self._said(trace)
            case "memory.created":
                return self._remembered(trace)
            case _:
                return {}

    def _created(self, trace: TraceInfo) -> Details:
        found = self._made(trace, trace.details.get("version", 0))
        return {} if found is None else {"initial_state": _decoded(found)}

    def _updated(self, trace: TraceInfo) -> Details:
        number = trace.details.get("version")
        if not isinstance(number, int) or number < 1:
            return {}
        old, new = self._parts(trace, number - 1), self._made(trace, number)
        if old is None or new is None:
            return {}
        changed = {key for key in old.keys() & new.keys() if old[key] != new[key]}
        both = [_decoded({key: each[key] for key in changed}) for each in (old, new)]
        diff = {
            "added": _decoded({key: new[key] for key in new.keys() - old.keys()}),
            "removed": _decoded({key: old[key] for key in old.keys() - new.keys()}),
            "modified": {key: {"old": both[0][key], "new": both[1][key]} for key in changed},
        }
        return {"state_diff": diff}

    def _said(self, trace: TraceInfo) -> Details:
        turn = self._turn(trace)
        if turn is None:
            return {}
        self._left -= len(turn.data)
        data = data_of(turn)
        return {
            "input_type": _type_of(data.input),
            "output_type": _type_of(data.output),
            "metadata": msgspec.json.decode(data.metadata),
        }

    def _remembered(self, trace: TraceInfo) -> Details:
        memory = None
        if self._namespace_id is not None and trace.resource_id is not None:
            memory = self._transaction.find_memory(self._namespace_id, trace.resource_id)
        return {} if memory is None else {_PREVIEW: memory.content[:PREVIEW_CHARS]}

    def _turn(self, trace: TraceInfo) -> TurnRow | None:
        """Returns the turn that a trace names, if the journal says that it made it."""
        turn_id = trace.details.get("turn_id")
        if not isinstance(turn_id, str):
            return None
        turn = self._transaction.find_turn(turn_id)
        if turn is None or (turn.stream, turn.journal) != (self._namespace_id, trace.number):
            return None
        session = self._session(trace.session_id, data_of(turn).before)
        return None if session is None or session.created_at > turn.created_at else turn

    def _made(self, trace: TraceInfo, number: object) -> Mapping[str, bytes] | None:
        """Returns the same of the version that a trace made, and of no other with its number."""
        version = self._version(trace, number)
        is_its = version is not None and version.trace_id == trace.id
        return self._parts(trace, number) if is_its else None

    def _parts(self, trace: TraceInfo, number: object) -> Mapping[str, bytes] | None:
        """Returns the state of a version, each key as JSON; None if it is gone, or too much."""
        version = self._version(trace, number)
        if version is None or version.bytes > self._left:
            return None
        self._left -= version.bytes
        return states.recall(self._handle, self._handle.objects, version.state).parts

    def _version(self, trace: TraceInfo, number: object) -> VersionRow | None:
        namespace_id, session_id = self._namespace_id, trace.session_id
        if namespace_id is None or session_id is None or not isinstance(number, int):
            return None
        if self._session(session_id, number) is None:
            return None
        return self._transaction.find_version(namespace_id, session_id, number)

    def _session(self, session_id: str | None, number: int) -> SessionRow | None:
        """Returns the session that a version is of, unless it was deleted.

        Whoever deletes one means its content, also where another has its id by now.
        """
        if session_id is None:
            return None
        if session_id not in self._sessions:
            found = self._transaction.find_session(
                self._handle.tenant_id, self._handle.name, session_id
            )
            self._sessions[session_id] = None if found is None else found[0]
        session = self._sessions[session_id]
        found = None if session is None else bearer_of(self._transaction, session, number)
        return None if found is None or found.deleted_at is not None else found


def _decoded(parts: Mapping[str, bytes]) -> Details:
    return {key: msgspec.json.decode(text) for key, text in sorted(parts.items())}


def _type_of(message: msgspec.Raw) -> str | None:
    try:
        return msgspec.json.decode(message, type=dict[str, Any]).get("type")
    except msgspec.DecodeError as exc:
        error = f"a turn cannot be read: {exc}"
        raise Damaged(error) from exc
