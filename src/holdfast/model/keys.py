"""Values of API keys: who may speak for a tenant, and how far that goes.

As in `model`: frozen, without behaviour beyond what follows from their fields. The secret itself
is nowhere among them: it is shown once, when a key is made, and only its hash is kept.
"""

import enum
from datetime import datetime

import msgspec

from holdfast.ids import TenantId


class Scope(enum.StrEnum):
    """What a key may do."""

    ADMIN = "admin"
    """Keys, webhooks, retention, recovery and purging; no agent's data."""
    RUNTIME = "runtime"
    """An agent's data: files, store, sessions, snapshots. Never purging."""
    ADD_ONLY = "add-only"
    """The same, but for whatever takes away for good: the history only grows."""


class KeyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An API key, without its secret."""

    id: str
    tenant_id: TenantId
    name: str
    prefix: str
    """How the secret begins: enough to recognise it, and not to guess it."""
    scope: Scope
    namespace: str | None = None
    """The only namespace that it reaches; None for all of the tenant's."""
    rate_limit: int | None = None
    """Requests a minute; None for as many as come."""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    requests: int = 0

    def is_valid(self, now: datetime) -> bool:
        """Says whether it opens anything: it is neither revoked nor past its time."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


class KeyUse(msgspec.Struct, frozen=True):
    """How often a key was used lately, and when last."""

    key_id: str
    last_used_at: datetime
    requests: int
