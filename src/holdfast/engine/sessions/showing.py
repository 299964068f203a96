"""Sessions and versions as users see them.

Going back and forking cost the same whatever the state holds; only showing it does not. So what a
change returns has a state that is made when somebody first looks at it. What is in memory is held
from the start; what is not is read from the vault, which has to be open then.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import msgspec

from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions import state as states
from holdfast.model.sessions import SessionInfo, SessionRow, SessionRows, State, VersionRow

Load = Callable[[], dict[str, Any]]


class _Later:
    """What has a state that is made when it is first asked for; equal to what has it already."""

    _kind: type[State] | type[SessionInfo]

    def __init__(self, load: Load, **known: Any) -> None:
        vars(self)["load"] = load
        for name, value in known.items():
            # Frozen it is for others.
            object.__setattr__(self, name, value)

    @cached_property
    def state(self) -> dict[str, Any]:
        """The session's state."""
        return vars(self)["load"]()

    def __eq__(self, other: object) -> bool:
        names = self._kind.__slots__
        return isinstance(other, self._kind) and all(
            getattr(self, name) == getattr(other, name) for name in names
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType] - a state is a dict, which has none


class LaterState(_Later, State):  # pyright: ignore[reportIncompatibleVariableOverride] - in its place
    """A `State` whose state is made when it is first asked for."""

    _kind = State


class LaterInfo(_Later, SessionInfo):  # pyright: ignore[reportIncompatibleVariableOverride] - in its place
    """A `SessionInfo` whose state is made when it is first asked for."""

    _kind = SessionInfo


def to_state(
    handle: Handle, session: SessionRow, version: VersionRow, *, later: bool = False
) -> State:
    """Returns a version as users see it; `later` leaves its state until it is asked for."""
    known: dict[str, Any] = {
        "session_id": session.id,
        "version": version.number,
        "created_at": session.created_at,
        "updated_at": version.created_at,
        "trace_id": version.trace_id,
    }
    if later:
        return LaterState(states.later(handle, version.state), **known)
    return State(state=states.show(handle, version.state), **known)


def to_info(
    handle: Handle,
    found: SessionRows,
    *,
    memory_count: int = 0,
    later: bool = False,
    include_state: bool = True,
) -> SessionInfo:
    """Returns a session as users see it; `later` leaves its state until it is asked for."""
    session, version = found
    known: dict[str, Any] = {
        "id": session.id,
        "agent_id": session.agent_id,
        "user_id": session.user_id,
        "metadata": msgspec.json.decode(session.metadata),
        "version": session.version,
        "turn_count": session.turns,
        "memory_count": memory_count,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "expires_at": session.expires_at,
        "forked_from": session.forked_from,
        "forked_version": session.forked_version,
    }
    if later:
        return LaterInfo(states.later(handle, version.state), **known)
    state = states.show(handle, version.state) if include_state else {}
    return SessionInfo(state=state, **known)
