"""Sessions and versions as users see them.

Going back and forking cost the same whatever the state holds; only showing it does not. So what a
change returns has a state that is made when somebody first looks at it. What is in memory is held
from the start; what is not is read from the vault, which has to be open then.
"""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

import msgspec

from holdfast.engine.core.limits import check_items
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions import state as states
from holdfast.model.sessions import SessionInfo, SessionRow, SessionRows, State, VersionRow

T = TypeVar("T")


class _Later:
    """What has a state that is made when it is first asked for; equal to what has it already.

    A copy of it has its state, and is of that kind.
    """

    _kind: ClassVar[type[State] | type[SessionInfo]]

    def __getattr__(self, name: str) -> Any:
        # No property, in whose place msgspec finds nothing: it asks instances.
        if name != "state":
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        known = vars(self)
        load = known.get("load")
        # Another thread has made it meanwhile. What it was made of goes: it may be as large.
        state = known[name] if load is None else known.setdefault(name, load())
        known.pop("load", None)
        return state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self._kind) and self._known() == _Later._known(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType] - a state is a dict, which has none

    def __reduce__(self) -> Any:
        # As of the first protocol: by the later ones an object reduces to its own kind alone.
        return self._kind(**self._known()).__reduce_ex__(1)

    def _known(self: Any) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


class LaterState(_Later, State):
    """A `State` whose state is made when it is first asked for."""

    _kind = State


class LaterInfo(_Later, SessionInfo):
    """A `SessionInfo` whose state is made when it is first asked for."""

    _kind = SessionInfo


def _filled(kind: type[T], known: dict[str, Any]) -> T:
    """Returns one with these fields; its own `__init__` sets each by a call, as it is frozen."""
    made = kind.__new__(kind)
    made.__dict__.update(known)
    return made


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
        known["load"] = states.later(handle, version.state)
        return _filled(LaterState, known)
    known["state"] = states.show(handle, version.state)
    return _filled(State, known)


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
        known["load"] = states.later(handle, version.state)
        return _filled(LaterInfo, known)
    known["state"] = states.show(handle, version.state) if include_state else {}
    return _filled(SessionInfo, known)


def check_infos(handle: Handle, found: Iterable[SessionRows], *, include_state: bool) -> None:
    """Raises `TooLarge` for sessions that hold more together than one answer may."""
    sizes = [len(session.metadata) + version.bytes * include_state for session, version in found]
    check_items(handle.context.limits, sizes)
