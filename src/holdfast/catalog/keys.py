"""The part of a transaction that is about API keys.

A key is found by the hash of its secret alone, and whoever finds one looks at the row as it is:
nothing is remembered between two requests, so that a revoked key is refused at once everywhere.
"""

from collections.abc import Iterable
from datetime import datetime
from operator import attrgetter

from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import Row, to_tenant
from holdfast.errors import Damaged
from holdfast.ids import TenantId
from holdfast.instants import from_us, to_us
from holdfast.model import Tenant
from holdfast.model_keys import KeyInfo, KeyUse, Scope

_COLUMNS = 12


class KeyQueries:
    """Rows of API keys."""

    __slots__ = ()

    _db: Driver

    def add_key(self, key: KeyInfo, *, secret_hash: bytes) -> None:
        self._db.run(
            "add_key",
            id=key.id,
            tenant_id=key.tenant_id,
            name=key.name,
            prefix=key.prefix,
            scope=key.scope.value,
            namespace=key.namespace,
            rate_limit=key.rate_limit,
            created_at=to_us(key.created_at),
            expires_at=None if key.expires_at is None else to_us(key.expires_at),
            secret_hash=secret_hash,
        )

    def find_key(self, secret_hash: bytes) -> tuple[KeyInfo, Tenant] | None:
        """Returns the key with this secret and its tenant, revoked and expired ones too."""
        row = self._db.one("find_key", secret_hash=secret_hash)
        return None if row is None else (_to_key(row), to_tenant(row[_COLUMNS:]))

    def find_key_by_id(self, tenant_id: TenantId, key_id: str) -> KeyInfo | None:
        """Returns a key of a tenant, revoked and expired ones too."""
        row = self._db.one("find_key_by_id", tenant_id=tenant_id, id=key_id)
        return None if row is None else _to_key(row)

    def list_keys(self, tenant_id: TenantId) -> list[KeyInfo]:
        """Returns the keys that are not revoked, oldest first."""
        return [_to_key(row) for row in self._db.all("list_keys", tenant_id=tenant_id)]

    def revoke_key(self, tenant_id: TenantId, key_id: str, *, now: datetime) -> KeyInfo | None:
        """Revokes a key and returns it; None if there is none, or it was revoked before."""
        row = self._db.one("revoke_key", tenant_id=tenant_id, id=key_id, now=to_us(now))
        return None if row is None else _to_key(row)

    def touch_keys(self, uses: Iterable[KeyUse]) -> None:
        """Adds requests, and remembers the latest of all uses, in whatever order they come."""
        # In one order everywhere: two workers that wait for each other's rows would wait for ever.
        rows = [
            {"id": use.key_id, "last_used_at": to_us(use.last_used_at), "requests": use.requests}
            for use in sorted(uses, key=attrgetter("key_id"))
        ]
        if rows:
            self._db.run_many("touch_key", rows)


def _to_key(row: Row) -> KeyInfo:
    try:
        return KeyInfo(
            id=row[0],
            tenant_id=TenantId(row[1]),
            name=row[2],
            prefix=row[3],
            scope=Scope(row[4]),
            namespace=row[5],
            rate_limit=row[6],
            created_at=from_us(row[7]),
            expires_at=None if row[8] is None else from_us(row[8]),
            revoked_at=None if row[9] is None else from_us(row[9]),
            last_used_at=None if row[10] is None else from_us(row[10]),
            requests=row[11],
        )
    except (ValueError, OverflowError) as exc:
        message = f"the row of key {row[0]} cannot be read: {exc}"
        raise Damaged(message) from exc
