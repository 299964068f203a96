"""The part of a transaction that is about API keys.

A key is found by the hash of its secret alone, and whoever finds one looks at the row as it is:
nothing is remembered between two requests, so that a revoked key is refused at once everywhere.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from holdfast.ids import TenantId
from holdfast.model import Tenant
from holdfast.model_keys import KeyInfo, KeyUse


class KeyRows(Protocol):
    """Rows of API keys."""

    def add_key(self, key: KeyInfo, *, secret_hash: bytes) -> None: ...
    def find_key(self, secret_hash: bytes) -> tuple[KeyInfo, Tenant] | None:
        """Returns the key with this secret and its tenant, revoked and expired ones too."""
        ...

    def find_key_by_id(self, tenant_id: TenantId, key_id: str) -> KeyInfo | None:
        """Returns a key of a tenant, revoked and expired ones too."""
        ...

    def list_keys(self, tenant_id: TenantId) -> list[KeyInfo]:
        """Returns the keys that are not revoked, oldest first."""
        ...

    def revoke_key(self, tenant_id: TenantId, key_id: str, *, now: datetime) -> KeyInfo | None:
        """Revokes a key and returns it; None if there is none, or it was revoked before."""
        ...

    def touch_keys(self, uses: Iterable[KeyUse]) -> None:
        """Adds requests, and remembers the latest of all uses, in whatever order they come."""
        ...
