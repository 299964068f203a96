"""Values of replies: answers that a repeated request gets again."""

from datetime import datetime

import msgspec


class ReplyPlace(msgspec.Struct, frozen=True):
    """What a request is recognised by when it comes again."""

    key_id: str
    """The API key that it came with."""
    method: str
    path: str
    name: str
    """What the client calls it: its Idempotency-Key."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was seen, and its answer once there is one."""

    fingerprint: bytes
    """The hash of what was asked for."""
    created_at: datetime
    leased_until: datetime
    """Until then somebody may still be working on it."""
    status: int | None = None
    media_type: str = ""
    body: bytes = b""


class Asked(msgspec.Struct, frozen=True):
    """A request under a name, and what was known of it when it came."""

    place: ReplyPlace
    mine: Reply
    """What it will be known by, if it is ours to answer."""
    old: Reply | None = None
    """What was there under its name."""
    answer: Reply | None = None
    is_claimed: bool = False
    """Whether others wait for us to answer it."""
