"""What StateBase's dashboard asks for: numbers and keys.

An agent's key sees the numbers of its own namespace, an admin's those of the whole workspace; keys
are an admin's alone.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from holdfast.engine.namespace import Namespace
from holdfast.instants import to_text
from holdfast.model.keys import Key
from holdfast.model.marks import Instant
from holdfast.server.problems import Unfit
from holdfast.server.requests import Caller
from holdfast.server.routing import Route, Who, delete, get, post

MOST_DAYS: Final = 36_500


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


@get("/v1/dashboard/stats", who=Who.KEY)
def stats(caller: Caller, agent: Namespace) -> StatsAnswer:
    """Returns how much there is, and how much happened lately."""
    totals = caller.vault.totals() if caller.is_admin else agent.totals()
    return StatsAnswer(
        stats=Stats(
            total_sessions=totals.sessions,
            total_turns=totals.turns,
            total_memories=totals.memories,
            total_entities=totals.entities,
            active_sessions_24h=totals.active_sessions,
            storage_usage_bytes=totals.storage_bytes,
        ),
        recent_activity=[
            Activity(timestamp=to_text(each.hour), count=each.traces) for each in totals.by_hour
        ],
    )


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


@get("/v1/dashboard/keys", who=Who.OPERATOR)
def list_keys(caller: Caller) -> list[DashboardKey]:
    """Lists the keys that are not revoked, oldest first."""
    return [_answer(key) for key in caller.vault.keys.list()]


@post("/v1/dashboard/keys", who=Who.OPERATOR, is_secret=True)
def create_key(caller: Caller, data: DashboardKeyRequest) -> DashboardKey:
    """Makes an agent's key; its secret is in this answer and nowhere else."""
    days = data.expires_days
    if days is not None and not 0 < days <= MOST_DAYS:
        message = f"expires_days is 1 to {MOST_DAYS}"
        raise Unfit(message, param="expires_days")
    key = caller.vault.keys.create(
        data.name,
        namespace=data.namespace,
        rate_limit=data.rate_limit,
        expires_in=None if days is None else timedelta(days=days),
    )
    return _answer(key, secret=key.api_key)


@delete("/v1/dashboard/keys/{key_id}", status=204, who=Who.OPERATOR)
def revoke_key(caller: Caller, key_id: str) -> None:
    """Revokes a key: the next request with it is refused."""
    caller.vault.keys.revoke(key_id)


def _answer(key: Key, *, secret: str | None = None) -> DashboardKey:
    return DashboardKey(
        id=key.id,
        key_prefix=key.prefix,
        name=key.name,
        is_active=key.is_valid(datetime.now(UTC)),
        rate_limit=key.rate_limit or 0,
        created_at=to_text(key.created_at),
        last_used_at=key.last_used_at and to_text(key.last_used_at),
        expires_at=key.expires_at and to_text(key.expires_at),
        total_requests=key.requests,
        namespace=key.namespace,
        full_key=secret,
    )


ROUTES: Final[list[Route]] = [stats, list_keys, create_key, revoke_key]
