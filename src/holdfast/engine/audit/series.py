"""Rollbacks by the hour or by the day, counted from traces when somebody asks.

A day at a time is read, and the answer ends after a second: it says where it goes on.
"""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from holdfast.catalog.transaction import Transaction
from holdfast.engine.audit.health import rate_of
from holdfast.engine.core.context import Context
from holdfast.errors import InvalidValue
from holdfast.ids import NamespaceId, TenantId
from holdfast.instants import from_us, to_us
from holdfast.model.overviews import RollbackBucket, RollbackSeries
from holdfast.model.traces import Thresholds
from holdfast.operations.audit import BUCKETS, SeriesChoice

BUDGET_S: Final = 1.0
_DAY_US: Final = 86_400_000_000


def count_series(
    context: Context,
    transaction: Transaction,
    tenant_id: TenantId,
    namespace_id: NamespaceId | None,
    wanted: SeriesChoice,
) -> RollbackSeries:
    """Returns how one namespace fared over time, or all of a tenant's together."""
    now = context.clock()
    kind = BUCKETS[wanted.bucket]
    since = now - kind.usual if wanted.since is None else wanted.since
    if since < now - kind.most:
        message = f"by the {wanted.bucket}, rollbacks are counted up to {kind.most.days} days back"
        raise InvalidValue(message)
    width_us = kind.width // timedelta(microseconds=1)
    ends = time.monotonic() + BUDGET_S
    buckets = list[RollbackBucket]()
    for start_us, stop_us in _days(to_us(since) // width_us * width_us, to_us(now)):
        if buckets and time.monotonic() > ends:
            return RollbackSeries(buckets=buckets, next_since=from_us(start_us))
        found = transaction.rollback_series(
            tenant_id,
            namespace_id,
            since_us=start_us,
            until_us=stop_us,
            width_us=width_us,
            agent_id=wanted.agent_id,
        )
        counted = {number: counts for number, *counts in found}
        for bucket_us in range(start_us, min(stop_us, to_us(now) + 1), width_us):
            rollbacks, sessions = counted.get(bucket_us // width_us, (0, 0))
            buckets.append(_bucket(from_us(bucket_us), rollbacks, sessions))
    return RollbackSeries(buckets=buckets, next_since=None)


def _days(start_us: int, now_us: int) -> Iterator[tuple[int, int]]:
    """Yields where days begin and end, of which the first may be a part."""
    while start_us <= now_us:
        stop_us = (start_us // _DAY_US + 1) * _DAY_US
        yield start_us, stop_us
        start_us = stop_us


def _bucket(start: datetime, rollbacks: int, sessions: int) -> RollbackBucket:
    rate = rate_of(rollbacks, sessions)
    return RollbackBucket(
        start=start,
        rollbacks=rollbacks,
        sessions=sessions,
        rate=rate,
        level=Thresholds().level_of(rate),
    )
