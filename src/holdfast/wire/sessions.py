"""Requests and answers about sessions, their state and their context.

Where clients in use call one thing by two names, a request has both, and either will do.
"""

from typing import Any

import msgspec

from holdfast.wire.basics import Instant
from holdfast.wire.traces import TraceAnswer


class SessionRequest(msgspec.Struct, kw_only=True):
    """A session to make."""

    agent_id: str
    user_id: str | None = None
    metadata: dict[str, Any] | None = None
    initial_state: dict[str, Any] | None = None
    ttl_seconds: int | None = None
    session_id: str | None = None
    """An id of your own; making it twice is a conflict."""
    never_expires: bool | None = None
    """Whether it stays until it is deleted; else it has the term that it says, or a usual one."""


class SessionPatch(msgspec.Struct, kw_only=True):
    """What is to change in a session beside its state: metadata is merged at the top level."""

    metadata: dict[str, Any] | None = None
    ttl_seconds: int | None = None


class SessionAnswer(msgspec.Struct, kw_only=True):
    """A session."""

    object: str = "session"
    id: str
    agent_id: str
    user_id: str | None
    created_at: Instant
    updated_at: Instant
    metadata: dict[str, Any] | None
    state: dict[str, Any]
    memory_count: int
    turn_count: int
    ttl_expires_at: Instant | None
    version: int
    namespace: str
    new_session_id: str
    """Its id once more: what a fork made."""
    forked_from: str | None
    forked_version: int | None


class SessionList(msgspec.Struct, kw_only=True):
    """Sessions, newest first."""

    object: str = "list"
    data: list[SessionAnswer]
    has_more: bool
    first_id: str | None
    last_id: str | None


class StateRequest(msgspec.Struct, kw_only=True):
    """A state, or with PATCH the keys of it that change; `updates` is the same as `state`."""

    state: dict[str, Any] | None = None
    updates: dict[str, Any] | None = None
    reasoning: str | None = None
    reason: str | None = None
    expected_version: int | None = None


class StateAnswer(msgspec.Struct, kw_only=True):
    """A state; `data` holds the same once more."""

    session_id: str
    version: int
    state: dict[str, Any]
    data: dict[str, Any]
    created_at: Instant
    updated_at: Instant
    trace_id: str | None


class VersionAnswer(msgspec.Struct, kw_only=True):
    """One version of a state."""

    version: int
    kind: str
    state: dict[str, Any] | None
    created_at: Instant
    updated_by: str | None
    reasoning: str | None
    trace_id: str | None
    turn_count: int
    restored_from_version: int | None


class VersionList(msgspec.Struct, kw_only=True):
    """Versions, oldest first."""

    object: str = "list"
    data: list[VersionAnswer]
    current_version: int
    has_more: bool


class SessionHistoryAnswer(VersionList, kw_only=True):
    """Versions with the newest traces of a session, and what it is now."""

    session_id: str
    versions: list[VersionAnswer]
    """The same as `data`."""
    traces: list[TraceAnswer]
    """Newest first; empty where they were not asked for."""


class RollbackRequest(msgspec.Struct, kw_only=True):
    """Where to go back to, said in one of four ways."""

    version: int | None = None
    """The version whose state comes back; a negative one counts from the newest."""
    count: int | None = None
    """So many versions back."""
    turn_count: int | None = None
    """To before the last so many turns."""
    turn_id: str | None = None
    """To what the state was after this turn."""
    target_turn_id: str | None = None
    """The same as `turn_id`."""
    reason: str | None = None
    reasoning: str | None = None
    conversation: bool | None = None
    """Whether the conversation goes back, too."""
    expected_version: int | None = None


class RollbackAnswer(msgspec.Struct, kw_only=True):
    """The state that came back, as a new version."""

    success: bool
    session_id: str
    version: int
    new_version: int
    restored_from_version: int
    state: dict[str, Any]
    data: dict[str, Any]
    created_at: Instant
    updated_at: Instant
    trace_id: str | None


class ForkRequest(msgspec.Struct, kw_only=True):
    """The version that a new session goes on from; none means the newest."""

    version: int | None = None
    at_turn_id: str | None = None
    """Instead of a version: from what the state was after this turn."""
    new_agent_id: str | None = None
    agent_id: str | None = None
    include_turns: bool | None = None
    metadata: dict[str, Any] | None = None
    ttl_seconds: int | None = None


class DiffAnswer(msgspec.Struct, kw_only=True):
    """What leads from one version to another."""

    session_id: str
    from_version: int
    to_version: int
    patch: list[dict[str, Any]]
    """JSON Patch."""
    text: str


class LineageAnswer(msgspec.Struct, kw_only=True):
    """Where a session comes from, and what came from it."""

    session_id: str
    forked_from: str | None
    forked_version: int | None
    ancestors: list[str]
    forks: list["LineageAnswer"]
