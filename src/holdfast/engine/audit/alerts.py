"""Tells when a rollback rate becomes bad, worse, or better again.

The rate of each namespace, and that of all of a tenant's together, has a level (`health.py`). From
`warning` on a level is told: as an event when the rate comes to it, and when it comes to another,
not with each rollback. What was told last is a row, and that row moves in the transaction that
tells: of any number of servers that look at once, one tells.

Rates also rise without a rollback, as sessions leave the window: so somebody looks now and then,
and whoever writes does nothing more than before. Where nobody listens nobody looks, nor at tenants
of whom nothing is in the window and nothing was told.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from holdfast.engine.audit.health import DAY, rate_of
from holdfast.engine.core.context import Context
from holdfast.engine.core.fencing import fenced
from holdfast.engine.core.rounds import is_due, set_aside, set_done
from holdfast.engine.journal.events import tell
from holdfast.engine.journal.occurrences import rate_moved
from holdfast.errors import Busy
from holdfast.ids import NamespaceId, TenantId
from holdfast.instants import to_us
from holdfast.model.overviews import ALL_NAMES, RollbackCount, RollbackLevel
from holdfast.model.traces import OWN, Level, Thresholds

CHORE: Final = "rollbacks"
TOLD: Final = (Level.WARNING, Level.CRITICAL)
"""From 5 % on, and from 10 % on."""


def watch(context: Context, *, every: timedelta) -> int:
    """Tells of rates that have come to another level; returns how many.

    Not if anybody looked less than `every` ago, or looks right now.
    """
    if not _is_wanted(context) or not is_due(context, CHORE, every=every):
        return 0
    if not _find_active(context):
        return 0  # Nor is a lock taken, which would be written down.
    count = 0
    with suppress(Busy), fenced(context, CHORE) as ours:
        if not is_due(context, CHORE, every=every):
            return 0
        is_measured = False
        for tenant_id in _find_active(context):
            ours.catalog.check_current()
            with set_aside():
                found = _look(context, tenant_id)
                is_measured = is_measured or found is not None
                count += found or 0
        if is_measured:  # A vault in which nothing happens is not written to.
            set_done(ours, CHORE)
    return count


def _is_wanted(context: Context) -> bool:
    with context.catalog.ask() as transaction:
        return transaction.is_heard()


def _find_active(context: Context) -> list[TenantId]:
    """Returns the tenants whose rates may be other ones than was told."""
    since_us = to_us(context.clock() - DAY)
    with context.catalog.read() as transaction:
        active = transaction.find_active_tenants(since_us=since_us)
        return [each.id for each in transaction.sort_tenants().sound if each.id in active]


def _look(context: Context, tenant_id: TenantId) -> int | None:
    """Returns how many rates of a tenant were told of; None if there was nothing to look at."""
    since_us = to_us(context.clock() - DAY)
    with context.catalog.read() as transaction:
        seen = transaction.rollback_levels(tenant_id)
        counts = transaction.rollback_counts(tenant_id, ALL_NAMES, since_us=since_us)
        if not counts and not seen:
            return None
        # Of all together, as `health` has it.
        counts.append(transaction.rollback_total(tenant_id, since_us=since_us))
    known = {each.namespace_id for each in counts}
    counts += [RollbackCount(NamespaceId(each), 0, 0) for each in seen if each not in known]
    return sum(_compare(context, tenant_id, each, seen.get(each.namespace_id)) for each in counts)


def _compare(
    context: Context, tenant_id: TenantId, counted: RollbackCount, was: Level | None
) -> int:
    """Tells of one rate if it has come to another level, and nobody else has; returns 1 then."""
    rate = rate_of(counted.rollbacks, counted.sessions)
    level = Thresholds().level_of(rate)
    now = level if level in TOLD else None
    if now is was:
        return 0
    data = {
        "level": level.value,
        "previous_level": None if was is None else was.value,
        "rate": rate,
        "rollbacks": counted.rollbacks,
        "sessions": counted.sessions,
        "window_seconds": int(DAY.total_seconds()),
    }
    row = RollbackLevel(tenant_id, counted.namespace_id)
    with context.catalog.write() as transaction:
        if not transaction.move_rollback_level(row, seen=was, level=now, now=context.clock()):
            return 0
        of = tenant_id
        if counted.namespace_id != OWN:
            of = transaction.find_head_by_id(counted.namespace_id)
        if of is None:  # Purged since: its row has gone, too, and this one goes with it.
            transaction.move_rollback_level(row, seen=now, level=None, now=context.clock())
            return 0
        is_worse = was is None or now is Level.CRITICAL
        tell(transaction, context, of, lambda: [rate_moved(data, is_worse=is_worse)])
    return 1
