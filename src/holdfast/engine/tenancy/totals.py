"""How much there is: of one namespace, or of all that a tenant has.

Counted when it is asked for, from rows alone; nothing is kept that could disagree with them.
"""

from datetime import timedelta
from typing import Final

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import used_bytes
from holdfast.ids import TenantId
from holdfast.instants import to_us
from holdfast.model.basics import Head
from holdfast.model.entities import HourCount, Totals

DAY: Final = timedelta(hours=24)

NOTHING: Final = Totals(
    sessions=0, turns=0, memories=0, entities=0, active_sessions=0, storage_bytes=0, by_hour=()
)


def total_of(
    context: Context, transaction: Transaction, tenant_id: TenantId, head: Head | None
) -> Totals:
    """Returns the totals of a namespace, or with None of all of a tenant's together."""
    now, namespace_id = context.clock(), None if head is None else head.namespace_id
    sessions, turns = transaction.total_sessions(tenant_id, namespace_id, now=now)
    hours = transaction.count_by_hour(tenant_id, namespace_id, since=now - DAY)
    return Totals(
        sessions=sessions,
        turns=turns,
        memories=transaction.total_memories(tenant_id, namespace_id),
        entities=transaction.total_entities(tenant_id, namespace_id, now=now),
        active_sessions=transaction.count_active_sessions(
            tenant_id, namespace_id, since_us=to_us(now - DAY), agent_id=None
        ),
        storage_bytes=used_bytes(transaction, tenant_id) if head is None else head.size.bytes,
        by_hour=tuple(HourCount(*each) for each in hours),
    )
