"""Tasks in a directory whose timeline is on a server, which keeps the tasks as well.

    with project.task("rewrite the plan", rollback_on_failure=True) as task:
        ...
    project.undo(task=task.id)

A task is begun and ended over there, so that everybody who has the timeline can see it, and take it
back. What is sent while it runs, and when it ends, names it: files that were changed here are its
own as much as what its client wrote, and nothing that others do to the namespace meanwhile is. The
snapshots are those that the directory makes; a task that cannot be sent ends as one that failed.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from holdfast.engine.tasks.contexts import Task, Tasks
from holdfast.errors import DirectoryMissing, HoldfastError
from holdfast.ids import IdMaker, SnapshotId
from holdfast.model.basics import SnapshotInfo
from holdfast.model.changes import Restored
from holdfast.model.tasks import TaskRun
from holdfast.operations.snapshots import MAX_LABEL_CHARS, MAX_TEXT_CHARS
from holdfast.operations.tasks import StartTask
from holdfast.running import text_of
from holdfast.sdk.agent import Agent
from holdfast.sdk.calls import Sync, asking
from holdfast.sdk.tasks import MAX_REASON_CHARS


class Sent(Protocol):
    """A directory whose snapshots are on a server."""

    namespace: Agent[Sync]

    def snapshot(
        self,
        label: str | None = None,
        *,
        reason: str | None = None,
        task_id: str | None = None,
        rules: bytes | None = None,
    ) -> SnapshotInfo:
        """Captures everything as it is now."""
        ...

    def read_rules(self) -> bytes:
        """Returns what says what is left out."""
        ...

    def find_current(self) -> SnapshotInfo | None:
        """Returns the snapshot that holds everything as it is, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """A directory that is open, as a task works on it."""

    directory: Sent
    go_back: Callable[[Callable[[], TaskRun], bytes | None], Restored]
    """Lets the server take a task back, by what ends it there, and has the directory follow."""


class RemoteTasks(Tasks):
    """Makes tasks: as a context, plain or asynchronous, or around a function."""

    def __init__(
        self, place: object, name: str, *, opened: Callable[[], Place], rollback_on_failure: bool
    ) -> None:
        super().__init__(place, name, ids=IdMaker(), rollback_on_failure=rollback_on_failure)
        self._opened = opened

    def _enter(self, task: Task) -> Task:
        self._agent().sender.line.door.enter(task.id)
        return super()._enter(task)

    def _leave(self) -> Task:
        task = super()._leave()
        self._agent().sender.line.door.leave(task.id)
        return task

    def _agent(self) -> Agent[Sync]:
        return self._opened().directory.namespace

    def _begin(self) -> Task:
        directory, agent = self._opened().directory, self._agent()
        if directory.find_current() is None:
            directory.snapshot(f"before {self._name}"[:MAX_LABEL_CHARS], reason="before a task")
        rules = directory.read_rules()
        asked = asking(StartTask(self._name, rollback_on_failure=self._rolls_back))
        run: TaskRun = agent.sender.send(replace(asked, within=("new",)))
        return Task(self._name, run.id, agent.get_snapshot(run.before), rules=rules)

    def _end(self, task: Task, error: BaseException | None) -> None:
        failure = None if error is None else text_of(error, max_chars=MAX_REASON_CHARS)
        with self._naming(task):
            self._capture(task, failure)
            self._finish(task, failure)

    @contextmanager
    def _naming(self, task: Task) -> Generator[None]:
        """Has what is sent name the task, which is left by now."""
        door = self._agent().sender.line.door
        door.enter(task.id)
        try:
            yield
        finally:
            door.leave(task.id)

    def _capture(self, task: Task, failure: str | None) -> None:
        reason = "the task was completed" if failure is None else f"the task failed: {failure}"
        try:
            task.after = self._opened().directory.snapshot(
                task.name, reason=reason[:MAX_TEXT_CHARS], task_id=task.id, rules=task.rules
            )
        except HoldfastError as exc:
            # Its own error is what a task that failed has to tell, and the way back begins with
            # what is there in any case.
            if failure is not None and (self._rolls_back or isinstance(exc, DirectoryMissing)):
                return
            said = failure or text_of(exc, max_chars=MAX_REASON_CHARS)
            # Not for ever a task that runs: nobody else would end it.
            with suppress(HoldfastError):
                self._agent().tasks.fail(task.id, error=said, rollback=False)
            raise

    def _finish(self, task: Task, failure: str | None) -> None:
        runs = self._agent().tasks
        after: SnapshotId | None = None if task.after is None else task.after.id
        if failure is None:
            runs.complete(task.id, snapshot=after)
        elif self._rolls_back:
            task.rolled_back = self._opened().go_back(
                lambda: runs.fail(task.id, error=failure, snapshot=after), task.rules
            )
        else:
            runs.fail(task.id, error=failure, snapshot=after)
