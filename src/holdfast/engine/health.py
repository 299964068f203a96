"""How an agent is doing: how often its sessions are rolled back, and whether it turns in circles.

The rate is rollbacks per session that was active in the window. Both are counted from traces, so
they hold across processes and restarts, and cost what the window holds.
"""

import enum
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec

from holdfast.catalog.port import Transaction
from holdfast.catalog.rows import to_us
from holdfast.engine.context import Context
from holdfast.errors import InvalidValue
from holdfast.ids import NamespaceId, TenantId
from holdfast.model_traces import Rollback

DAY: Final = timedelta(hours=24)


class Level(enum.StrEnum):
    """How bad a rate is."""

    HEALTHY = "healthy"
    ELEVATED = "elevated"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """From which rate on each level begins, and how many times make a loop."""

    elevated: float = 0.02
    warning: float = 0.05
    critical: float = 0.10
    loop: int = 3

    def __post_init__(self) -> None:
        if not 0 <= self.elevated <= self.warning <= self.critical:
            raise InvalidValue("thresholds ascend: elevated, warning, critical, from 0 on")
        if self.loop < 1:
            raise InvalidValue("a loop is at least one rollback")

    def level_of(self, rate: float) -> Level:
        """Returns how bad a rate is."""
        if rate >= self.critical:
            return Level.CRITICAL
        if rate >= self.warning:
            return Level.WARNING
        return Level.ELEVATED if rate >= self.elevated else Level.HEALTHY


@dataclass(frozen=True, slots=True)
class Loop:
    """A session that was rolled back to the same version again and again."""

    namespace: str
    session_id: str
    version: int
    rollbacks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How sessions fared in a window of time."""

    rollbacks: int
    sessions: int
    """Those that left a trace."""
    rate: float
    """Rollbacks per session; 0 without sessions. Above 1 where some were rolled back often."""
    level: Level
    loops: list[Loop]
    """The longest first."""


def measure(
    context: Context,
    transaction: Transaction,
    tenant_id: TenantId,
    namespace_id: NamespaceId | None,
    *,
    window: timedelta,
    agent_id: str | None,
    thresholds: Thresholds | None,
) -> Health:
    """Returns how one namespace fares, or all of a tenant's together."""
    if window <= timedelta(0):
        raise InvalidValue("a window is longer than no time at all")
    thresholds = thresholds or Thresholds()
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


def nothing_yet(thresholds: Thresholds | None) -> Health:
    """Returns how a namespace fares that does not exist."""
    level = (thresholds or Thresholds()).level_of(0.0)
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
