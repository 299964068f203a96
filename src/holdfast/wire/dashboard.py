"""Requests and answers that a dashboard asks for."""

import msgspec

from holdfast.wire.basics import Instant


class Stats(msgspec.Struct, kw_only=True):
    """How much there is."""

    total_sessions: int
    total_turns: int
    total_memories: int
    total_entities: int
    active_sessions_24h: int
    storage_usage_bytes: int


class Activity(msgspec.Struct, kw_only=True):
    """How much happened in an hour."""

    timestamp: Instant
    count: int


class StatsAnswer(msgspec.Struct, kw_only=True):
    """How much there is, and how much happened in each hour of the last day."""

    stats: Stats
    recent_activity: list[Activity]


class DashboardKeyRequest(msgspec.Struct, kw_only=True):
    """A key to make."""

    name: str
    rate_limit: int | None = None
    """Requests a minute; none for as many as come."""
    expires_days: int | None = None
    owner_id: str | None = None
    """Read and not kept: a key belongs to its workspace."""
    namespace: str | None = None
    """The only namespace that it reaches; none means all."""


class DashboardKey(msgspec.Struct, kw_only=True):
    """A key; `full_key` is its secret, in the answer that made it and never again."""

    id: str
    key_prefix: str
    name: str
    is_active: bool
    rate_limit: int
    """0 for as many as come."""
    created_at: Instant
    last_used_at: Instant | None
    expires_at: Instant | None
    total_requests: int
    namespace: str | None
    full_key: str | None = None
