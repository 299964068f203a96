"""The part of a transaction that is about packs, and about where each object is.

A pack's row goes in the transaction that retires it. Its bytes stay for a while: a catalog that
was set back, by a backup or a failover, still names it, and works at once. What the rows of packs
say follows from the packs: those that say something else are mended.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from holdfast.catalog import rows
from holdfast.catalog.driver import Driver
from holdfast.errors import Damaged
from holdfast.ids import ObjectId, PackId, PackName, TenantId
from holdfast.instants import to_us
from holdfast.model.basics import Placement


class Located(msgspec.Struct, frozen=True):
    """An object's placement with its pack, and the block itself where the pack is inline."""

    placement: Placement
    pack_id: PackId
    pack: PackName
    block: bytes | None


class PackRow(msgspec.Struct, frozen=True):
    """A pack as the catalog knows it. While it is being written, `writer` says by whom."""

    id: PackId
    name: PackName
    is_stored: bool
    is_inline: bool
    writer: str | None
    size_bytes: int
    plain_bytes: int | None = None
    """What its objects take before they are compressed; None if nobody has counted."""


class ObjectRow(msgspec.Struct, frozen=True):
    """An object as the collector sees it."""

    id: ObjectId
    pack_id: PackId
    size: int
    touched: int


class PackQueries:
    """Rows of packs and of objects."""

    __slots__ = ()

    _db: Driver

    def begin_pack(
        self,
        tenant_id: TenantId,
        name: PackName,
        *,
        writer: str,
        size_bytes: int,
        plain_bytes: int | None = None,
        now: datetime,
    ) -> PackId:
        self._count_pack(tenant_id, size_bytes)
        row = self._db.one(
            "begin_pack",
            tenant_id=tenant_id,
            name=name,
            writer=writer,
            size_bytes=size_bytes,
            plain_bytes=plain_bytes,
            now=to_us(now),
        )
        return PackId(rows.get_row(row, "pack")[0])

    def finish_pack(self, pack_id: PackId) -> bool:
        """Names a pack's bytes as complete; False if the announcement was withdrawn."""
        return self._db.run("finish_pack", pack_id=pack_id) == 1

    def withdraw_pack(self, pack_id: PackId) -> bool:
        """Forgets an announced pack; False if it is complete, or not there."""
        row = self._db.one("withdraw_pack", pack_id=pack_id)
        if row is None:
            return False
        tenant_id, size_bytes = row
        self._count_pack(tenant_id, -size_bytes)
        return True

    def add_inline_pack(
        self,
        tenant_id: TenantId,
        name: PackName,
        data: bytes,
        *,
        plain_bytes: int | None = None,
        now: datetime,
    ) -> None:
        """Adds a pack that lies inside the catalog; which id it gets nobody has to wait for."""
        self._db.say(
            "add_inline_pack",
            tenant_id=tenant_id,
            name=name,
            size_bytes=len(data),
            plain_bytes=plain_bytes,
            now=to_us(now),
        )
        self._db.say("add_pack_data", name=name, data=data)
        self._count_pack(tenant_id, len(data), inline=1)

    def _count_pack(self, tenant_id: TenantId, size_bytes: int, *, inline: int = 0) -> None:
        """Counts a pack that is added or withdrawn, and whether it lies inside the catalog."""
        self._db.say(
            "count_pack",
            tenant_id=tenant_id,
            bytes=size_bytes,
            inline_packs=inline,
            inline_bytes=inline * size_bytes,
        )

    def get_pack_id(self, name: PackName) -> PackId:
        return PackId(rows.get_row(self._db.one("get_pack_id", name=name), "pack")[0])

    def get_pack_data(self, pack_id: PackId) -> bytes | None:
        row = self._db.one("get_pack_data", pack_id=pack_id)
        return None if row is None else row[0]

    def delete_pack(self, pack_id: PackId) -> None:
        """Removes a pack's row, and its bytes if they lie inside; others are to be retired."""
        self._db.say("count_pack_out", pack_id=pack_id)
        self._db.say("delete_pack_data", pack_id=pack_id)
        self._db.say("delete_pack", pack_id=pack_id)

    def iter_packs(self, tenant_id: TenantId) -> list[PackRow]:
        return [_to_pack(row) for row in self._db.all("iter_packs", tenant_id=tenant_id)]

    def unfinished_packs(self, tenant_id: TenantId) -> list[PackRow]:
        """Returns the packs that were announced, and are not complete."""
        return [_to_pack(row) for row in self._db.all("unfinished_packs", tenant_id=tenant_id)]

    def small_packs(self, tenant_id: TenantId, *, below: int, most: int) -> list[PackRow]:
        """Returns complete packs with fewer bytes than that, the smallest first."""
        found = self._db.all("small_packs", tenant_id=tenant_id, below=below, most=most)
        return [_to_pack(row) for row in found]

    def outside_packs(self, tenant_id: TenantId) -> dict[str, int]:
        """Returns the packs that have to be in the blob store, with how long they are."""
        found = self._db.all("outside_packs", tenant_id=tenant_id)
        return {name: size_bytes for name, size_bytes in found}  # noqa: C416 - rows are untyped

    def set_plain_bytes(self, pack_id: PackId, plain_bytes: int) -> None:
        """Notes what the objects of a pack take before they are compressed."""
        self._db.run("set_plain_bytes", pack_id=pack_id, plain_bytes=plain_bytes)

    def pack_names(self) -> set[str]:
        """Returns what may be in the blob store: all packs of all tenants, announced ones too."""
        return {row[0] for row in self._db.all_as_stored("pack_names")}

    def named_packs(self, names: Iterable[str]) -> set[str]:
        """Returns those of some names that may be in the blob store, as rows say."""
        return {row[0] for row in self._db.all("named_packs", names=json.dumps([*names]))}

    def has_lost_packs(self) -> bool:
        """Says whether objects, of whomever, are looked for in packs that no row tells of."""
        return bool(rows.get_row(self._db.one("has_lost_packs"), "answer")[0])

    def pending_bytes(self, tenant_id: TenantId) -> int:
        row = self._db.one("pending_bytes", tenant_id=tenant_id)
        return int(rows.get_row(row, "sum")[0])

    def stored_bytes(self, tenant_id: TenantId) -> int:
        """Returns the size of a tenant's packs, announced ones too, however many there are."""
        row = self._db.one("stored_bytes", tenant_id=tenant_id)
        return int(rows.get_row(row, "sum")[0])

    def has_wrong_pack_sums(self, tenant_id: TenantId) -> bool:
        """Says whether the sum of a tenant's packs is another than what they add up to."""
        row = self._db.one("has_wrong_pack_sums", tenant_id=tenant_id)
        return bool(rows.get_row(row, "answer")[0])

    def mend_pack_sums(self, tenant_id: TenantId) -> None:
        """Adds the sizes of a tenant's packs up anew, beside whoever writes.

        Not in two transactions at once: both would put the same right.
        """
        self._db.run("mend_pack_sums", tenant_id=tenant_id)

    def locate(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId]
    ) -> dict[ObjectId, Located]:
        query = "locate_object" if len(object_ids) == 1 else "locate_objects"
        found = self._db.by_keys(query, object_ids, tenant_id=tenant_id)
        # Objects of one block come with it once: they have it in common here, too.
        blocks = {row[1:5]: row[-1] for row in found if row[-1] is not None}
        places = [_to_located(row, blocks.get(row[1:5])) for row in found]
        return {located.placement.object_id: located for located in places}

    def existing(self, tenant_id: TenantId, object_ids: Sequence[ObjectId]) -> set[ObjectId]:
        return {*self.stamps_of(tenant_id, object_ids)}

    def stamps_of(self, tenant_id: TenantId, object_ids: Sequence[ObjectId]) -> dict[ObjectId, int]:
        """Returns of the objects that are there the epochs that they are stamped with."""
        found = self._db.by_keys("find_object", object_ids, tenant_id=tenant_id)
        return {ObjectId(row[0]): row[1] for row in found}

    def add_objects(
        self,
        tenant_id: TenantId,
        pack: PackId | PackName,
        placements: Iterable[Placement],
        *,
        epoch: int,
    ) -> None:
        """Names objects in a pack. One that has a name already keeps it, and is stamped."""
        where = _from_placements(placements, tenant_id=tenant_id, pack=pack, touched=epoch)
        self._db.say_many("add_object" if isinstance(pack, int) else "add_inline_object", where)

    def relocate_objects(
        self,
        tenant_id: TenantId,
        pack_id: PackId,
        placements: Iterable[Placement],
        *,
        epoch: int,
    ) -> None:
        """Names objects in a pack, wherever they were before, and stamps them."""
        where = _from_placements(placements, tenant_id=tenant_id, pack_id=pack_id, touched=epoch)
        self._db.run_many("relocate_object", where)

    def move_objects(
        self,
        tenant_id: TenantId,
        placements: Iterable[Placement],
        *,
        source: PackId,
        target: PackId,
    ) -> None:
        """Gives objects their place in another pack, if they are still in the first."""
        where = _from_placements(
            placements, tenant_id=tenant_id, pack_id=target, from_pack_id=source
        )
        self._db.run_many("move_object", where)

    def touch_objects(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId], *, epoch: int
    ) -> int:
        """Stamps objects with the epoch; returns how many are still there."""
        # What already has the stamp is safe without being written again: most of what is used
        # again and again is stamped once per epoch.
        stamps = self.stamps_of(tenant_id, object_ids)
        stale = sorted(key for key, touched in stamps.items() if touched < epoch)
        stamp = ({"tenant_id": tenant_id, "id": key, "epoch": epoch} for key in stale)
        return len(stamps) - len(stale) + self._db.run_many("touch_object", stamp)

    def delete_objects(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId], *, before: int
    ) -> int:
        """Deletes those whose stamp is older than the epoch `before`; returns how many."""
        keys = sorted(object_ids)
        return self._db.run_many(
            "delete_object", ({"tenant_id": tenant_id, "id": key, "epoch": before} for key in keys)
        )

    def find_sweep(self, tenant_id: TenantId) -> bytes | None:
        """Returns what stands for all that a tenant needed and had when it was last collected."""
        row = self._db.one("find_sweep", tenant_id=tenant_id)
        return None if row is None else row[0]

    def set_sweep(self, tenant_id: TenantId, digest: bytes) -> None:
        self._db.run("set_sweep", tenant_id=tenant_id, digest=digest)

    def page_objects(self, tenant_id: TenantId, *, after: bytes, most: int) -> list[ObjectRow]:
        found = self._db.all("page_objects", tenant_id=tenant_id, after=after, most=most)
        return [ObjectRow(*row) for row in found]


def pages(transaction: PackQueries, tenant_id: TenantId) -> Iterator[list[ObjectRow]]:
    """Yields a tenant's object rows a page at a time."""
    after = b""
    while page := transaction.page_objects(tenant_id, after=after, most=10_000):
        if page[-1].id <= after:
            # A damaged table: it would be paged through for ever.
            raise Damaged("the catalog's index of objects is out of order")
        yield page
        after = page[-1].id


def _to_pack(row: rows.Row) -> PackRow:
    pack_id, name, state, is_inline, writer, size_bytes, plain_bytes = row
    return PackRow(
        pack_id, name, state == "stored", bool(is_inline), writer, size_bytes, plain_bytes
    )


def _to_located(row: rows.Row, block: bytes | None) -> Located:
    object_id, pack_id, name, block_offset, block_size, place, size, _ = row
    if not (type(block_offset) is type(block_size) is type(place) is type(size) is int):
        message = f"the row of object {object_id.hex()[:16]} does not say where it is"
        raise Damaged(message)
    return Located(
        Placement(object_id, block_offset, block_size, place, size), pack_id, name, block
    )


def _from_placements(
    placements: Iterable[Placement], **more: object
) -> Iterator[Mapping[str, object]]:
    """Yields the parameters that store placements, in the order of their objects.

    Two transactions that store the same objects in one order wait for each other; in two
    orders they could wait for each other for ever.
    """
    for placement in sorted(placements, key=lambda placement: placement.object_id):
        yield {
            "id": placement.object_id,
            "block_offset": placement.block_offset,
            "block_size": placement.block_size,
            "place": placement.offset,
            "size": placement.size,
            **more,
        }


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
        where = {"tenant_id": tenant_id, "name": name, "plain_bytes": None}
        self._db.run("add_inline_pack", **where, size_bytes=stray.size_bytes, now=to_us(now))
        return PackId(rows.get_row(self._db.one("get_pack_id", name=name), "pack")[0])

    def join_bytes(self, stray: StrayBytes, pack_id: PackId) -> None:
        """Gives bytes that no row names to a pack that has none."""
        self._db.run("join_bytes", source=stray.pack_id, target=pack_id)
