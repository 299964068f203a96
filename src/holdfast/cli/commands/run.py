"""`holdfast run`: a command between two snapshots.

What was there before is kept if no snapshot holds it yet; what is there afterwards is kept
whatever became of the command. Its standard streams are ours, signals that we get are passed
on to it, and its exit code is what we exit with. With `--rollback-on-failure` what changed while
it ran is taken back when the command fails, but for what other tasks noted as theirs; what the
command did stays as a snapshot.

What holdfast itself has to say goes to stderr: stdout is the command's.

Runs somebody's program as ours: same streams, same signals, same end.
"""

import base64
import os
import shlex
import signal
import subprocess
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Final

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace, note_if_missing
from holdfast.cli.console import Console
from holdfast.cli.exits import Refused, code_of_proof, report, usage
from holdfast.cli.snapshots import add_pairs, pairs_of, snapshot_view
from holdfast.cli.views import find_coverage, restored_view
from holdfast.errors import DirectoryMissing, HoldfastError
from holdfast.escaping import escaped
from holdfast.settingsfile import as_given

MAX_LABEL_CHARS: Final = 128

EXAMPLES = """\
examples:
  holdfast run -- make test
  holdfast run --rollback-on-failure -- ./migrate.sh
  holdfast run -m "upgrade" -- npm update

The exit code is the command's own; 128 + n if signal n ended it, 127 if there is no such
command, 126 if it cannot be executed.
"""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a task did."""

    exit_code: int
    before: "holdfast.SnapshotInfo"
    after: "holdfast.SnapshotInfo | None"
    """None if the command removed the directory, or left what cannot be captured as it is."""
    rolled_back: "holdfast.Restored | None"
    failure: HoldfastError | None = None
    """Why what a command that failed has left is not kept, or not rolled back."""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Runs a command and keeps the directory as it was before and after it."
    parser.epilog = EXAMPLES
    parser.add_argument("-m", "--label", metavar="LABEL", help="what to call it")
    add_pairs(parser, "keep this with what it leaves; may be given again")
    parser.add_argument(
        "--rollback-on-failure",
        action="store_true",
        help="if the command fails, take back what changed while it ran",
    )
    parser.add_argument("command", nargs=REMAINDER, metavar="-- COMMAND", help="what to run")


def command_of(arguments: Namespace, verb: str) -> list[str]:
    """Returns the command that is to be run; raises if there is none."""
    command: list[str] = arguments.command
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        raise usage("there is no command to run", hint=f"`holdfast {verb} -- COMMAND` runs one.")
    return command


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    command = command_of(arguments, "run")
    workspace = get_workspace(console)
    outcome = _perform(
        workspace,
        console,
        command,
        label=arguments.label or _label(command),
        metadata=pairs_of(arguments),
        rolls_back=arguments.rollback_on_failure,
    )
    if outcome.failure is not None:
        kept = outcome.after
        what = "not kept" if kept is None else f"kept as {words.short(kept.id)}, and still there"
        console.note(f"failed with {outcome.exit_code}, and what it did is {what}")
        report(outcome.failure, console)
    else:
        _tell(console, workspace, outcome)
    return outcome.exit_code


def _perform(
    workspace: "holdfast.Workspace",
    console: Console,
    command: Sequence[str],
    *,
    label: str,
    metadata: dict[str, str],
    rolls_back: bool,
) -> _Outcome:
    task_id = f"task-{base64.b32encode(os.urandom(10)).decode('ascii').lower()}"
    before = _keep_before(workspace, console, label, task_id)
    # What the command writes into it shall not decide what is kept of its own work.
    rules = workspace.read_rules()
    workspace.runs.note_begun(label, id=task_id, before=before)
    # What was written is flushed before the command writes to the same streams.
    console.out.flush()
    console.err.flush()
    exit_code = wait_for(command, cwd=console.cwd, environ=as_given(console.environ))
    failure = None if exit_code == 0 else f"it ended with {exit_code}"
    # What stands at its path now, the command has made.
    workspace.take_over()

    def note(after: "holdfast.SnapshotInfo | None") -> None:
        # Where it cannot be written, what the command did and its exit code are told all the same.
        with suppress(HoldfastError):
            workspace.runs.note_ended(task_id, after=after, failure=failure)

    try:
        said = {"task_id": task_id, "metadata": metadata}
        taking = partial(workspace.snapshot, label, **said, rules=rules)
        after = _keep_after(console, taking, code=exit_code)
    except HoldfastError as exc:
        if exit_code == 0:
            raise
        if not rolls_back:
            note(None)
            return _Outcome(exit_code, before, None, None, exc)
        # Rules that cannot be read, for one: who goes back keeps what is there without them.
        after = None
    note(after)
    if exit_code == 0 or not rolls_back:
        return _Outcome(exit_code, before, after, None)
    what = label if after is None else words.short(after.id)
    task = holdfast.Task(label, task_id, before, after=after, rules=rules)
    try:
        with console.progress() as progress:
            rolled_back = workspace.end_badly(
                task, reason=f"{what} failed with {exit_code}", progress=progress
            )
    except HoldfastError as exc:
        return _Outcome(exit_code, before, after, None, exc)
    return _Outcome(exit_code, before, after, rolled_back)


def _keep_after(
    console: Console, snapshot: "Callable[..., holdfast.SnapshotInfo]", *, code: int
) -> "holdfast.SnapshotInfo | None":
    """Takes the snapshot of what the command has left; None if that is no directory any more."""
    try:
        with console.progress() as progress:
            return snapshot(reason=f"after it ended with {code}", progress=progress)
    except DirectoryMissing:
        # It is in no snapshot, and need not be: it held nothing. Rolled back, it is made anew.
        return None


def _keep_before(
    workspace: "holdfast.Workspace", console: Console, label: str, task_id: str
) -> "holdfast.SnapshotInfo":
    """Returns the snapshot that holds the directory as it is; takes it if there is none."""
    if (held := workspace.find_current()) is not None:
        return held
    with console.progress() as progress:
        return workspace.snapshot(
            f"before {label}"[:MAX_LABEL_CHARS],
            reason="before it was run",
            task_id=task_id,
            progress=progress,
        )


def _label(command: Sequence[str]) -> str:
    """Returns the command as a label: shortened, and without bytes that no label can hold."""
    text = escaped(shlex.join(command))
    return text if len(text) <= MAX_LABEL_CHARS else text[: MAX_LABEL_CHARS - 1] + "…"


def _tell(console: Console, workspace: "holdfast.Workspace", outcome: _Outcome) -> None:
    after = outcome.after
    console.answer(
        document=lambda: {
            "exit_code": outcome.exit_code,
            "before_id": outcome.before.id,
            "snapshot_id": None if after is None else after.id,
            "before": snapshot_view(outcome.before),
            "after": None if after is None else snapshot_view(after),
            "rolled_back": None
            if outcome.rolled_back is None
            else restored_view(outcome.rolled_back),
        },
        lines=list,
    )
    for line in words.unread_lines(find_coverage(outcome.before)):
        console.note(line)
    for snapshot in (outcome.before, after):
        if snapshot is None:
            continue
        if snapshot.is_partial:
            console.note(f"{words.short(snapshot.id)} is PARTIAL: `holdfast show` says why")
        coverage = find_coverage(snapshot)
        if coverage is not None and coverage.in_motion:
            count = words.number(len(coverage.in_motion), "file")
            console.note(f"{words.short(snapshot.id)} has {count} in motion: `holdfast show`")
    if outcome.rolled_back is not None:
        kept = outcome.rolled_back.safety_id if after is None else after.id
        did = "" if kept is None else f", what it did is kept as {words.short(kept)}"
        if outcome.rolled_back.was_missing:
            did = f", {workspace.path} was missing and was made anew"
        to = words.short(outcome.before.id)
        console.note(f"failed with {outcome.exit_code}; rolled back to {to}{did}")
        # The exit code is still the command's.
        code_of_proof(
            console,
            is_verified=outcome.rolled_back.verified,
            differing=outcome.rolled_back.differing,
        )
        lacking = words.lacking(
            is_partial=outcome.rolled_back.is_partial,
            uncaptured=len(outcome.rolled_back.uncaptured),
            in_motion=len(outcome.rolled_back.in_motion),
        )
        if lacking:
            console.note(f"what was rolled back to lacks something: {lacking}")
    elif after is not None:
        console.note(f"kept as {words.titled(after)}")
    note_if_missing(console, workspace)


NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
SIGNALLED: Final = 128
"""What shells add to the number of the signal that ended a program."""

_HINT: Final = "Check the command's name and that it can be executed."

_PASSED_ON: Final = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)

_FROM_TERMINAL: Final = (signal.SIGINT, signal.SIGQUIT)
"""What a terminal sends to every process in its foreground: the program has it already."""


def wait_for(command: Sequence[str], *, cwd: str, environ: Mapping[str, str]) -> int:
    """Runs a command to its end and returns the exit code that a shell would give it.

    Raises `Refused`, with the code that a shell has for it, if it cannot be started.
    """
    # Before it is started: a signal that comes in between has to reach it too.
    with _passing_on() as hand_over:
        process = _start(command, cwd=cwd, environ=environ)
        hand_over(process)
        code = process.wait()
    return code if code >= 0 else SIGNALLED - code


def _start(
    command: Sequence[str], *, cwd: str, environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, cwd=cwd, env=dict(environ))  # noqa: S603 - typed by the user to be run; nothing of it comes from a vault
    except OSError as exc:
        code = NOT_FOUND if isinstance(exc, FileNotFoundError) else NOT_EXECUTABLE
        message = f"{command[0]} cannot be started: {exc.strerror}"
        raise Refused(message, code="not_started", exit_code=code, hint=_HINT) from exc


@contextmanager
def _passing_on() -> Generator[Callable[[subprocess.Popen[bytes]], None]]:
    """Hands signals to a program for as long as it runs; gives the function that names it."""
    is_foreground = _is_foreground()
    running: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if not running:
            early.append(number)
        elif number not in _FROM_TERMINAL or not is_foreground:
            with suppress(ProcessLookupError):
                running[0].send_signal(number)

    def hand_over(process: subprocess.Popen[bytes]) -> None:
        running.append(process)
        for number in early:
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        yield hand_over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_foreground() -> bool:
    """Says whether a terminal sends its signals to us and to what we start."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
