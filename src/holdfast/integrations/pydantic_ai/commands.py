"""Commands in a workspace of pydantic-ai: in the sandbox, where the files are.

Each is a step on the timeline, and can be taken back. It needs a vault or a server that runs
commands (`docs/howto/run-commands.md`). Three things are otherwise than in a machine of one's own:
commands of a namespace run one after the other, what one writes is seen by others when it has
ended, and what it leaves running in the background ends with it.
"""

import re
import shlex
from collections.abc import Mapping
from math import inf
from threading import Event
from typing import Final

from pydantic_ai.workspaces import (
    CommandResult,
    WorkspaceCommand,
    WorkspaceError,
    WorkspaceOutputLimitError,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from holdfast import Executed, Namespace
from holdfast.engine.commands.running import run_as
from holdfast.engine.planes.commanding import Manner
from holdfast.errors import NamespaceNotFound, NotBuilt, SandboxUnavailable
from holdfast.integrations.calling import Agent, aside, carry_through
from holdfast.integrations.pydantic_ai.workspaces import HoldfastWorkspace
from holdfast.model.commands import Stopped
from holdfast.operations.commands import Command
from holdfast.sdk.agent import Agent as RemoteAgent
from holdfast.sdk.awaiting import AsyncSender
from holdfast.sdk.calls import Async

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class HoldfastCommandWorkspace(HoldfastWorkspace):
    """The files of a namespace as a workspace, with commands."""

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as pydantic-ai calls it
    ) -> CommandResult:
        """Runs a command to its end, and keeps what it has left.

        Without a timeout, for as long as commands may run there. Whoever is cancelled ends it.
        """
        line = to_line(command, shell=shell, env=env or {})
        if timeout is not None and not 0 < timeout < inf:
            raise ValueError("timeout is a number of seconds above 0")
        wanted = Command(line, timeout_s=timeout)
        try:
            done = await _execute(await aside(self._enter), wanted)
        except (NamespaceNotFound, NotBuilt, SandboxUnavailable) as error:
            raise WorkspaceUnavailableError(str(error)) from error
        await aside(self._enter)  # Whether the namespace is still there.
        return _result_of(done, timeout)


def to_line(command: WorkspaceCommand, *, shell: bool, env: Mapping[str, str]) -> str:
    """Returns a command as bash reads it; raises `TypeError` for one of the other form."""
    if isinstance(command, str) != shell:
        raise TypeError("a command is a text with shell=True, and a list of words without")
    for name in env:
        if _VARIABLE.fullmatch(name) is None:
            message = f"{name!r} is no name of a variable"
            raise ValueError(message)
    variables = [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
    # A list names a program: no word of the shell's own stands for it.
    line = command if isinstance(command, str) else f"exec -- {shlex.join(command)}"
    return "\n".join([*variables, line])


async def _execute(agent: Agent, wanted: Command) -> Executed:
    if isinstance(agent, Namespace):
        gone = Event()
        manner = Manner(is_wanted=lambda: not gone.is_set())
        return await carry_through(aside(run_as, agent, wanted, manner), stop=gone.set)
    # Over a connection of its own, that ends with whoever waits: then the server ends the command.
    sender = AsyncSender(agent.sender.line)
    try:
        return await RemoteAgent[Async](sender).exec(wanted.command, timeout_s=wanted.timeout_s)
    finally:
        await sender.close()


def _result_of(done: Executed, timeout: float | None) -> CommandResult:
    said = {"stdout": done.stdout, "stderr": done.stderr}
    match done.stopped:
        case Stopped.TIME:
            longest = "it may" if timeout is None else f"{timeout:g} s"
            raise WorkspaceTimeoutError(f"the command ran for longer than {longest}", **said)
        case Stopped.OUTPUT:
            limit = len(done.stdout.encode()) + len(done.stderr.encode())
            raise WorkspaceOutputLimitError("the command said too much", limit=limit, **said)
        case Stopped.DISK | Stopped.CALLER:
            raise WorkspaceError(f"the command was ended for its {done.stopped}")
        case Stopped.MEMORY | Stopped.PROCESSES:
            why = f"{done.stderr}\nthe command was ended for its {done.stopped}\n"
            return CommandResult(exit_code=done.exit_code, stdout=done.stdout, stderr=why)
        case None:
            return CommandResult(exit_code=done.exit_code, **said)
