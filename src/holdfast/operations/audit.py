"""What the traces say as a whole: whether they are sound, how agents fare, how much there is."""

from dataclasses import KW_ONLY
from datetime import timedelta
from typing import Annotated, Final

from msgspec import Meta

from holdfast.model.entities import Totals
from holdfast.model.marks import FLAT
from holdfast.model.traces import Health, Thresholds
from holdfast.model.upkeep import AuditReport
from holdfast.operations.operation import WORKSPACE, Arguments, Operation, Who, Work

DAY: Final = timedelta(hours=24)
_LONGEST_S: Final = 10**9 * 86_400
"""What a `timedelta` holds, and no more."""


class VerifyAudit(
    Operation[AuditReport],
    get=f"{WORKSPACE}/audit/verify",
    who=Who.OPERATOR,
    work=Work.LONG,
    is_slow=True,
):
    """Checks that no trace was edited, removed, inserted or moved since it was written.

    `anchor` is that of an earlier report: the chain has to go through it.
    """

    _: KW_ONLY
    anchor: str | None = None


class HealthWindow(Arguments):
    """Of which time, of whose sessions, and what is bad."""

    _: KW_ONLY
    window: Annotated[timedelta, Meta(gt=0, le=_LONGEST_S)] = DAY
    agent_id: str | None = None
    thresholds: Annotated[Thresholds | None, FLAT] = None


class GetHealth(HealthWindow, Operation[Health], get="/v1/rollbacks", repeats=("window",)):
    """Returns how often sessions were rolled back lately, and which turn in circles."""


class GetWorkspaceHealth(
    HealthWindow,
    Operation[Health],
    get=f"{WORKSPACE}/rollbacks",
    repeats=("window",),
    who=Who.OPERATOR,
):
    """Returns how often sessions of all namespaces were rolled back lately."""


class GetTotals(Operation[Totals], get="/v1/totals"):
    """Returns how many sessions, turns, memories and entities there are."""


class GetWorkspaceTotals(Operation[Totals], get=f"{WORKSPACE}/totals", who=Who.OPERATOR):
    """Returns how much there is in all namespaces together."""
