"""How much there was day by day: noted by upkeep, since nothing else remembers it.

Once a day, by whoever is first. A round that a crash has cut short is done again: what was noted of
a day stays, and the row of the tenant itself, which says that all are there, comes last.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import used_bytes
from holdfast.ids import NamespaceId, TenantId
from holdfast.model.overviews import StorageDay

KEPT: Final = timedelta(days=90)

BATCH: Final = 200
"""Namespaces that are noted in one transaction, for which writers wait."""

_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)


def note_storage(context: Context, tenant_id: TenantId) -> bool:
    """Notes how much a tenant's namespaces hold, if nobody has today; says whether."""
    now = context.clock()
    day, before = _day_of(now), _day_of(now - KEPT)
    with context.catalog.read() as transaction:
        if transaction.has_storage_day(tenant_id, day):
            return False
    after: str | None = ""
    while after is not None:
        with context.catalog.write() as transaction:
            heads = transaction.page_heads(tenant_id, prefix="", after=after, most=BATCH)
            transaction.add_storage_days(tenant_id, day, heads)
            transaction.age_storage_days(tenant_id, heads, before=before)
        after = heads[-1].name if len(heads) == BATCH else None
    with context.catalog.read() as transaction:
        stored = used_bytes(transaction, tenant_id)
    with context.catalog.write() as transaction:
        transaction.add_own_storage_day(tenant_id, day, stored_bytes=stored)
        transaction.age_own_storage_days(tenant_id, before=before)
    return True


def list_days(
    context: Context,
    transaction: Transaction,
    tenant_id: TenantId,
    namespace_id: NamespaceId | None,
    *,
    since: datetime | None,
) -> list[StorageDay]:
    """Returns what was noted of a namespace, or of all together, oldest first."""
    first = _day_of(context.clock() - KEPT)
    if since is not None:
        first = max(first, _day_of(since))
    return [
        StorageDay(start=_FIRST + row.day * _DAY, size=row.size, stored_bytes=row.stored_bytes)
        for row in transaction.storage_days(tenant_id, namespace_id, since=first)
    ]


def _day_of(instant: datetime) -> int:
    return (instant - _FIRST) // _DAY
