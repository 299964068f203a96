"""Keys, as StateBase's dashboard asks for them: an admin's alone."""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from holdfast.model.keys import Key
from holdfast.server.problems import Unfit
from holdfast.server.requests import Caller
from holdfast.server.routing import Route, Who, delete, get, post
from holdfast.server.times import shown, shown_or_none
from holdfast.wire.basics import Instant

MOST_DAYS: Final = 36_500


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
        created_at=shown(key.created_at),
        last_used_at=shown_or_none(key.last_used_at),
        expires_at=shown_or_none(key.expires_at),
        total_requests=key.requests,
        namespace=key.namespace,
        full_key=secret,
    )


ROUTES: Final[list[Route]] = [list_keys, create_key, revoke_key]
