"""Values of health: how often sessions were rolled back, and from when on that is bad.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

import enum

import msgspec

from holdfast.errors import InvalidValue


class Level(enum.StrEnum):
    """How bad a rate is."""

    HEALTHY = "healthy"
    ELEVATED = "elevated"
    WARNING = "warning"
    CRITICAL = "critical"


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
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


class Loop(msgspec.Struct, frozen=True):
    """A session that was rolled back to the same version again and again."""

    namespace: str
    session_id: str
    version: int
    rollbacks: int


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How sessions fared in a window of time."""

    rollbacks: int
    sessions: int
    """Those that left a trace."""
    rate: float
    """Rollbacks per session; 0 without sessions. Above 1 where some were rolled back often."""
    level: Level
    loops: list[Loop]
    """The longest first."""
