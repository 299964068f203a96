"""How an agent is doing: how often its sessions are rolled back, and whether it turns in circles.

The rate is rollbacks per session that was active in the window. Both are counted from traces, so
they hold across processes and restarts, and cost what the window holds.
"""

from collections import Counter
from datetime import timedelta

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.errors import InvalidValue
from holdfast.ids import NamespaceId, TenantId
from holdfast.instants import to_us
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
    rate = len(found) / sessions if sessions else 0.0
    return Health(
        rollbacks=len(found),
        sessions=sessions,
        rate=rate,
        level=thresholds.level_of(rate),
        loops=_loops(found, least=thresholds.loop),
    )


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
