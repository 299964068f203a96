"""Schedules: snapshots that nobody has to ask for."""

from datetime import timedelta
from typing import Final

from holdfast.engine.namespace import Namespace
from holdfast.model.tasks import Schedule
from holdfast.server.problems import Unfit
from holdfast.server.routing import Route, delete, get, patch, post
from holdfast.server.times import shown, shown_or_none
from holdfast.wire.tasks import ScheduleAnswer, ScheduleList, SchedulePatch, ScheduleRequest

_SCHEDULE: Final = "/v1/schedules/{schedule_id}"
_LONGEST_S: Final = 10**9


@post("/v1/schedules", status=201)
def create(agent: Namespace, data: ScheduleRequest) -> ScheduleAnswer:
    """Makes a schedule: every so often, after so many writes, or when it is quiet."""
    made = agent.schedules.create(
        every=_span("every_seconds", data.every_seconds),
        after_changes=data.after_changes,
        when_quiet=_span("when_quiet_seconds", data.when_quiet_seconds),
        label=data.label,
        only_if_changed=data.only_if_changed is not False,
    )
    return _answer(agent, made)


@get("/v1/schedules")
def list_(agent: Namespace) -> ScheduleList:
    """Lists the schedules, oldest first."""
    return ScheduleList(schedules=[_answer(agent, each) for each in agent.schedules.list()])


@get(_SCHEDULE)
def show(agent: Namespace, schedule_id: str) -> ScheduleAnswer:
    """Returns a schedule."""
    return _answer(agent, agent.schedules.get(schedule_id))


@patch(_SCHEDULE)
def update(agent: Namespace, schedule_id: str, data: SchedulePatch) -> ScheduleAnswer:
    """Stops a schedule, lets it go on, or gives its snapshots another label."""
    changed = agent.schedules.update(schedule_id, enabled=data.enabled, label=data.label)
    return _answer(agent, changed)


@delete(_SCHEDULE, status=204)
def remove(agent: Namespace, schedule_id: str) -> None:
    """Takes a schedule away; the snapshots that it asked for stay."""
    agent.schedules.delete(schedule_id)


def _span(name: str, seconds: int | None) -> timedelta | None:
    if seconds is None:
        return None
    if not 0 < seconds <= _LONGEST_S:
        message = f"{name} is a number of seconds above 0"
        raise Unfit(message, param=name)
    return timedelta(seconds=seconds)


def _answer(agent: Namespace, schedule: Schedule) -> ScheduleAnswer:
    return ScheduleAnswer(
        schedule_id=schedule.id,
        namespace=agent.name,
        cadence=schedule.cadence.value,
        amount=schedule.amount,
        label=schedule.label,
        enabled=schedule.enabled,
        only_if_changed=schedule.only_if_changed,
        created_at=shown(schedule.created_at),
        next_at=shown(schedule.next_at) if schedule.enabled else None,
        last_run_at=shown_or_none(schedule.last_run_at),
        last_snapshot_id=schedule.last_snapshot_id,
        last_error=schedule.last_error,
    )


ROUTES: Final[list[Route]] = [create, list_, show, update, remove]
