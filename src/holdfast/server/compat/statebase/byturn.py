"""Versions of a session's state, found by what was said: before a turn, or after it.

A conversation that was forked begins with turns of another session, and the numbers of versions
that they carry are that one's. What this session has under the same number may be something else,
so the state itself is compared: what differs is no place to go back to.
"""

from typing import Any

from holdfast.engine.sessions.door import Sessions
from holdfast.errors import VersionNotFound


def version_after(sessions: Sessions, session_id: str, turn_id: str) -> int:
    """Returns the version that the state had after a turn; raises `VersionNotFound`."""
    turn = sessions.get_turn(session_id, turn_id, include_state=True)
    return _checked(sessions, session_id, turn.version_after, turn.state_after)


def version_before(sessions: Sessions, session_id: str, turns: int) -> int:
    """Returns the version that the state had before the last so many turns.

    Raises `VersionNotFound` if there are not so many.
    """
    last = sessions.list_turns(session_id, limit=turns)
    if len(last) < turns:
        raise VersionNotFound(session_id, -turns)
    turn = sessions.get_turn(session_id, last[-1].id, include_state=True)
    return _checked(sessions, session_id, turn.version_before, turn.state_before)


def _checked(
    sessions: Sessions, session_id: str, version: int | None, state: dict[str, Any] | None
) -> int:
    """Returns the version of a turn, if it is one of this session's."""
    if version is None or state is None:
        raise VersionNotFound(session_id, version or 0)
    if sessions.get_state(session_id, version=version).state != state:
        raise VersionNotFound(session_id, version)
    return version
