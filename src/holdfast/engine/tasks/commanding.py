"""Runs a command through a namespace, as a task of its own if that is wanted."""

from contextlib import suppress

from msgspec.structs import replace

from holdfast.engine.planes.commanding import USUAL, Commands, Manner
from holdfast.engine.planes.handle import Handle
from holdfast.engine.tasks.contexts import Tasks
from holdfast.errors import NotBuilt
from holdfast.model.commands import Executed, Hear
from holdfast.operations.commands import Command


class _Failed(Exception):
    """A command that did not end well: its task has failed."""


def execute(handle: Handle, wanted: Command, hear: Hear, manner: Manner = USUAL) -> Executed:
    """Runs a command; raises `NotBuilt` where nobody has turned that on.

    And `Busy`, with nothing done, if nobody waits for it any more when its turn has come.
    """
    commands: Commands | None = handle.context.commands
    if commands is None:
        raise NotBuilt("this process runs no commands").with_hint("HOLDFAST_EXEC=1 turns them on.")
    manner.check_wanted()  # Before its task is: that is on the timeline, too.
    if not wanted.is_task:
        return commands.run(handle, wanted, hear, manner)
    tasks = Tasks(
        handle.name,
        wanted.task_name,
        ids=handle.context.ids,
        rollback_on_failure=wanted.rollback_on_failure,
        handle=handle,
    )
    ended: list[Executed] = []
    with suppress(_Failed), tasks as task:
        ended.append(done := commands.run(handle, wanted, hear, manner))
        if not done.is_ok:
            raise _Failed(_why(done))
    done = replace(ended[0], task_id=task.id, before=task.before.id)
    if done.restored is not None:
        # What took too much room is aside already, and nothing of it was left to take back.
        return done
    after = task.after
    restored = None if task.rolled_back is None else task.rolled_back.snapshot
    return replace(
        done,
        snapshot=None if after is None else after.id,
        restored=None if restored is None else restored.id,
    )


def _why(done: Executed) -> str:
    if done.stopped is not None:
        return f"the command was ended for its {done.stopped}"
    return f"the command ended with {done.exit_code}"
