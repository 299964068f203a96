"""The part of a transaction that is about packs whose rows are gone, and whose bytes are not.

Nobody reads all of them but who checks a vault: of one busy tenant there may be ten thousands, and
a collection of every other asks what is due.
"""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from holdfast.catalog import rows
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
        """Returns all of them, the oldest first: of all tenants, so for who checks a vault."""
        return [*map(_to_retired, self._db.all("iter_retired"))]

    def due_retired(self, *, now: datetime, keep: timedelta, most: int) -> list[RetiredPack]:
        """Returns those that are retired for so long, of all tenants, the oldest first."""
        # No instant is before 0, and a period may be longer than any.
        before = max(0, to_us(now) - keep // timedelta(microseconds=1))
        return [*map(_to_retired, self._db.all("due_retired", before=before, most=most))]

    def retired_after(self, now: datetime) -> list[RetiredPack]:
        """Returns those that were retired by a clock that was ahead."""
        return [*map(_to_retired, self._db.all("retired_after", now=to_us(now)))]

    def own_retired(self, tenant_id: TenantId) -> list[RetiredPack]:
        """Returns a tenant's, and nobody's where there is no other tenant."""
        return [*map(_to_retired, self._db.all("own_retired", tenant_id=tenant_id))]

    def retired_bytes(self, tenant_id: TenantId) -> int:
        """Returns how many bytes these have."""
        return int(rows.get_row(self._db.one("retired_bytes", tenant_id=tenant_id), "sum")[0])

    def retired_packs(self, names: Iterable[str]) -> set[str]:
        """Returns those of some names that are retired."""
        return {row[0] for row in self._db.all("retired_packs", names=json.dumps([*names]))}

    def forget_retired(self, names: Iterable[str]) -> None:
        """Removes their rows: their bytes are gone, or a row of a pack names them again."""
        self._db.run_many("forget_retired", ({"name": name} for name in sorted(names)))


def _to_retired(row: rows.Row) -> RetiredPack:
    name, tenant, size, at = row
    whose = None if tenant is None else TenantId(tenant)
    return RetiredPack(PackName(name), whose, size, from_us(at))
