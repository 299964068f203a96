"""The state of a session: every change of it a version."""

from typing import Any, Final, TypedDict

from holdfast.engine.namespace import Namespace
from holdfast.engine.sessions.byturn import version_after, version_before
from holdfast.model.sessions import State, Version
from holdfast.model.traces import TraceInfo
from holdfast.server.moments import At, seen
from holdfast.server.paging import LAST_NUMBER, page_size, paged
from holdfast.server.problems import Unfit
from holdfast.server.requests import Request
from holdfast.server.routes.traces import to_answer as to_trace
from holdfast.server.routing import Route, get, patch, post, put
from holdfast.server.times import shown
from holdfast.wire.sessions import (
    RollbackAnswer,
    RollbackRequest,
    SessionHistoryAnswer,
    StateAnswer,
    StateRequest,
    VersionAnswer,
    VersionList,
)

LISTED, MOST_LISTED = 50, 1000
LONGEST_TAG: Final = 18
REASON_HEADER: Final = b"x-reason"
"""Where clients that have no argument for it can say why."""
_STATE: Final = "/v1/sessions/{session_id}/state"


@get(_STATE)
def read(
    agent: Namespace, session_id: str, version: int | None = None, at: At = None
) -> StateAnswer:
    """Returns the state: the newest, that of a version, or the one at a snapshot."""
    if version is None:
        return to_answer(seen(agent, at).sessions.get_state(session_id))
    if at is not None:
        raise Unfit("a snapshot shows one version: send either version or at", param="at")
    return to_answer(agent.sessions.get_state(session_id, version=version))


@patch(_STATE)
def update(request: Request, agent: Namespace, session_id: str, data: StateRequest) -> StateAnswer:
    """Makes a version in which these keys have these values; other keys stay."""
    made = agent.sessions.update_state(session_id, _given(data), **_why(request, data))
    return to_answer(made)


@put(_STATE)
def replace(request: Request, agent: Namespace, session_id: str, data: StateRequest) -> StateAnswer:
    """Makes a version with this state and nothing else."""
    return _replaced(request, agent, session_id, data)


@post(_STATE)
def replace_by_post(
    request: Request, agent: Namespace, session_id: str, data: StateRequest
) -> StateAnswer:
    """Makes a version with this state and nothing else, as PUT does."""
    return _replaced(request, agent, session_id, data)


@get(f"{_STATE}/history")
def history(
    agent: Namespace,
    session_id: str,
    limit: int | None = None,
    since_version: int | None = None,
    include_state: bool = True,
) -> VersionList:
    """Returns the versions after one, oldest first."""
    size = page_size(limit, usual=LISTED, most=MOST_LISTED)
    return VersionList(**_versions(agent, session_id, size, since_version, include_state))


@get("/v1/sessions/{session_id}/history")
def whole_history(
    agent: Namespace,
    session_id: str,
    limit: int | None = None,
    since_version: int | None = None,
    include_state: bool = True,
    include_traces: bool = True,
) -> SessionHistoryAnswer:
    """Returns the versions after one, oldest first, and the newest traces of the session."""
    size = page_size(limit, usual=LISTED, most=MOST_LISTED)
    versions = _versions(agent, session_id, size, since_version, include_state)
    found = list[TraceInfo]()
    if include_traces:
        found = agent.traces.list(session_id=session_id, limit=size, with_content=True)
    return SessionHistoryAnswer(
        **versions,
        session_id=session_id,
        versions=versions["data"],
        traces=[to_trace(trace) for trace in found],
    )


@post(
    [f"{_STATE}/rollback", "/v1/sessions/{session_id}/rollback"],
)
def rollback(
    request: Request, agent: Namespace, session_id: str, data: RollbackRequest
) -> RollbackAnswer:
    """Makes a version with the state of an earlier one; those between stay in the history."""
    goal = _goal(agent, session_id, data)
    made = agent.sessions.rollback(
        session_id,
        goal,
        reason=data.reason or data.reasoning or request.header(REASON_HEADER),
        conversation=bool(data.conversation),
        expected_version=_expected(request, data.expected_version),
    )
    return RollbackAnswer(
        success=True,
        session_id=made.session_id,
        version=made.version,
        new_version=made.version,
        restored_from_version=goal if goal >= 0 else made.version - 1 + goal,
        state=made.state,
        data=made.state,
        created_at=shown(made.created_at),
        updated_at=shown(made.updated_at),
        trace_id=made.trace_id,
    )


def to_answer(state: State) -> StateAnswer:
    """Returns a state as it stands on the wire."""
    return StateAnswer(
        session_id=state.session_id,
        version=state.version,
        state=state.state,
        data=state.state,
        created_at=shown(state.created_at),
        updated_at=shown(state.updated_at),
        trace_id=state.trace_id,
    )


def to_version(version: Version) -> VersionAnswer:
    """Returns a version as it stands on the wire."""
    return VersionAnswer(
        version=version.number,
        kind=version.kind.value,
        state=version.state,
        created_at=shown(version.created_at),
        updated_by=version.actor,
        reasoning=version.reasoning,
        trace_id=version.trace_id,
        turn_count=version.turn_count,
        restored_from_version=version.target,
    )


def _replaced(
    request: Request, agent: Namespace, session_id: str, data: StateRequest
) -> StateAnswer:
    made = agent.sessions.replace_state(session_id, _given(data), **_why(request, data))
    return to_answer(made)


class _Why(TypedDict):
    """Why a state changes, and what it has to be still."""

    reasoning: str | None
    expected_version: int | None


def _why(request: Request, data: StateRequest) -> _Why:
    return {
        "reasoning": data.reasoning or data.reason or request.header(REASON_HEADER),
        "expected_version": _expected(request, data.expected_version),
    }


def _given(data: StateRequest) -> dict[str, Any]:
    if data.state is not None and data.updates is not None:
        raise Unfit("send either state or updates, which mean the same", param="updates")
    given = data.updates if data.state is None else data.state
    if given is None:
        raise Unfit("state is missing: an object with keys", param="state")
    return given


def _expected(request: Request, given: int | None) -> int | None:
    """Returns the version that has to be the newest still: of the body, or of If-Match."""
    if given is not None:
        return given
    tag = (request.header(b"if-match") or "").strip().removeprefix("W/").strip('"')
    if not tag or tag == "*":
        return None
    # A digit in another script is one for Python, too; and it refuses to read very many of them.
    if not (tag.isascii() and tag.isdigit()) or len(tag) > LONGEST_TAG:
        raise Unfit("If-Match is the number of a version", param="If-Match")
    return int(tag)


def _versions(
    agent: Namespace, session_id: str, size: int, since: int | None, include_state: bool
) -> dict[str, Any]:
    """Returns a page of versions, with the number of the newest."""
    above = -1 if since is None else max(-1, min(since, LAST_NUMBER))

    def fetch(most: int) -> list[Version]:
        return agent.sessions.history(
            session_id, since_version=above, limit=most, include_state=include_state
        )

    found, has_more = paged(fetch, size)
    # Asked for afterwards: no version of the page is above it.
    current = agent.sessions.get_state(session_id).version
    data = [to_version(version) for version in found]
    return {"data": data, "current_version": current, "has_more": has_more}


def _goal(agent: Namespace, session_id: str, data: RollbackRequest) -> int:
    """Returns the version to go back to, in whichever way it was said."""
    turn_id = data.turn_id if data.target_turn_id is None else data.target_turn_id
    ways = (data.version, data.count, data.turn_count, turn_id)
    if sum(way is not None for way in ways) != 1:
        raise Unfit("say one of: version, count, turn_count, turn_id", param="version")
    if data.version is not None:
        return data.version
    if turn_id is not None:
        return version_after(agent.sessions, session_id, turn_id)
    if data.count is not None:
        return -_counted("count", data.count)
    turns = _counted("turn_count", data.turn_count or 0)
    return version_before(agent.sessions, session_id, turns)


def _counted(name: str, given: int) -> int:
    if not 0 < given <= MOST_LISTED:
        message = f"{name} is 1 to {MOST_LISTED}"
        raise Unfit(message, param=name)
    return given


ROUTES: Final[list[Route]] = [
    read,
    update,
    replace,
    replace_by_post,
    history,
    whole_history,
    rollback,
]
