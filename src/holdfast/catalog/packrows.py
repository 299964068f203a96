"""The part of a transaction that mends the rows of packs: what they say follows from the packs."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import get_row
from holdfast.ids import PackId, PackName, TenantId
from holdfast.instants import to_us


class PackFacts(msgspec.Struct, frozen=True):
    """What the row of a pack says, as it is stored: text that is none has surrogates."""

    id: PackId
    name: str
    state: str
    is_inline: int
    writer: str | None
    size_bytes: int
    inside_bytes: int | None
    """How many bytes the catalog itself has for it; None if it has none."""


class StrayBytes(msgspec.Struct, frozen=True):
    """Bytes of a pack inside the catalog that no row names."""

    pack_id: PackId
    size_bytes: int
    is_wanted: bool
    """Whether objects of the tenant, and of nobody else, are looked for in them."""


class PackRowQueries:
    """Rows of packs, and the bytes that belong to them."""

    __slots__ = ()

    _db: Driver

    def own_packs(self, tenant_id: TenantId) -> int:
        """Has packs that hold a tenant's objects alone say that they are the tenant's.

        Returns of how many that was not so.
        """
        return self._db.run("own_packs", tenant_id=tenant_id)

    def iter_pack_facts(self, tenant_id: TenantId) -> Iterator[PackFacts]:
        """Yields what the rows of a tenant's packs say."""
        for row in self._db.all_as_stored("iter_pack_facts", tenant_id=tenant_id):
            yield PackFacts(*row)

    def set_pack_facts(self, facts: PackFacts) -> None:
        """Has the row of a pack say something else."""
        values = msgspec.structs.asdict(facts)
        del values["inside_bytes"]
        self._db.run("set_pack_facts", **values)

    def iter_stray_bytes(self, tenant_id: TenantId) -> Iterator[StrayBytes]:
        """Yields the bytes of packs that no row names, whoever's they are."""
        for pack_id, size, is_wanted in self._db.all("iter_stray_bytes", tenant_id=tenant_id):
            yield StrayBytes(pack_id, size, bool(is_wanted))

    def add_row_for(
        self, stray: StrayBytes, tenant_id: TenantId, name: PackName, *, now: datetime
    ) -> PackId:
        """Adds a row for bytes that no row names; they have yet to be given to it."""
        where = {"tenant_id": tenant_id, "name": name}
        self._db.run("add_inline_pack", **where, size_bytes=stray.size_bytes, now=to_us(now))
        return PackId(get_row(self._db.one("get_pack_id", name=name), "pack")[0])

    def join_bytes(self, stray: StrayBytes, pack_id: PackId) -> None:
        """Gives bytes that no row names to a pack that has none."""
        self._db.run("join_bytes", source=stray.pack_id, target=pack_id)
