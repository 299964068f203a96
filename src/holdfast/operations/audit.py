"""What the traces say as a whole: whether they are sound, how agents fare, how much there is."""

from dataclasses import KW_ONLY
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal, NamedTuple

from msgspec import Meta

from holdfast.model.entities import Totals
from holdfast.model.marks import FLAT
from holdfast.model.overviews import RollbackSeries, StorageDay
from holdfast.model.traces import Health, Thresholds
from holdfast.model.upkeep import AuditReport
from holdfast.operations.choices import check_zone
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


class BucketKind(NamedTuple):
    """How long parts of a series are, and how far back it goes."""

    width: timedelta
    usual: timedelta
    """Where it begins if nobody says."""
    most: timedelta


Bucket = Literal["hour", "day"]
BUCKETS: Final[dict[Bucket, BucketKind]] = {
    "hour": BucketKind(timedelta(hours=1), DAY, timedelta(days=31)),
    "day": BucketKind(DAY, timedelta(days=14), timedelta(days=366)),
}


class SeriesChoice(Arguments):
    """By the hour or by the day, since when, and of whose sessions."""

    _: KW_ONLY
    bucket: Bucket = "day"
    since: datetime | None = None
    agent_id: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_zone("since", self.since)


class GetRollbackSeries(
    SeriesChoice, Operation[RollbackSeries], get="/v1/rollbacks/series", work=Work.SLOW
):
    """Returns how often sessions were rolled back, by the hour or by the day, oldest first.

    Without `since`, of the last 24 hours or of 14 days; at the most 31 days back by the hour, and
    366 by the day. An answer ends after a second: `since` is the `next_since` of the one before.
    """


class GetWorkspaceRollbackSeries(
    SeriesChoice,
    Operation[RollbackSeries],
    get=f"{WORKSPACE}/rollbacks/series",
    who=Who.OPERATOR,
    work=Work.SLOW,
):
    """Returns how often sessions of all namespaces were rolled back, by the hour or by the day.

    Or of one `namespace`; as that one's own series does.
    """

    _: KW_ONLY
    namespace: str | None = None


class GetStorageSeries(
    Operation[list[StorageDay]],
    get=f"{WORKSPACE}/storage/series",
    who=Who.OPERATOR,
    under="days",
):
    """Returns how much there was day by day, oldest first: in all namespaces, or in one.

    Upkeep notes it once a day, and keeps it for 90 days. Days on which it was not done are left
    out.
    """

    _: KW_ONLY
    since: datetime | None = None
    namespace: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_zone("since", self.since)


class GetTotals(Operation[Totals], get="/v1/totals"):
    """Returns how many sessions, turns, memories and entities there are."""


class GetWorkspaceTotals(Operation[Totals], get=f"{WORKSPACE}/totals", who=Who.OPERATOR):
    """Returns how much there is in all namespaces together."""
