"""Answers that a dashboard asks for."""

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
