"""Values of erasures: what was removed for good, and what is out of reach.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

import enum
from datetime import datetime
from typing import Annotated

import msgspec

from holdfast.display import line, minute
from holdfast.ids import NamespaceId, TenantId


class Erased(enum.StrEnum):
    """What an erasure is about."""

    NAMESPACE = "namespace"
    SESSION = "session"
    USER = "user"


class ErasureRow(msgspec.Struct, frozen=True):
    """An erasure as its row says."""

    id: str
    tenant_id: TenantId
    what: Erased
    namespace_id: NamespaceId | None
    """None for a user, who may be anywhere."""
    namespace: str | None
    subject: str | None
    """The id of the session; or of the user, until nothing of theirs is left."""
    begun_at: datetime
    told: str
    """JSON: counts while it is not finished, then the certificate."""
    finished_at: datetime | None = None


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """What an erasure removed, and what it could not reach. Its own JSON is what is kept of it."""

    erasure_id: Annotated[str, msgspec.Meta(pattern=r"^era-[a-z2-7]{16}\Z")]
    tenant_id: str
    """The id of the tenant: `ws-…`."""
    what: Erased
    namespace_id: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None
    """The number that the namespace had inside the vault; no other ever has it."""
    namespace: str | None
    """What it was called; None for a user, who is erased from all namespaces."""
    namespace_created_at: datetime | None
    session_id: str | None = None
    user_id: str | None = None
    """Who it was; None in the vault's own list, which does not keep it."""
    begun_at: datetime
    finished_at: datetime
    removed: dict[str, int]
    """How much there was of each kind."""
    rewritten_snapshots: int = 0
    """Snapshots that held a part of it: they hold the rest, and have another root."""
    redacted_rows: int
    """Rows of the journal that keep their place and have lost what they said."""
    copies: list[str]
    """What was forked from it and may hold the same: that is not erased with it."""
    stays: list[str]
    """What the vault still holds of it, in words."""
    out_of_reach: list[str]
    """Where else it may be, in words."""
    number: int
    """The row of the tenant's own chain that says that it was erased."""
    hash: str
    """That row's hash, in hexadecimal: an audit of the tenant's chain goes through it."""

    def __repr__(self) -> str:
        # Without who it was: what is shown may end up in a log.
        return line("Certificate", self.erasure_id, f"of a {self.what}", minute(self.finished_at))
