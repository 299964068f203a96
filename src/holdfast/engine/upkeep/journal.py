"""Puts flipped bits of the journal back: each row has a hash, which the next one repeats.

Rows of one chain are looked at in their order, with what the one before and the one after it say.
A row that no single bit explains stays as it is, and is named by whoever verifies.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from holdfast.catalog.hashing import hash_of
from holdfast.catalog.mending import unflipped
from holdfast.catalog.transaction import Transaction
from holdfast.engine.audit.chains import Stream, iter_rows, streams_in
from holdfast.engine.core.context import Context
from holdfast.engine.journal.chain import is_whole
from holdfast.engine.journal.forgetting import ACTION as FORGOTTEN
from holdfast.engine.journal.forgetting import claim_in, claim_of
from holdfast.ids import TenantId
from holdfast.model.traces import OWN, Section, TraceEnd, TraceRow

MOST_TRIED: Final = 200
"""Damaged rows for which every bit is tried: of a long one, that takes half a second."""

_HASH: Final = TraceRow.__struct_fields__.index("hash")


def mend_journal(context: Context, tenant_id: TenantId) -> int:
    """Returns in how many rows a flipped bit was put back."""
    with context.catalog.write() as transaction:
        strays = [*_mended_strays(transaction, tenant_id)]
        for found, row in strays:
            transaction.mend_trace(found, row)
        own, others = streams_in(transaction, tenant_id)
    count = len(strays)
    for stream in (own, *others):
        with context.catalog.write() as transaction:
            count += _mend_sections(transaction, tenant_id, stream.id)
            count += _mend_stream(transaction, tenant_id, stream)
    return count


def _mend_sections(transaction: Transaction, tenant_id: TenantId, stream: int) -> int:
    """Puts right what is noted of rows that were let go: the chain has a hash of it all."""
    sections = transaction.list_sections(tenant_id, stream)
    claim = transaction.find_last_done(tenant_id, stream, action=FORGOTTEN)
    if claim is None or not is_whole(claim) or claim_in(claim) == claim_of(sections):
        return 0
    wanted, width = claim_in(claim), len(Section.__struct_fields__)

    def sections_of(values: Sequence[Any]) -> list[Section]:
        return [Section(*values[at : at + width]) for at in range(0, len(values), width)]

    values = [value for section in sections for value in msgspec.structs.astuple(section)]
    found = unflipped(values, lambda tried: claim_of(sections_of(tried)) == wanted)
    pairs = zip(sections, sections_of(found or ()), strict=False)
    changed = [(old, new) for old, new in pairs if old != new]
    for old, new in changed:
        transaction.drop_section(tenant_id, stream, old)
        transaction.set_section(tenant_id, stream, new)
    return len(changed)


def _mend_stream(transaction: Transaction, tenant_id: TenantId, stream: Stream) -> int:
    """Puts right one chain, whose end is locked so that it stands still."""
    count, tried = 0, 0
    sections = transaction.list_sections(tenant_id, stream.id)
    begin = TraceEnd(sections[-1].last, sections[-1].hash) if sections else TraceEnd()
    last = begin
    is_there = stream.id == OWN or stream.end is not None
    end = transaction.lock_end(tenant_id, stream.id) if is_there else None
    rows = [*iter_rows(transaction, tenant_id, stream.id)]
    for at, found in enumerate(rows):
        follows = rows[at + 1].previous if at + 1 < len(rows) else end and end.hash
        row, whose, previous = found, (found.tenant_id, found.stream), last.hash
        if found.number <= begin.number:
            # It stayed where those beside it were let go: it is known by its own hash alone.
            follows, previous = None, found.previous
        is_sound = whose == (tenant_id, stream.id) and is_whole(found)
        if not (is_sound and found.previous == previous) and tried < MOST_TRIED:
            tried += 1
            row = _mended(found, previous=previous, written=follows) or found
        if row != found:
            transaction.mend_trace(found, row)
            count += 1
        if row.stream == stream.id and row.number > begin.number:
            last = TraceEnd(row.number, row.hash)
    if end is not None and end != last and _is_bit(end, last):
        transaction.set_end(tenant_id, stream.id, last)
        count += 1
    return count


def _mended(row: TraceRow, *, previous: bytes, written: bytes | None) -> TraceRow | None:
    """Returns what a row was before one bit of it was flipped; None if that is not known."""
    values: list[Any] = [*msgspec.structs.astuple(row)]
    wanted = {row.hash} if written is None else {row.hash, written}

    def is_it(tried: list[Any]) -> bool:
        return _hash_of(tried) in wanted

    values[1] = previous
    found = values if is_it(values) else None
    if found is None:
        values[1] = row.previous
        found = values if is_it(values) else unflipped(values, is_it)
    if found is None:
        return None
    found[_HASH] = _hash_of(found)
    return TraceRow(*found)


def _hash_of(values: list[Any]) -> bytes | None:
    try:
        return hash_of(TraceRow(*values))
    except (ValueError, TypeError, OverflowError, msgspec.MsgspecError):
        return None


def _mended_strays(
    transaction: Transaction, tenant_id: TenantId
) -> Iterator[tuple[TraceRow, TraceRow]]:
    """Yields rows that say to be of no tenant that there is, and were of this one."""
    for found in transaction.stray_traces(most=MOST_TRIED):
        row = _mended(found, previous=found.previous, written=None)
        if row is not None and row.tenant_id == tenant_id:
            yield found, row


def _is_bit(one: TraceEnd, other: TraceEnd) -> bool:
    """Says whether two ends of a chain differ by one bit."""
    hashes = int.from_bytes(one.hash) ^ int.from_bytes(other.hash)
    return (one.number ^ other.number).bit_count() + hashes.bit_count() == 1
