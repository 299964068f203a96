"""`client.traces`, `client.tasks`, `client.schedules`: what happened, what asks for snapshots."""

from holdfast.model.tasks import TaskRun
from holdfast.model.traces import TraceInfo
from holdfast.operations.gitbackups import (
    ConfigureGit,
    ConfirmGitHost,
    DeleteGit,
    GetGit,
    ListGitHostKeys,
    PushGit,
    UpdateGit,
)
from holdfast.operations.tasks import (
    CompleteTask,
    CreateSchedule,
    DeleteSchedule,
    FailTask,
    GetSchedule,
    GetTask,
    ListSchedules,
    ListTasks,
    StartTask,
    UpdateSchedule,
)
from holdfast.operations.traces import (
    AddTrace,
    GetTrace,
    ListTraces,
)
from holdfast.sdk.calls import F, Group, Pages, all_of, method, pages


class Traces(Group[F]):
    """What happened in a namespace."""

    list = method(ListTraces)
    get = method(GetTrace)
    add = method(AddTrace)

    @pages
    def iter(
        self,
        *,
        session_id: str | None = None,
        action: str | None = None,
        actor: str | None = None,
        task_id: str | None = None,
    ) -> Pages[TraceInfo]:
        """Goes through all traces, newest first."""
        return all_of(
            ListTraces(session_id=session_id, action=action, actor=actor, task_id=task_id)
        )


class TaskRuns(Group[F]):
    """Tasks that outlive a call: started by one process, completed or failed by another."""

    start = method(StartTask)
    complete = method(CompleteTask)
    fail = method(FailTask)
    get = method(GetTask)
    list = method(ListTasks)

    @pages
    def iter(self, *, status: str | None = None) -> Pages[TaskRun]:
        """Goes through all tasks, newest first."""
        return all_of(ListTasks(status=status))


class GitBackups(Group[F]):
    """The copy of the namespace in a git repository."""

    configure = method(ConfigureGit)
    get = method(GetGit)
    update = method(UpdateGit)
    delete = method(DeleteGit)
    host_keys = method(ListGitHostKeys)
    confirm_host = method(ConfirmGitHost)
    push = method(PushGit)


class Schedules(Group[F]):
    """Snapshots that nobody has to ask for."""

    create = method(CreateSchedule)
    list = method(ListSchedules)
    get = method(GetSchedule)
    update = method(UpdateSchedule)
    delete = method(DeleteSchedule)
