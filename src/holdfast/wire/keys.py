"""Requests and answers about API keys."""

from typing import Annotated, Final

import msgspec

from holdfast.wire.basics import Instant

LONGEST_S: Final = 36_500 * 86_400
MOST_REQUESTS: Final = 1_000_000_000


class KeyRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A key to make. What was meant to make it less is not passed over: it would open more."""

    name: str
    namespace: str | None = None
    """The only namespace that it reaches; none means all."""
    admin: bool | None = None
    add_only: bool | None = None
    """Whether it adds to the history alone, and takes nothing of it away."""
    expires_in_seconds: Annotated[int, msgspec.Meta(ge=1, le=LONGEST_S)] | None = None
    rate_limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_REQUESTS)] | None = None
    """Requests a minute."""


class KeyAnswer(msgspec.Struct, kw_only=True):
    """A key, without its secret."""

    key_id: str
    name: str
    prefix: str
    scope: str
    """`workspace`, `add-only` or `admin`."""
    namespace: str | None
    created_at: Instant
    expires_at: Instant | None
    last_used_at: Instant | None
    rate_limit: int | None
    requests: int


class NewKeyAnswer(KeyAnswer, kw_only=True):
    """A key that was just made, with its secret: this once."""

    api_key: str


class KeyList(msgspec.Struct, kw_only=True):
    """The keys of a workspace that are not revoked."""

    keys: list[KeyAnswer]


class RevokedAnswer(msgspec.Struct, kw_only=True):
    """A key that opens nothing any more."""

    key_id: str
    revoked: bool
