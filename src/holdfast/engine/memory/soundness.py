"""Says where the rows of a tenant's memories are not what the plane holds."""

from collections.abc import Iterator
from itertools import zip_longest

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.memory.plane import entry_of, every_row, is_lagging
from holdfast.engine.objects.reader import Objects
from holdfast.engine.planes.overlays import NamesOnly
from holdfast.engine.planes.view import View
from holdfast.entries import IN_ROW
from holdfast.ids import TenantId
from holdfast.model.basics import Head, Plane


def find_memory_faults(
    context: Context, transaction: Transaction, tenant_id: TenantId
) -> Iterator[tuple[str, str]]:
    """Yields what is wrong, and why; raises `Damaged` where a plane cannot be read at all."""
    for head in transaction.iter_heads(tenant_id):
        # The rows of a fork are written when somebody first asks for them.
        if not is_lagging(transaction, head):
            yield from _find_in(context, transaction, head)


def _find_in(context: Context, transaction: Transaction, head: Head) -> Iterator[tuple[str, str]]:
    objects = Objects(context, head.tenant_id, transaction)
    shown = View.of_head(objects, transaction, head, Plane.MEMORIES).iterate()
    for entry, row in zip_longest(shown, every_row(transaction, head.namespace_id)):
        key, data = entry or (None, None)
        is_there = row is not None and key == row.id.encode()
        if row is not None and is_there and data in (IN_ROW, entry_of(NamesOnly(), row)):
            continue
        # From here on the two are out of step: one fault says it.
        keys = ([entry[0]] if entry else []) + ([row.id.encode()] if row else [])
        name = min(keys).decode(errors="replace")
        yield f"memories: {name}", f"its row and the plane of {head.name!r} differ"
        return
