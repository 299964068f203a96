"""The part of a transaction that is about packs whose rows are gone and whose bytes are not.

A pack's row goes in the transaction that retires it. Its bytes stay for a while: a catalog that
was set back, by a backup or a failover, still names it, and works at once.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from holdfast.catalog.driver import Driver
from holdfast.ids import PackName, TenantId
from holdfast.instants import from_us, to_us


class RetiredPack(msgspec.Struct, frozen=True):
    """A pack in the blob store that nothing here needs any more."""

    name: PackName
    tenant_id: TenantId | None
    """Whose it was; None where it was found under no name, and nobody can say."""
    size_bytes: int
    retired_at: datetime


class RetiredQueries:
    """Rows of packs that are retired, of all tenants."""

    __slots__ = ()

    _db: Driver

    def retire(self, packs: Iterable[RetiredPack]) -> None:
        """Says that these are retired; one that was before, is so anew."""
        given = (
            {
                "name": pack.name,
                "tenant_id": pack.tenant_id,
                "size_bytes": pack.size_bytes,
                "retired_at": to_us(pack.retired_at),
            }
            # In order: two that retire the same wait for each other, and never in a ring.
            for pack in sorted(packs, key=lambda pack: pack.name)
        )
        self._db.run_many("retire_pack", given)

    def iter_retired(self) -> list[RetiredPack]:
        """Returns all of them, the oldest first."""
        return [
            RetiredPack(
                PackName(name), None if tenant is None else TenantId(tenant), size, from_us(at)
            )
            for name, tenant, size, at in self._db.all("iter_retired")
        ]

    def forget_retired(self, names: Iterable[str]) -> None:
        """Removes their rows: their bytes are gone, or a row of a pack names them again."""
        self._db.run_many("forget_retired", ({"name": name} for name in sorted(names)))
