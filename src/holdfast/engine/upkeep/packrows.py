"""Puts right what rows of the catalog say of packs: all of it follows from the packs themselves.

Whose a pack is, the objects say that are looked for in it. Bytes inside the catalog that no row
names go to the row that lacks them, or get one anew. Then each row says where its bytes are, under
which name, and how many there are; but how many only where the pack is whole: else it is the row
that tells that some are missing.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from holdfast.blobs.port import is_blob_name
from holdfast.catalog.packs import PackFacts, StrayBytes
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.objects.retired import NEAR_BITS, is_nearly
from holdfast.errors import Damaged, VaultTooNew
from holdfast.ids import PackId, PackName, TenantId
from holdfast.packs import check_pack

_STORED: Final = "stored"
_WRITING: Final = "writing"


def mend_packs(context: Context, tenant_id: TenantId) -> int:
    """Puts the rows of a tenant's packs right; returns of how many something was not so."""
    blobs = dict(context.blobs.iter_names())
    with context.catalog.write() as transaction:
        count = transaction.own_packs(tenant_id)
        count += _join(transaction, context, tenant_id, blobs)
        named = transaction.pack_names()
        free = {name: size for name, size in blobs.items() if name not in named}
        finding = _Finding(context, transaction, blobs, free)
        for facts in [*transaction.iter_pack_facts(tenant_id)]:
            found = finding.facts_of(facts)
            if found != facts:
                transaction.set_pack_facts(found)
                count += 1
        transaction.mend_pack_sums(tenant_id)
    return count


def _join(
    transaction: Transaction, context: Context, tenant_id: TenantId, blobs: Mapping[str, int]
) -> int:
    """Gives bytes that no row names to the rows that lack theirs; returns how many packs it is."""
    strays = [*transaction.iter_stray_bytes(tenant_id)]
    bare = [
        facts
        for facts in (transaction.iter_pack_facts(tenant_id) if strays else ())
        if facts.inside_bytes is None and facts.name not in blobs and facts.state != _WRITING
    ]
    count = 0
    for stray in strays:
        lacking = min(_that_lack(bare, stray), default=None)
        if lacking is not None:
            pack_id = PackId(lacking[1])
            bare = [facts for facts in bare if facts.id != pack_id]
        elif stray.is_wanted:
            name, now = context.new_pack_name(), context.clock()
            pack_id = transaction.add_row_for(stray, tenant_id, name, now=now)
        else:
            continue
        transaction.join_bytes(stray, pack_id)
        count += 1
    return count


def _that_lack(bare: Iterable[PackFacts], stray: StrayBytes) -> Iterator[tuple[int, int]]:
    """Yields the packs whose bytes these may be: how many bits of the id differ, and the id."""
    for facts in bare:
        bits = (facts.id ^ stray.pack_id).bit_count()
        if facts.size_bytes == stray.size_bytes and (stray.is_wanted or bits <= NEAR_BITS):
            yield bits, facts.id


class _Finding:
    """Finds out what the row of a pack has to say."""

    def __init__(
        self,
        context: Context,
        transaction: Transaction,
        blobs: Mapping[str, int],
        free: Mapping[str, int],
    ) -> None:
        self._context, self._transaction = context, transaction
        self._blobs, self._free = blobs, free

    def facts_of(self, facts: PackFacts) -> PackFacts:
        """Returns what a row has to say, as far as that can be told."""
        if facts.state == _WRITING:
            return facts  # Its bytes may be there or not.
        if facts.state != _STORED and facts.writer is not None:
            return replace(facts, state=_WRITING)
        facts = replace(facts, state=_STORED, writer=None)
        if facts.inside_bytes is not None:
            name = facts.name if is_blob_name(facts.name) else self._context.new_pack_name()
            return self._sized(replace(facts, name=name, is_inline=1), facts.inside_bytes)
        name = facts.name if facts.name in self._blobs else self._near(facts.name)
        if name is None:
            return facts
        return self._sized(replace(facts, name=name, is_inline=0), self._blobs[name])

    def _near(self, name: str) -> str | None:
        """Returns the blob whose name is nearly this one, and is nobody else's."""
        return next((each for each in self._free if is_nearly(name, each)), None)

    def _sized(self, facts: PackFacts, size: int) -> PackFacts:
        if facts.size_bytes == size:
            return facts
        try:
            data = self._bytes_of(facts)
            is_whole = data is not None and not check_pack(data, pack=facts.name)
        except (Damaged, VaultTooNew):
            is_whole = False
        return replace(facts, size_bytes=size) if is_whole else facts

    def _bytes_of(self, facts: PackFacts) -> bytes | None:
        if facts.is_inline:
            return self._transaction.get_pack_data(facts.id)
        return self._context.blobs.get(PackName(facts.name))
