"""Says what waits to be done by itself: what a server, or whoever runs upkeep, is behind with."""

from holdfast.engine.core import rounds as upkeep
from holdfast.engine.core.context import Context
from holdfast.model.upkeep import Lags


def find_lags(context: Context) -> Lags:
    """Counts it, over all tenants; reads no more than rows that wait."""
    with context.catalog.read() as transaction:
        found = transaction.count_lags(now=context.clock())
        return Lags(
            **found,
            looked_after_at=transaction.find_chore(upkeep.RETENTION),
            collected_at=transaction.find_chore(upkeep.COLLECTION),
        )
