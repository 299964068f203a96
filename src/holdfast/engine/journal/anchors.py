"""Anchors: rows in a tenant's own chain that say where those of its namespaces ended.

Writers of two namespaces do not wait for each other, so nothing in their chains says which of two
rows came first. An anchor does: what it names was there before whatever follows on it, and what
it does not name came later. And since the tenant's chain goes through it, nobody cuts off or
replaces the chain of a namespace up to there without breaking that one, too.
"""

from functools import partial
from typing import Annotated, Final

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.core.rounds import do_all
from holdfast.engine.journal.chain import append, end_of
from holdfast.ids import NamespaceId, TenantId
from holdfast.model.basics import Head
from holdfast.model.traces import NO_HASH, OWN, Trace, TraceEnd, TraceKind, TraceRow

ACTION: Final = "journal.anchored"

_MOST: Final = 1000
"""Ends in one anchor; what has moved beyond that gets another."""

_Hash = Annotated[str, msgspec.Meta(min_length=2 * len(NO_HASH), max_length=2 * len(NO_HASH))]


class _Details(msgspec.Struct, forbid_unknown_fields=True):
    ends: list[tuple[int, int, _Hash]]
    """Of namespaces: their id, the number of the last row, and its hash in hexadecimal."""


def anchor(context: Context, tenant_id: TenantId) -> None:
    """Notes where the chains of a tenant's namespaces end that have moved since the last time."""
    while True:
        with context.catalog.read() as transaction:
            if not transaction.moved_ends(tenant_id, most=1):
                return
        with context.catalog.write() as transaction:
            # Locked first: of two who do this at once, the second finds it done.
            transaction.lock_end(tenant_id, OWN)
            if moved := transaction.moved_ends(tenant_id, most=_MOST):
                _note(transaction, context, tenant_id, moved)


def anchor_all(context: Context) -> None:
    """Does so for every tenant; what fails for one is raised once all have had their turn."""
    with context.catalog.read() as transaction:
        tenants = transaction.sort_tenants()
    failed = do_all(partial(anchor, context, tenant.id) for tenant in tenants.sound)
    if tenants.damaged or failed is not None:
        raise failed or tenants.damaged[0]


def anchor_last(transaction: Transaction, context: Context, head: Head) -> None:
    """Notes where the chain of a namespace ends that is about to go for good; it is locked."""
    end = end_of(head)
    if end.number:  # Older ones may have left all that they did in the tenant's chain.
        _note(transaction, context, head.tenant_id, [(head.namespace_id, end)])
    transaction.drop_anchored(head.tenant_id, head.namespace_id)


def ends_in(row: TraceRow) -> list[tuple[NamespaceId, TraceEnd]]:
    """Returns the ends that a row notes, none if it is no anchor; raises `ValueError`."""
    if row.kind != TraceKind.ANCHOR.value:
        return []
    try:
        found = msgspec.json.decode(row.details, type=_Details)
    except msgspec.DecodeError as exc:
        raise ValueError(row.number) from exc
    return [
        (NamespaceId(of), TraceEnd(number, bytes.fromhex(digest)))
        for of, number, digest in found.ends
    ]


def _note(
    transaction: Transaction,
    context: Context,
    tenant_id: TenantId,
    ends: list[tuple[NamespaceId, TraceEnd]],
) -> None:
    transaction.set_anchored(tenant_id, ends)
    told = Trace(
        action=ACTION,
        resource_type="journal",
        details={"ends": [(of, end.number, end.hash.hex()) for of, end in ends]},
    )
    append(transaction, context, tenant_id, told, kind=TraceKind.ANCHOR)
