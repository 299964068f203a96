"""Schedules: snapshots that nobody has to ask for."""

from dataclasses import KW_ONLY
from datetime import timedelta
from typing import Annotated

from msgspec import Meta

from holdfast.model.tasks import Schedule
from holdfast.operations.operation import Operation

_Span = Annotated[timedelta, Meta(gt=0, le=10**9)]
"""What a request can say at all; what makes sense of it, the door decides."""


class CreateSchedule(Operation[Schedule], post="/v1/schedules", status=201):
    """Makes a schedule of one of three kinds; the first snapshot comes in its time."""

    _: KW_ONLY
    every: _Span | None = None
    after_changes: int | None = None
    when_quiet: _Span | None = None
    label: str | None = None
    only_if_changed: bool = True


class ListSchedules(Operation[list[Schedule]], get="/v1/schedules", under="schedules"):
    """Returns the schedules, oldest first."""


class GetSchedule(Operation[Schedule], get="/v1/schedules/{schedule_id}"):
    """Returns a schedule; raises `ScheduleNotFound`."""

    schedule_id: str


class UpdateSchedule(Operation[Schedule], patch="/v1/schedules/{schedule_id}"):
    """Stops a schedule, lets it go on, or gives its snapshots another label."""

    schedule_id: str
    _: KW_ONLY
    enabled: bool | None = None
    label: str | None = None


class DeleteSchedule(Operation[None], delete="/v1/schedules/{schedule_id}", status=204):
    """Takes a schedule away; the snapshots that it asked for stay."""

    schedule_id: str
