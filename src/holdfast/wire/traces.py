"""Requests and answers about traces."""

from typing import Any

import msgspec

from holdfast.wire.basics import Instant


class TraceRequest(msgspec.Struct, kw_only=True):
    """A trace of your own."""

    action: str
    session_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    resource_type: str | None = None
    resource_id: str | None = None
    details: dict[str, Any] | None = None


class TraceContext(msgspec.Struct, kw_only=True):
    """Where a trace came from."""

    request_id: str | None
    api_key_id: str | None


class TraceAnswer(msgspec.Struct, kw_only=True):
    """One thing that happened."""

    object: str = "trace"
    id: str
    number: int
    session_id: str | None
    user_id: str | None
    agent_id: str | None
    namespace: str | None
    action: str
    resource_type: str | None
    resource_id: str | None
    actor: str | None
    actor_id: str | None
    timestamp: Instant
    created_at: Instant
    details: dict[str, Any]
    metadata: dict[str, Any]
    context: TraceContext
    ip_address: str | None
    is_redacted: bool
    hash: str


class TraceList(msgspec.Struct, kw_only=True):
    """Traces, newest first."""

    object: str = "list"
    data: list[TraceAnswer]
    has_more: bool
