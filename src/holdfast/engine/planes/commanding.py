"""How a command is asked for, of whatever runs commands: that is above, and handed in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from holdfast.engine.planes.handle import Handle
from holdfast.errors import Busy
from holdfast.model.commands import Executed, Hear
from holdfast.operations.commands import Command

NOT_BEGUN: Final = "the command was not begun: whoever asked for it has left, or the server stops"


def _always() -> bool:
    return True


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Manner:
    """How a command is run where a door has habits of its own."""

    is_beside: bool = False
    """Whether it begins beside the folder of the files, which is called `workspace`."""
    prelude: str | None = None
    """A file that the shell reads before it, if it is there."""
    is_wanted: Callable[[], bool] = _always
    """Whether somebody waits for it: else it is ended, or never begun."""

    begins: Callable[[], None] = _nothing
    """Is told when nothing stands in its way any more."""

    def check_wanted(self) -> None:
        """Raises `Busy` for a command whose caller has left while it waited for its turn."""
        if not self.is_wanted():
            raise Busy(NOT_BEGUN)


USUAL: Final = Manner()


class Commands(Protocol):
    """What runs commands.

    - A command runs in the sandbox, or not at all; one that nobody waits for is not begun.
    - Nothing of it runs any more when `run` returns, and what it has left is in the head.
    """

    def run(self, handle: Handle, wanted: Command, hear: Hear, manner: Manner) -> Executed:
        """Runs a command to its end, and keeps what it has left."""
        ...
