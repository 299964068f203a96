"""Says what waits to be done by itself: what a server, or whoever runs upkeep, is behind with."""

from holdfast.engine import upkeep
from holdfast.engine.context import Context
from holdfast.model_upkeep import Lags


def find_lags(context: Context) -> Lags:
    """Counts it, over all tenants; reads no more than rows that wait."""
    with context.catalog.read() as transaction:
        found = transaction.count_lags(now=context.clock())
        return Lags(
            **found,
            looked_after_at=transaction.find_chore(upkeep.RETENTION),
            collected_at=transaction.find_chore(upkeep.COLLECTION),
        )
