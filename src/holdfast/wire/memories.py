"""Requests and answers about memories."""

from typing import Any

import msgspec

from holdfast.wire.basics import Instant


class MemoryRequest(msgspec.Struct, kw_only=True):
    """Something to remember; `memory_type` is the same as `type`."""

    content: str
    type: str | None = None
    memory_type: str | None = None
    session_id: str | None = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    embed: bool | None = None
    user_id: str | None = None
    agent_id: str | None = None


class MemoryPatch(msgspec.Struct, kw_only=True):
    """What is to change: tags replace the old ones, metadata is merged key by key."""

    content: str | None = None
    type: str | None = None
    memory_type: str | None = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None


class MemoryAnswer(msgspec.Struct, kw_only=True):
    """Something that is remembered."""

    object: str = "memory"
    id: str
    session_id: str
    """Empty for what belongs to no session."""
    user_id: str | None
    agent_id: str | None
    content: str
    type: str
    memory_type: str
    tags: list[str]
    metadata: dict[str, Any]
    embedding_id: str | None
    vector_available: bool
    version: int
    created_at: Instant
    updated_at: Instant


class MemoryList(msgspec.Struct, kw_only=True):
    """Memories, newest first."""

    object: str = "list"
    data: list[MemoryAnswer]
    has_more: bool


class SearchRequest(msgspec.Struct, kw_only=True):
    """A question; `top_k` is the same as `limit`, `type` as one of `types`.

    Types and tags are lists, or text with commas between them.
    """

    query: str
    session_id: str | None = None
    types: list[str] | str | None = None
    type: str | None = None
    tags: list[str] | str | None = None
    threshold: float | None = None
    limit: int | None = None
    top_k: int | None = None
    user_id: str | None = None
    scope: str | None = None


class FoundAnswer(MemoryAnswer, kw_only=True):
    """A memory that answers a question, with how well it does: from 0.7 on, obviously."""

    score: float


class SearchAnswer(msgspec.Struct, kw_only=True):
    """What answers a question, best first."""

    object: str = "list"
    data: list[FoundAnswer]
    query: str
    has_more: bool
