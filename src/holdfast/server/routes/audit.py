"""The chain of traces, and how often agents go back."""

from datetime import timedelta
from functools import partial
from typing import Annotated, Final

from msgspec import Meta

from holdfast.engine.namespace import Namespace
from holdfast.model.health import Health, Thresholds
from holdfast.operations.choices import LAST_NUMBER
from holdfast.server.parameters import Made
from holdfast.server.problems import Unfit
from holdfast.server.requests import Caller, Request
from holdfast.server.responses import Stream
from holdfast.server.routing import Route, Who, get
from holdfast.server.threads import Work
from holdfast.server.transfer import exported
from holdfast.wire.audit import (
    AuditAnswer,
    AuditProblemAnswer,
    LoopAnswer,
    RollbackRateAnswer,
)

DAY_S: Final = 86_400
LONGEST_S: Final = 366 * DAY_S
USUAL: Final = Thresholds()
_WORKSPACE: Final = "/v1/workspaces/{workspace_id}"
_LINES: Final = "application/jsonl"


@get(f"{_WORKSPACE}/audit/verify", who=Who.OPERATOR, work=Work.LONG)
def verify(caller: Caller, workspace_id: str, anchor: str | None = None) -> AuditAnswer:
    """Checks that no trace was edited, removed, inserted or moved since it was written."""
    report = caller.vault.verify_audit(anchor=anchor)
    return AuditAnswer(
        ok=report.is_sound,
        checked=report.checked,
        anchor=report.anchor,
        problems=[
            AuditProblemAnswer(number=p.number, reason=p.reason, namespace=p.namespace)
            for p in report.problems
        ],
    )


@get(f"{_WORKSPACE}/audit/export", who=Who.OPERATOR, media_type=_LINES)
async def export(request: Request, caller: Caller, workspace_id: str) -> Stream:
    """Returns all traces as a file that is checked without this server."""
    # Operators see no agent's content; what is left out is redacted, and the chain still holds.
    write = partial(caller.vault.export_audit, for_operators=True)
    pieces, _ = await exported(request, write, size=0)
    return Stream(pieces, media_type=_LINES)


def provide_limits(
    elevated: float = USUAL.elevated,
    warning: float = USUAL.warning,
    critical: float = USUAL.critical,
    loop: Annotated[int, Meta(le=LAST_NUMBER)] = USUAL.loop,
) -> Thresholds:
    """Returns from which rate on each level begins, and how many rollbacks make a loop."""
    return Thresholds(elevated=elevated, warning=warning, critical=critical, loop=loop)


Limits = Annotated[Thresholds, Made(provide_limits)]


@get(f"{_WORKSPACE}/rollbacks", who=Who.OPERATOR)
def of_workspace(
    caller: Caller,
    workspace_id: str,
    limits: Limits,
    window_seconds: int = DAY_S,
    agent_id: str | None = None,
) -> RollbackRateAnswer:
    """Returns how often sessions of all namespaces were rolled back lately."""
    window = _window(window_seconds)
    found = caller.vault.health(window=window, agent_id=agent_id, thresholds=limits)
    return _rate(found, window_seconds)


@get("/v1/rollbacks")
def of_namespace(
    agent: Namespace,
    limits: Limits,
    window_seconds: int = DAY_S,
    agent_id: str | None = None,
) -> RollbackRateAnswer:
    """Returns how often sessions were rolled back lately, and which turn in circles."""
    window = _window(window_seconds)
    found = agent.health(window=window, agent_id=agent_id, thresholds=limits)
    return _rate(found, window_seconds)


def _window(seconds: int) -> timedelta:
    if not 0 < seconds <= LONGEST_S:
        message = f"window_seconds is more than 0 and at most {LONGEST_S}"
        raise Unfit(message, param="window_seconds")
    return timedelta(seconds=seconds)


def _rate(health: Health, window_seconds: int) -> RollbackRateAnswer:
    return RollbackRateAnswer(
        rollbacks=health.rollbacks,
        sessions=health.sessions,
        rate=health.rate,
        level=health.level.value,
        window_seconds=window_seconds,
        loops=[
            LoopAnswer(
                namespace=loop.namespace,
                session_id=loop.session_id,
                version=loop.version,
                rollbacks=loop.rollbacks,
            )
            for loop in health.loops
        ],
    )


ROUTES: Final[list[Route]] = [verify, export, of_workspace]
ROUTES_OF_AGENTS: Final[list[Route]] = [of_namespace]
