"""Values of API keys: who may speak for a tenant, and how far that goes.

As in `model`: frozen, without behaviour beyond what follows from their fields. The secret itself
is shown once, when a key is made, and only its hash is kept.
"""

import enum
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

import msgspec

from holdfast.display import line, quoted
from holdfast.ids import TenantId
from holdfast.model.marks import Inside, Named, Shape


class Scope(enum.StrEnum):
    """What a key may do."""

    ADMIN = "admin"
    """Keys, webhooks, retention, recovery and purging; no agent's data."""
    RUNTIME = "runtime"
    """An agent's data: files, store, sessions, snapshots. Never purging."""
    ADD_ONLY = "add-only"
    """The same, but for whatever takes away for good: the history only grows."""


SCOPES: Final = {Scope.ADMIN: "admin", Scope.RUNTIME: "workspace", Scope.ADD_ONLY: "add-only"}
"""What scopes are called on the wire."""

_READ: Final = {said: scope for scope, said in SCOPES.items()}

_Said = Literal["admin", "workspace", "add-only"]

SaidScope = Annotated[Scope, Shape(_Said, SCOPES.__getitem__, _READ.__getitem__)]
"""A scope that is called `workspace` on the wire, where it is an agent's."""


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """An API key, without its secret."""

    id: Annotated[str, Named("key_id")]
    tenant_id: Annotated[TenantId, Inside(0)]
    name: str
    prefix: str
    """How the secret begins: enough to recognise it, and not to guess it."""
    scope: SaidScope
    namespace: str | None = None
    """The only namespace that it reaches; None for all of the tenant's."""
    rate_limit: int | None = None
    """Requests a minute; None for as many as come."""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: Annotated[datetime | None, Inside()] = None
    last_used_at: datetime | None = None
    requests: int = 0

    def __repr__(self) -> str:
        return line(
            type(self).__name__,
            self.id,
            quoted(self.name),
            self.scope.value,
            None if self.namespace is None else f"for {quoted(self.namespace)}",
            "revoked" if self.revoked_at is not None else None,
        )

    @property
    def key_id(self) -> str:
        """Its id once more, by the name that it has on the wire."""
        return self.id

    def is_valid(self, now: datetime) -> bool:
        """Says whether it opens anything: it is neither revoked nor past its time."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


class NewKey(Key, frozen=True, kw_only=True):
    """A key that was just made, with its secret: this once."""

    api_key: str

    def __repr__(self) -> str:
        # Without the secret: what is printed ends up in logs.
        return f"NewKey({self.id!r}, name={self.name!r}, prefix={self.prefix!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("id", self.id), ("name", self.name), ("prefix", self.prefix)]


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Whose key it is that a request came with."""

    workspace_id: str
    key_id: str
    key_name: str
    scope: SaidScope
    namespace: str | None
    capabilities: list[str]


IDLE: Final = timedelta(hours=12)
LONGEST: Final = timedelta(days=7)
LINK: Final = timedelta(minutes=10)
"""How long a sign-in to the console lasts that nobody uses, and at the most; and a link to one."""


class SignIn(msgspec.Struct, frozen=True, kw_only=True):
    """Keys that somebody came to the console with, and is known by a token for; or a link."""

    token_hash: bytes
    tenant_id: TenantId
    is_link: bool
    """Whether it is there to be exchanged for a sign-in, once."""
    runtime_key: str | None
    admin_key: str | None
    """The ids of an agent's key and of an operator's: one of them, or both."""
    created_at: datetime
    seen_at: datetime

    @property
    def ends_at(self) -> datetime:
        """When it is over, unless it is used again before."""
        if self.is_link:
            return self.created_at + LINK
        return min(self.created_at + LONGEST, self.seen_at + IDLE)


WAITS: Final = timedelta(minutes=10)
"""How long a program waits for a person to sign it in."""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """A program that waits for a person to sign it in, and what was decided."""

    device_hash: bytes
    user_hash: bytes
    """Of what the program asks by, and of what the person types."""
    client: str
    address: str
    created_at: datetime
    tenant_id: TenantId | None = None
    decided_by: str | None = None
    """The id of the operator's key that decided; None while nobody has."""
    is_denied: bool = False
    name: str | None = None
    scope: Scope | None = None
    namespace: str | None = None
    expires_in: int | None = None
    """The key that is made when the program asks again: for how many seconds."""

    @property
    def ends_at(self) -> datetime:
        """When it is over, decided or not."""
        return self.created_at + WAITS


class WaitingLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A program that waits for a person to sign it in, as that person sees it."""

    user_code: str
    """What it shows: whoever started it sees the same."""
    client: str
    """What it says that it is."""
    address: str
    """Where it asks from."""
    started_at: datetime
    expires_at: datetime


class KeyUse(msgspec.Struct, frozen=True):
    """How often a key was used lately, and when last."""

    key_id: str
    last_used_at: datetime
    requests: int
