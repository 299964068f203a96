"""The queries about packs that are retired, once for both databases."""

from collections.abc import Iterable

from holdfast.catalog.driver import Driver
from holdfast.catalog.port_retired import RetiredPack
from holdfast.catalog.rows import from_us, to_us
from holdfast.ids import PackName, TenantId


class RetiredQueries:
    """Rows of packs whose bytes outlive their rows."""

    __slots__ = ()

    _db: Driver

    def retire(self, packs: Iterable[RetiredPack]) -> None:
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
        return [
            RetiredPack(
                PackName(name), None if tenant is None else TenantId(tenant), size, from_us(at)
            )
            for name, tenant, size, at in self._db.all("iter_retired")
        ]

    def forget_retired(self, names: Iterable[str]) -> None:
        self._db.run_many("forget_retired", ({"name": name} for name in sorted(names)))
