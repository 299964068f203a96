"""What tasks changed is taken back in a directory, and what others did stays.

The middle of `Workspace`, above what only looks. What a task of a directory changed is what lies
between its two snapshots, but for what other tasks noted (`timeline/aims.py`).
"""

from abc import abstractmethod
from collections.abc import Callable

from holdfast.engine.directory.move import Act
from holdfast.engine.directory.present import Glance
from holdfast.engine.directory.writer import Follower
from holdfast.engine.looks import Looks
from holdfast.engine.tasks.contexts import Task
from holdfast.engine.tasks.life import TaskLife
from holdfast.engine.timeline.takeback import take_back
from holdfast.engine.timeline.takeback_many import take_back_since
from holdfast.errors import TaskEnded
from holdfast.model.basics import SnapshotInfo
from holdfast.model.changes import Restored
from holdfast.model.tasks import TaskRun, TaskStatus
from holdfast.operations.checks import checked
from holdfast.operations.snapshots import Note, RestoreOfDirectory
from holdfast.operations.timeline import UndoOfDirectory
from holdfast.progress import Progress, no_progress

Check = Callable[[], None]
"""Raises, before anything is kept, if what is there is not to be moved."""


@checked
class TakesBack(Looks):
    """An attached directory in which tasks are taken back."""

    @abstractmethod
    def _led(
        self, act: Act[Restored], follower: Follower, *, reason: str, keeps_redo: bool = False
    ) -> Restored:
        """Moves timeline and directory; returns what was done, and what had to be before."""

    @property
    def _life(self) -> TaskLife:
        return TaskLife(self._plain)

    @abstractmethod
    def snapshot_if_changed(
        self,
        label: str | None = None,
        *,
        reason: str | None = None,
        task_id: str | None = None,
    ) -> SnapshotInfo | None:
        """Captures the directory if it differs from what the timeline stands on."""

    def give_up(self, task_id: str) -> TaskRun:
        """Ends a task as failed whose process has died; one that has ended stays as it is.

        What is there by now is what it has left, as far as anybody knows.
        """
        task = self._life.get(task_id)
        if task.status is not TaskStatus.RUNNING:
            return task
        said = "its process had died"
        self.snapshot_if_changed(task.name, reason=f"the task failed: {said}", task_id=task_id)
        return self._life.end_badly(task_id, error=said, rollback=False)

    def end_badly(
        self, task: Task, *, reason: str, progress: Progress = no_progress
    ) -> Restored | None:
        """Takes back what a task of the directory changed that failed.

        What is there and in no snapshot becomes one first, by the rules that the task found. Where
        nothing shows how it ended, all that is there by now is what it left. Raises `OthersChanged`
        where others changed the same; returns None if another has taken it back.
        """
        note = Note(reason=reason, task_id=task.id)
        with self._exclusive(makes_anew=True), self._directory.judged_by(task.rules):
            follower = Follower(self._directory, progress=progress)
            try:
                return self._led(
                    lambda handle, _: TaskLife(handle).go_back(
                        task.id, note=note, leave=follower.leave
                    ),
                    follower,
                    reason=f"before taking {task.id} back",
                )
            except TaskEnded:
                return None

    def _restore_beside(self, wanted: RestoreOfDirectory, check: Check) -> Restored:
        """Takes back what tasks changed since a snapshot, and keeps what others did."""
        note, limit, dry_run = Note(reason=wanted.reason), wanted.limit, wanted.dry_run
        holds = self._exclusive(makes_anew=not dry_run, only_looks=dry_run)
        with holds, self._directory.judged_by(wanted.rules):
            target = self.namespace.get_snapshot(wanted.snapshot)
            if dry_run:
                seen = Glance(self._directory).at(self._plain)
                return take_back_since(seen, target, dry_run=True, limit=limit)
            check()
            follower = Follower(self._directory, force=wanted.force, progress=wanted.progress)
            return self._led(
                lambda handle, _: take_back_since(
                    handle, target, limit=limit, note=note, leave=follower.leave
                ),
                follower,
                reason=f"before restoring {target.id}",
            )

    def _undo_task(self, wanted: UndoOfDirectory, task: str, check: Check) -> Restored:
        keep_mine, limit = wanted.keep_mine, wanted.limit
        with self._exclusive(makes_anew=not wanted.dry_run, only_looks=wanted.dry_run):
            if wanted.dry_run:
                seen = Glance(self._directory).at(self._plain)
                return take_back(seen, task, keep_mine=keep_mine, dry_run=True, limit=limit)
            self._life.get(task)  # One that is not there is refused before anything is kept.
            check()
            follower = Follower(self._directory, force=wanted.force, progress=wanted.progress)
            return self._led(
                lambda handle, _: take_back(
                    handle, task, keep_mine=keep_mine, limit=limit, leave=follower.leave
                ),
                follower,
                reason=f"before taking {task} back",
            )
