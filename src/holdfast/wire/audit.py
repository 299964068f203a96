"""Answers about the chain of traces, and about how often agents go back."""

import msgspec


class AuditProblemAnswer(msgspec.Struct, kw_only=True):
    """A place where a chain is not as it was written."""

    number: int
    reason: str
    namespace: str | None
    """In whose chain: that of a namespace, or with null the workspace's own."""


class AuditAnswer(msgspec.Struct, kw_only=True):
    """What an audit found."""

    ok: bool
    checked: int
    anchor: str
    problems: list[AuditProblemAnswer]


class LoopAnswer(msgspec.Struct, kw_only=True):
    """A session that was rolled back to the same version again and again."""

    namespace: str
    session_id: str
    version: int
    rollbacks: int


class RollbackRateAnswer(msgspec.Struct, kw_only=True):
    """How often sessions were rolled back lately."""

    rollbacks: int
    sessions: int
    rate: float
    level: str
    """`healthy`, `elevated`, `warning` or `critical`."""
    window_seconds: int
    loops: list[LoopAnswer]
