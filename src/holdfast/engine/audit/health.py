"""How an agent is doing: how often its sessions are rolled back, and whether it turns in circles.

The rate is rollbacks per session that was active in the window. Both are counted from traces, so
they hold across processes and restarts, and cost what the window holds.

And how much there is, of one namespace or of all that a tenant has: counted when it is asked for,
from rows alone, so that nothing is kept that could disagree with them.
"""

from collections import Counter
from datetime import timedelta
from typing import Final

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import used_bytes
from holdfast.errors import InvalidValue
from holdfast.ids import NamespaceId, TenantId
from holdfast.instants import to_us
from holdfast.model.basics import Head
from holdfast.model.entities import HourCount, Totals
from holdfast.model.traces import Health, Loop, Rollback, Thresholds
from holdfast.operations.audit import HealthWindow


def measure(
    context: Context,
    transaction: Transaction,
    tenant_id: TenantId,
    namespace_id: NamespaceId | None,
    wanted: HealthWindow,
) -> Health:
    """Returns how one namespace fares, or all of a tenant's together."""
    window, agent_id = wanted.window, wanted.agent_id
    if window <= timedelta(0):
        raise InvalidValue("a window is longer than no time at all")
    thresholds = wanted.thresholds or Thresholds()
    try:
        since_us = to_us(context.clock() - window)
    except OverflowError:
        # Longer than there are years: all that there is.
        since_us = -(2**62)
    found = transaction.list_rollbacks(
        tenant_id, namespace_id, since_us=since_us, agent_id=agent_id
    )
    sessions = transaction.count_active_sessions(
        tenant_id, namespace_id, since_us=since_us, agent_id=agent_id
    )
    rate = rate_of(len(found), sessions)
    return Health(
        rollbacks=len(found),
        sessions=sessions,
        rate=rate,
        level=thresholds.level_of(rate),
        loops=_loops(found, least=thresholds.loop),
    )


def rate_of(rollbacks: int, sessions: int) -> float:
    """Returns how often each active session was rolled back; 0 if there was none."""
    return rollbacks / sessions if sessions else 0.0


def nothing_yet(wanted: HealthWindow) -> Health:
    """Returns how a namespace fares that does not exist."""
    level = (wanted.thresholds or Thresholds()).level_of(0.0)
    return Health(rollbacks=0, sessions=0, rate=0.0, level=level, loops=[])


class _Target(msgspec.Struct):
    """What a loop is about, in the details of a rollback."""

    to_version: int


def _loops(rollbacks: list[Rollback], *, least: int) -> list[Loop]:
    # By the namespace's number: a deleted one may have had the same name.
    counts = Counter[tuple[NamespaceId, str, str, int]]()
    for each in rollbacks:
        target = _target_of(each)
        if each.session_id is not None and target is not None:
            counts[each.namespace_id, each.namespace, each.session_id, target] += 1
    return [
        Loop(namespace, session_id, version, count)
        for (_, namespace, session_id, version), count in counts.most_common()
        if count >= least
    ]


def _target_of(rollback: Rollback) -> int | None:
    """Returns the version gone back to; None where the details were redacted or do not say."""
    try:
        return msgspec.json.decode(rollback.details, type=_Target).to_version
    except msgspec.DecodeError:
        return None


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
