"""Answers about memories, where they stand in those of other topics."""

from typing import Any

import msgspec

from holdfast.wire.basics import Instant


class MemoryAnswer(msgspec.Struct, kw_only=True):
    """Something that is remembered."""

    id: str
    session_id: str
    """Empty for what belongs to no session."""
    user_id: str | None
    agent_id: str | None
    content: str
    type: str
    tags: list[str]
    metadata: dict[str, Any]
    is_searchable: bool
    has_embedding: bool
    version: int
    created_at: Instant
    updated_at: Instant


class FoundAnswer(MemoryAnswer, kw_only=True):
    """A memory that answers a question, with how well it does: from 0.7 on, obviously."""

    object: str = "memory"
    memory_type: str
    embedding_id: str | None
    vector_available: bool
    score: float
