"""Requests and answers about turns, and the context that is made of them."""

from typing import Any, Literal

import msgspec

from holdfast.wire.basics import Instant
from holdfast.wire.memories import FoundAnswer

Order = Literal["asc", "desc"]
"""Oldest first, or newest first."""


class TurnAnswer(msgspec.Struct, kw_only=True):
    """An exchange of a conversation."""

    object: str = "turn"
    id: str
    session_id: str
    turn_number: int
    input: dict[str, Any]
    output: dict[str, Any]
    input_preview: str
    output_preview: str
    metadata: dict[str, Any] | None
    reasoning: str | None
    state_before: dict[str, Any] | None
    state_after: dict[str, Any] | None
    version_before: int | None
    version_after: int | None
    created_at: Instant


class ContextRequest(msgspec.Struct, kw_only=True):
    """What a context is to be about, and how much of it there should be."""

    query: str | None = None
    memory_limit: int | None = None
    turn_limit: int | None = None
    turn_order: Order | None = None


class ContextMemory(FoundAnswer, kw_only=True):
    """A memory that has to do with the question."""


class Message(msgspec.Struct, kw_only=True):
    """One side of a turn, as chat models take it."""

    role: str
    content: str


class ContextAnswer(msgspec.Struct, kw_only=True):
    """What an agent needs to go on."""

    session_id: str
    version: int
    state: dict[str, Any]
    memories: list[ContextMemory]
    recent_turns: list[TurnAnswer]
    turns: list[TurnAnswer]
    messages: list[Message]
    """The same turns for a model, oldest first."""
    average_relevance: float
    drift_warning: bool
