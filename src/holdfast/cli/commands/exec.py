"""`holdfast exec`: a command in the sandbox, with a namespace's files around it.

It sees a copy of the files, and of the machine nothing but its programs: `holdfast run` is for
commands that are trusted with more. What it has left is a snapshot of the namespace; in an attached
directory, what is there is captured before, and what the command changed comes into it after.

What the command says goes to the streams that it was said on, and its exit code is ours.
"""

import shlex
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Callable

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_vault, get_workspace
from holdfast.cli.commands.run import command_of
from holdfast.cli.console import Console
from holdfast.cli.exits import usage
from holdfast.escaping import escaped_lines
from holdfast.model.commands import Stopped
from holdfast.operations.commands import MAX_STDIN_BYTES

EXAMPLES = """\
examples:
  holdfast exec -- make test
  holdfast exec 'grep -c error *.log | sort -t: -k2 -n'
  holdfast exec -n alice --rollback-on-failure -- ./migrate.sh

Off unless HOLDFAST_EXEC=1. The exit code is the command's own; 128 + n if signal n ended it, and
137 if it took more than it may.
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Runs a command in the sandbox, and keeps what it has left."
    parser.epilog = EXAMPLES
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", help="of the vault; that of the directory if left out"
    )
    parser.add_argument("-t", "--timeout", metavar="S", type=float, help="seconds that it may take")
    parser.add_argument("-i", "--stdin", action="store_true", help="let it read what we are given")
    parser.add_argument(
        "--network", action="store_true", help="with a network, if HOLDFAST_EXEC_NETWORK=1"
    )
    parser.add_argument("--task", metavar="NAME", help="keep before and after as a task's")
    parser.add_argument(
        "--rollback-on-failure", action="store_true", help="if it fails, take back what it did"
    )
    parser.add_argument("command", nargs=REMAINDER, metavar="-- COMMAND", help="what to run")


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    command = command_of(arguments, "exec")
    settle: Callable[[], object] = lambda: None  # noqa: E731 - or what a directory needs
    if arguments.namespace is None:
        workspace = get_workspace(console)
        workspace.snapshot_if_changed(reason="before a command in the sandbox")
        agent, settle = workspace.namespace, workspace.agree
    else:
        agent = get_vault(console).namespace(arguments.namespace)
    stdin = _read(console) if arguments.stdin else None
    done = agent.exec(
        # One word is for the shell to read, as it stands; of several, each is one word there.
        command[0] if len(command) == 1 else shlex.join(command),
        stdin=stdin,
        timeout_s=arguments.timeout,
        network=arguments.network,
        task=arguments.task,
        rollback_on_failure=arguments.rollback_on_failure,
        output=_silently if console.is_json else _to(console),
    )
    settle()
    _tell(console, done)
    return done.exit_code


def _read(console: Console) -> str:
    data = console.binary_in().read(MAX_STDIN_BYTES + 1)
    try:
        # What is too long is refused for that, wherever it was cut.
        return data.decode("utf-8", "replace" if len(data) > MAX_STDIN_BYTES else "strict")
    except UnicodeDecodeError as exc:
        raise usage(
            "what a command reads is text, in UTF-8, and this is not",
            hint="Write it to a file of the namespace, and let the command read that.",
        ) from exc


def _silently(_stream: str, _text: str, /) -> None:
    pass


def _to(console: Console) -> Callable[[str, str], None]:
    def say(stream: str, text: str) -> None:
        is_out = stream == "stdout"
        out = console.out if is_out else console.err
        # What a command says is somebody else's choice, and a terminal obeys what it is sent.
        is_seen = console.is_terminal if is_out else console.has_progress
        out.write(escaped_lines(text) if is_seen else text)
        out.flush()

    return say


def _tell(console: Console, done: "holdfast.Executed") -> None:
    console.answer(
        document=lambda: {
            "exit_code": done.exit_code,
            "stdout": done.stdout,
            "stderr": done.stderr,
            "duration_ms": done.duration_ms,
            "stopped": done.stopped,
            "snapshot_id": done.snapshot,
            "is_partial": done.is_partial,
            "skipped": done.skipped,
            "task_id": done.task_id,
            "before_id": done.before,
            "restored_id": done.restored,
        },
        lines=list,
    )
    if done.stopped is Stopped.CALLER:
        console.note("it was ended: nobody wanted it any more")
    elif done.stopped is not None:
        console.note(f"it was ended: it took more {done.stopped} than a command may")
    if done.restored is not None:
        console.note(f"failed with {done.exit_code}; what it did was taken back")
    elif done.snapshot is not None:
        console.note(f"kept as {words.short(done.snapshot)}")
    if done.skipped:
        console.note(f"no snapshot holds such things as {words.some(done.skipped)}")
