"""Whose a memory is, and who sees it.

A memory may belong to a session, to a user, or to nobody. A session sees its own, those of its
user whatever session they were made in, and what belongs to nobody; never another user's.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.handle import Handle
from holdfast.engine.recall import seen_by
from holdfast.engine.sessions import lifecycle
from holdfast.engine.sessions.finding import get_row
from holdfast.errors import InvalidValue, shorten
from holdfast.model_memories import MemoryFilter, MemoryRow

SCOPES: Final = ("session", "user", "global")


def choose(
    handle: Handle,
    *,
    session_id: str | None,
    scope: str | None,
    types: Iterable[str] | None,
    tags: Iterable[str] | None,
    user_id: str | None,
    agent_id: str | None = None,
) -> MemoryFilter:
    """Returns which memories are asked for; raises `SessionNotFound` for an unknown session."""
    if scope is not None and scope not in SCOPES:
        message = f"{shorten(scope)} is no scope: there are {', '.join(SCOPES)}"
        raise InvalidValue(message)
    chosen = MemoryFilter(scope=scope or "all", owner_id=user_id)
    if session_id is not None:
        session, _ = lifecycle.get(handle, session_id)
        chosen = seen_by(session.id, session.user_id, scope=scope or "visible")
    elif scope == "session":
        raise InvalidValue("the scope 'session' needs the session's id")
    elif scope == "user" and user_id is None:
        raise InvalidValue("the scope 'user' needs the id of a session or a user")
    return replace(
        chosen,
        user_id=user_id,
        agent_id=agent_id,
        types=_listed("types", types),
        tags=_listed("tags", tags),
    )


def owned(handle: Handle, transaction: Transaction, memory: MemoryRow) -> MemoryRow:
    """Returns a memory that belongs to whom its session belongs to."""
    if memory.session_id is None:
        return memory
    session, _ = get_row(transaction, handle, memory.session_id, now=handle.context.clock())
    if session.user_id is not None and memory.user_id not in (None, session.user_id):
        # It would be seen by the session's user, who is somebody else.
        raise InvalidValue("the session belongs to another user")
    return replace(
        memory,
        user_id=memory.user_id or session.user_id,
        agent_id=memory.agent_id or session.agent_id,
    )


def _listed(kind: str, given: Iterable[str] | None) -> tuple[str, ...] | None:
    if isinstance(given, str):
        message = f"{kind} are a list of text, not one text"
        raise InvalidValue(message)
    return None if given is None else tuple(given)
