"""Commands that run in the sandbox, with the files of a namespace around them."""

from dataclasses import KW_ONLY
from math import inf
from typing import Annotated, Final

from msgspec import Meta

from holdfast.errors import InvalidValue
from holdfast.escaping import spaced
from holdfast.model.commands import Executed, Hear, unheard
from holdfast.operations.operation import Arguments, Operation, Work
from holdfast.operations.snapshots import MAX_LABEL_CHARS, Label

MAX_COMMAND_BYTES: Final = 100_000
"""A kernel hands a program no argument of more than 128 KiB."""

MAX_STDIN_BYTES: Final = 1 << 20


class Command(Arguments):
    """What is run, and what becomes of it."""

    command: str
    _: KW_ONLY
    stdin: str | None = None
    timeout_s: Annotated[float, Meta(gt=0)] | None = None
    network: bool = False
    task: Label | None = None
    rollback_on_failure: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.command.strip():
            raise InvalidValue("there is no command")
        if "\0" in self.command:
            raise InvalidValue("a command holds no NUL")
        for name, text, most in (
            ("command", self.command, MAX_COMMAND_BYTES),
            ("stdin", self.stdin or "", MAX_STDIN_BYTES),
        ):
            if _count(name, text) > most:
                message = f"{name} has more than {most} bytes"
                raise InvalidValue(message)
        # How long one may run at the most is for whoever runs it to say.
        if self.timeout_s is not None and not 0 < self.timeout_s < inf:
            raise InvalidValue("timeout_s is a number of seconds above 0")

    @property
    def is_task(self) -> bool:
        """Whether before and after are snapshots, as those of a task are."""
        return self.task is not None or self.rollback_on_failure

    @property
    def task_name(self) -> str:
        """What the task is called: the command itself, if nobody says."""
        if self.task is not None:
            return self.task
        return spaced(self.command).strip()[:MAX_LABEL_CHARS] or "a command"


def _count(name: str, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as exc:
        message = f"{name} is no text"
        raise InvalidValue(message) from exc


class Exec(Command, Operation[Executed], post="/v1/commands", work=Work.COMMANDS, is_slow=True):
    """Runs a command of bash in the sandbox, where the files are; what it leaves is kept.

    With a `task`, before and after are snapshots; with `rollback_on_failure`, what a command that
    fails did is taken back. `network` is had only where the server lets commands have it.
    """


class RunCommand(Command):
    """The same, for somebody who listens while it runs."""

    _: KW_ONLY
    output: Hear = unheard
