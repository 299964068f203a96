"""Sessions as StateBase's clients speak of them.

What they call by two names has both, and either will do; what their documents promise and their
client cannot say, a header says.

Versions of a session's state, found by what was said: before a turn, or after it.

A conversation that was forked begins with turns of another session, and the numbers of versions
that they carry are that one's. What this session has under the same number may be something else,
so the state itself is compared: what differs is no place to go back to.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

from holdfast.engine.namespace import Moment
from holdfast.engine.sessions.door import Sessions, version_of
from holdfast.errors import VersionNotFound
from holdfast.model.marks import Header
from holdfast.model.sessions import SessionInfo, State, Turn
from holdfast.model.traces import TraceInfo
from holdfast.operations.operation import Operation
from holdfast.operations.sessions import (
    AddTurn,
    CreateSession,
    DeleteSession,
    ForkSession,
    GetState,
    GetTurn,
    ListSessions,
    ListTurns,
    ListVersions,
    ReplaceState,
    RollbackState,
    UpdateState,
)
from holdfast.operations.shapes import ASKED
from holdfast.server.callers import name_in
from holdfast.server.compat.statebase.traces import TRACE
from holdfast.server.dialects import Answered, Exchange, Speech, always
from holdfast.server.paging import page_size
from holdfast.server.problems import Unfit

PREVIEW_CHARS: Final = 100
LONGEST_TAG: Final = 18
MOST_BACK: Final = 1000
FITTING_TURNS: Final = 4
"""The largest turns of which so many still fit into one answer."""
_write_trace: Any = TRACE.send

_STATE: Final = "/v1/sessions/{session_id}/state"
_REASON: Final = {"x_reason": Annotated[str, Header("X-Reason")]}
_MATCH: Final = {"if_match": Annotated[str, Header("If-Match")]}


def _preview(side: str) -> Answered:
    return Answered(str, lambda turn: getattr(turn, side)["content"][:PREVIEW_CHARS])


VALUES: Final[Mapping[type, Mapping[str, Answered]]] = {
    SessionInfo: {
        "object": always("session"),
        "namespace": Answered(str | None, lambda _: ASKED.get()),
        "new_session_id": Answered(str, lambda session: session.id),
    },
    State: {"data": Answered(dict[str, Any], lambda state: state.state)},
    Turn: {
        "object": always("turn"),
        "input_preview": _preview("input"),
        "output_preview": _preview("output"),
    },
}


# What is said


def _hear_term(exchange: Exchange) -> None:
    """A session that does not say how long it lives, lives as long as is usual."""
    said, never = exchange.said, exchange.said.pop("never_expires", None)
    if said.get("ttl_seconds") is not None:
        if never:
            raise Unfit("send either ttl_seconds or never_expires", param="never_expires")
    elif not never:
        said["ttl_seconds"] = exchange.request.services.config.session_ttl_seconds


def _hear_list(exchange: Exchange) -> None:
    said = exchange.said
    for name in ("starting_after", "created_after", "created_before"):
        if not said.get(name):
            said.pop(name, None)
    if isinstance(exchange.agent, Moment) and {"created_after", "created_before"} & said.keys():
        raise Unfit("at a snapshot, sessions are not found by when they were made", param="at")


def _hear_version(exchange: Exchange) -> None:
    if isinstance(exchange.agent, Moment) and "version" in exchange.said:
        raise Unfit("a snapshot shows one version: send either version or at", param="at")


def _hear_reason(exchange: Exchange) -> None:
    said = exchange.said
    said["reason"] = said.get("reason") or said.get("reasoning") or _reason_in_header(said)


def _reason_in_header(said: Mapping[str, Any]) -> str | None:
    text = said.get("x_reason")
    return None if text is None else name_in(text)


def _hear_turns(exchange: Exchange) -> None:
    if not exchange.said.get("starting_after"):
        exchange.said.pop("starting_after", None)


def _hear_state(exchange: Exchange) -> None:
    said = exchange.said
    state, updates = said.get("state"), said.get("updates")
    if state is not None and updates is not None:
        raise Unfit("send either state or updates, which mean the same", param="updates")
    if (given := updates if state is None else state) is None:
        raise Unfit("state is missing: an object with keys", param="state")
    said["state"] = given
    said["reasoning"] = said.get("reasoning") or said.get("reason") or _reason_in_header(said)
    _hear_expected(exchange)


def _hear_expected(exchange: Exchange) -> None:
    """The version that has to be the newest still: of the body, or of If-Match."""
    said = exchange.said
    tag = (said.get("if_match") or "").strip().removeprefix("W/").strip('"')
    if said.get("expected_version") is not None or not tag or tag == "*":
        return
    # A digit in another script is one for Python, too; and it refuses to read very many of them.
    if not (tag.isascii() and tag.isdigit()) or len(tag) > LONGEST_TAG:
        raise Unfit("If-Match is the number of a version", param="If-Match")
    said["expected_version"] = int(tag)


def _hear_fork(exchange: Exchange) -> None:
    said = exchange.said
    said["agent_id"] = said.get("new_agent_id") or said.get("agent_id")
    if (turn_id := said.get("at_turn_id")) is not None:
        if said.get("version") is not None:
            raise Unfit("send either version or at_turn_id", param="at_turn_id")
        said["version"] = version_of(exchange.agent.sessions, said["session_id"], turn_id)


def _hear_rollback(exchange: Exchange) -> None:
    _hear_reason(exchange)
    exchange.said["version"] = _goal(exchange)
    _hear_expected(exchange)


def _goal(exchange: Exchange) -> int:
    """Returns the version to go back to, in whichever way it was said."""
    said, sessions = exchange.said, exchange.agent.sessions
    turn_id = said.get("turn_id") if said.get("target_turn_id") is None else said["target_turn_id"]
    version, count, turns = (said.get(name) for name in ("version", "count", "turn_count"))
    if sum(way is not None for way in (version, count, turns, turn_id)) != 1:
        raise Unfit("say one of: version, count, turn_count, turn_id", param="version")
    if version is not None:
        return version
    if turn_id is not None:
        return version_of(sessions, said["session_id"], turn_id)
    if count is not None:
        return -_counted("count", count)
    return version_before(sessions, said["session_id"], _counted("turn_count", turns or 0))


def _counted(name: str, given: int) -> int:
    if not 0 < given <= MOST_BACK:
        message = f"{name} is 1 to {MOST_BACK}"
        raise Unfit(message, param=name)
    return given


# What is told


def _end(place: int) -> Answered:
    """Returns the id of the first or the last of a list."""
    return Answered(str | None, lambda x: x.sent.data[place].id if x.sent.data else None)


def _newest(exchange: Exchange) -> int:
    # Asked for afterwards: no version of the page is above it.
    return exchange.agent.sessions.get_state(exchange.asked.session_id).version


def _traces(exchange: Exchange) -> list[Any]:
    if exchange.said.get("include_traces") is False:
        return []
    asked = exchange.asked
    size = page_size(asked)
    found: list[TraceInfo] = exchange.agent.traces.list(
        session_id=asked.session_id, limit=size, with_content=True
    )
    return [_write_trace(trace) for trace in found]


def _restored_from(exchange: Exchange) -> int:
    goal, made = exchange.asked.version, exchange.made
    return goal if goal >= 0 else made.version - 1 + goal


def _with_states(exchange: Exchange) -> Turn:
    asked, made = exchange.asked, exchange.made
    return exchange.agent.sessions.get_turn(asked.session_id, made.id, include_state=True)


_LIST: Final = {"object": always("list")}
_CHANGE: Final = Speech(
    takes={"updates": dict[str, Any], "reason": str, **_REASON, **_MATCH},
    optional=frozenset({"state"}),
    hears=_hear_state,
)
_SHOWN: Final = {"include_state": True}
"""A turn is shown with its states unless somebody says otherwise."""
_VERSIONS: Final = Speech(tells={**_LIST, "current_version": Answered(int, _newest)})

OPERATIONS: Final[Mapping[type[Operation[Any]], list[Speech]]] = {
    CreateSession: [Speech(hears=_hear_term)],
    ListSessions: [
        Speech(hears=_hear_list, tells={**_LIST, "first_id": _end(0), "last_id": _end(-1)})
    ],
    DeleteSession: [Speech(takes=_REASON, hears=_hear_reason)],
    ForkSession: [Speech(takes={"at_turn_id": str, "new_agent_id": str}, hears=_hear_fork)],
    GetState: [Speech(hears=_hear_version)],
    UpdateState: [_CHANGE],
    ReplaceState: [
        _CHANGE,
        replace(_CHANGE, method="POST", paths=[_STATE], name="replace_state_by_post"),
    ],
    ListVersions: [
        _VERSIONS,
        Speech(
            paths=["/v1/sessions/{session_id}/history"],
            name="list_versions_and_traces",
            takes={"include_traces": bool},
            tells={
                **_VERSIONS.tells,
                "session_id": Answered(str, lambda x: x.asked.session_id),
                "versions": Answered(list[Any], lambda x: x.sent.data),
                "traces": Answered(list[TRACE.wire], _traces),
            },
        ),
    ],
    RollbackState: [
        Speech(
            paths=[f"{_STATE}/rollback", "/v1/sessions/{session_id}/rollback"],
            takes={
                "count": int,
                "turn_count": int,
                "turn_id": str,
                "target_turn_id": str,
                "reasoning": str,
                **_REASON,
                **_MATCH,
            },
            optional=frozenset({"version"}),
            hears=_hear_rollback,
            tells={
                "success": Answered(bool, lambda _: True),
                "new_version": Answered(int, lambda x: x.made.version),
                "restored_from_version": Answered(int, _restored_from),
            },
        )
    ],
    AddTurn: [Speech(shows=_with_states)],
    GetTurn: [Speech(usual=_SHOWN)],
    ListTurns: [Speech(usual=_SHOWN, hears=_hear_turns, tells=_LIST)],
}


def version_before(sessions: Sessions, session_id: str, turns: int) -> int:
    """Returns the version that the state had before the last so many turns.

    Raises `VersionNotFound` if there are not so many.
    """
    seen, last = 0, None
    while seen < turns:
        found = sessions.list_turns(
            session_id, limit=min(FITTING_TURNS, turns - seen), starting_after=last
        )
        if not found:
            raise VersionNotFound(session_id, -turns)
        seen, last = seen + len(found), found[-1].id
    return version_of(sessions, session_id, str(last), before=True)
