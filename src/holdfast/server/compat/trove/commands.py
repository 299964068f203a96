"""Commands, as this client runs them: beside the folder `workspace`, for half a minute at most.

What `.trove/init.sh` says is read by the shell before every command; what goes wrong in it keeps no
command from being run. An older client is answered with plain text.
"""

from typing import Final

import msgspec

from holdfast.engine.commands.running import run_as
from holdfast.engine.namespace import Namespace
from holdfast.engine.planes.commanding import Manner
from holdfast.errors import InvalidValue
from holdfast.model.commands import Executed, Stopped
from holdfast.operations.commands import Command
from holdfast.operations.operation import Work
from holdfast.server.problems import CommandTimedOut, Unfit
from holdfast.server.responses import Response
from holdfast.server.routing import Route, post
from holdfast.server.stopping import IsGone

_PRELUDE: Final = "workspace/.trove/init.sh"
_TEXT: Final = "text/plain"


class ExecRequest(msgspec.Struct, kw_only=True):
    """A command, and what it reads."""

    command: str
    stdin: str | None = None


class ExecAnswer(msgspec.Struct, kw_only=True):
    """How a command ended, and what it said."""

    exit_code: int
    stdout: str
    stderr: str
    duration_ms: int
    stopped: str | None
    """What it had too much of, if it was ended for that."""
    snapshot_id: str | None
    """What holds what it has left; null if it changed nothing."""


@post("/v1/exec", work=Work.COMMANDS)
def execute(agent: Namespace, data: ExecRequest, is_gone: IsGone) -> ExecAnswer:
    """Runs a command of bash in the sandbox, beside the folder `workspace`."""
    done = _run(agent, data, is_gone)
    return ExecAnswer(
        exit_code=done.exit_code,
        stdout=done.stdout,
        stderr=done.stderr,
        duration_ms=done.duration_ms,
        stopped=done.stopped,
        snapshot_id=done.snapshot,
    )


@post("/exec", work=Work.COMMANDS, media_type=_TEXT)
def execute_plainly(agent: Namespace, data: ExecRequest, is_gone: IsGone) -> Response:
    """Runs a command; answers what it said, and where it failed, with which code."""
    done = _run(agent, data, is_gone)
    text = done.stdout
    if done.exit_code:
        text = f"[exit {done.exit_code}]\n{done.stderr}{done.stdout}"
    return Response(text.encode(), media_type=_TEXT)


def _run(agent: Namespace, data: ExecRequest, is_gone: IsGone) -> Executed:
    manner = Manner(is_beside=True, prelude=_PRELUDE, is_wanted=lambda: not is_gone())
    try:
        wanted = Command(data.command, stdin=data.stdin)
    except InvalidValue as exc:
        raise Unfit(str(exc)) from exc
    done = run_as(agent, wanted, manner)
    if done.stopped is Stopped.TIME:
        message = (
            f"the command took {done.duration_ms / 1000:.1f} seconds, which is longer than it may"
        )
        raise CommandTimedOut(message)
    return done


ROUTES: Final[list[Route]] = [execute, execute_plainly]
