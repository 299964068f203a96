"""Numbers and keys, in the form that a dashboard asks for.

An agent's key sees the numbers of its own namespace, an admin's those of the whole workspace; keys
are the admin's alone.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.engine.namespace import Namespace
from holdfast.model.keys import Key
from holdfast.server.problems import Unfit
from holdfast.server.requests import Caller
from holdfast.server.routing import Route, Who, delete, get, post
from holdfast.server.times import shown, shown_or_none
from holdfast.wire.dashboard import (
    Activity,
    DashboardKey,
    DashboardKeyRequest,
    Stats,
    StatsAnswer,
)

MOST_DAYS: Final = 36_500


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
            Activity(timestamp=shown(hour), count=count) for hour, count in totals.by_hour
        ],
    )


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
        created_at=shown(key.created_at),
        last_used_at=shown_or_none(key.last_used_at),
        expires_at=shown_or_none(key.expires_at),
        total_requests=key.requests,
        namespace=key.namespace,
        full_key=secret,
    )


ROUTES: Final[list[Route]] = [stats, list_keys, create_key, revoke_key]
