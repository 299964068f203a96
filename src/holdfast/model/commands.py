"""Values of commands: how one ended.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec

from holdfast.ids import SnapshotId
from holdfast.model.marks import Named


class Stopped(enum.StrEnum):
    """What a command had too much of, and was therefore ended."""

    TIME = "time"
    MEMORY = "memory"
    PROCESSES = "processes"
    OUTPUT = "output"
    DISK = "disk"
    CALLER = "caller"
    """Nobody was there any more who wanted it."""


class Executed(msgspec.Struct, frozen=True, kw_only=True):
    """A command that has ended, and what it has left."""

    exit_code: int
    """128 and the number of the signal, if one ended it."""
    stdout: str
    stderr: str
    """What it said; bytes that are no text are replaced."""
    duration_ms: int
    stopped: Stopped | None = None
    """Of what it took more than it may, and was ended for."""
    snapshot: Annotated[SnapshotId | None, Named("snapshot_id")] = None
    """The snapshot that holds what it has left; None if it changed nothing."""
    is_partial: bool = False
    """Whether something that it has left could not be captured: the snapshot says what."""
    skipped: Sequence[str] = ()
    """What is there when it has ended, and of no kind that a snapshot holds, as a pipe or a socket:
    the paths of up to 100."""
    task_id: str | None = None
    """The task that it was, if it was to be one."""
    before: Annotated[SnapshotId | None, Named("before_snapshot_id")] = None
    """Of a task: what was there before it."""
    restored: Annotated[SnapshotId | None, Named("restored_snapshot_id")] = None
    """Of a task that failed, or a command that took too much disk: the snapshot that shows that all
    of it was taken back."""

    @property
    def is_ok(self) -> bool:
        """Whether it ended by itself, and well."""
        return self.exit_code == 0 and self.stopped is None


Hear = Callable[[str, str], None]
"""Is told what a command says, while it runs: `stdout` or `stderr`, and the text."""


def unheard(_stream: str, _text: str, /) -> None:
    """Listens to nothing."""
