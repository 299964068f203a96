"""Notes of damage that is known to stay: what `repair` could not put right, and has named.

A note is a trace in the tenant's own chain. It names nothing but hashes, of what `verify` says of
each fault: so nothing that was erased lives on in it, and a row that is changed once more is no
longer the one that was noted. What is noted is still told by whoever looks, as known damage; a
backup carries it instead of being refused for ever.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from blake3 import blake3

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.journal.chain import append, details_of, is_whole
from holdfast.errors import Damaged
from holdfast.ids import TenantId
from holdfast.model.traces import Trace, TraceFilter, TraceKind, TraceRow
from holdfast.model.upkeep import AuditProblem, Fault

NOTED: Final = "tenant.damage_noted"
MOST: Final = 1000
"""Faults that one note has, and notes that are read."""

JOURNAL: Final = "journal of "
"""What the name of a fault begins with, if it is one of a chain of traces."""

_KEY_BYTES: Final = 16


def key_of(fault: Fault) -> str:
    """Returns what stands for a fault in a note."""
    # Not where it was met: that is another snapshot, once one is forgotten.
    said = f"{fault.what}\0{fault.reason}\0{(fault.object_id or b'').hex()}"
    return blake3(said.encode("utf-8", "surrogateescape")).hexdigest(_KEY_BYTES)


def fault_of(problem: AuditProblem) -> Fault:
    """Returns what `verify` says of a place where a chain is not as it was written."""
    where = "the tenant" if problem.namespace is None else problem.namespace
    hashes = f" (it hashes to {problem.hash_now})" if problem.hash_now else ""
    return Fault(f"{JOURNAL}{where}", f"trace {problem.number}: {problem.reason}{hashes}")


def keys_in(row: TraceRow) -> Sequence[str]:
    """Returns what a row of the tenant's own chain notes, if it is a note that is whole."""
    if row.action != NOTED or row.kind != TraceKind.DONE.value or not is_whole(row):
        return []
    return details_of(row).get("faults", [])


def marked(transaction: Transaction, tenant_id: TenantId, faults: Iterable[Fault]) -> list[Fault]:
    """Returns faults with what is known of each."""
    faults = [*faults]
    if not faults:
        return faults
    try:
        found = transaction.list_traces(tenant_id, TraceFilter(action=NOTED), most=MOST)
        keys = {key for row in found for key in keys_in(row)}
    except Damaged:
        return faults  # Nobody can say: then it is new.
    return [msgspec.structs.replace(each, is_noted=key_of(each) in keys) for each in faults]


def note(
    transaction: Transaction, context: Context, tenant_id: TenantId, faults: Sequence[Fault]
) -> None:
    """Notes what stays damaged, for as long as it is as it is now."""
    keys = sorted({key_of(each) for each in faults if not each.is_noted})
    for at in range(0, len(keys), MOST):
        details = {"faults": keys[at : at + MOST]}
        trace = Trace(action=NOTED, resource_type="tenant", details=details)
        append(transaction, context, tenant_id, trace)
