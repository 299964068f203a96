"""`holdfast undo`: takes the last change back, or what an operation, task or prompt changed."""

from argparse import ArgumentParser, Namespace

import holdfast
from holdfast.cli.attached import get_workspace
from holdfast.cli.commands.agent import find_prompt
from holdfast.cli.console import Console
from holdfast.cli.exits import usage
from holdfast.cli.moments import find_id
from holdfast.cli.restored import most_listed, tell
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast undo                    back to the state before the last change
  holdfast undo --dry-run          only show what that would change
  holdfast undo snap-k3v7          take out what that one changed, keep what came after
  holdfast undo --task task-5xq…   take back what that task changed, and nothing else
  holdfast undo --task task-5xq… --dry-run
                                   only show what would change
  holdfast undo --task task-5xq… --end
                                   of one whose process died: end it, and take it back
  holdfast undo --prompt 3         take back what a coding agent's third prompt changed
  holdfast redo                    take the undo back
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Takes the last change back. What was there is kept first."
    parser.epilog = EXAMPLES
    parser.add_argument(
        "operation", nargs="?", metavar="OPERATION", help="a snapshot whose changes to take out"
    )
    parser.add_argument("--task", metavar="ID", help="a task whose changes to take back")
    parser.add_argument(
        "--prompt", type=int, metavar="N", help="a coding agent's prompt whose changes to take back"
    )
    parser.add_argument(
        "--session", metavar="ID", help="the conversation of that prompt; the last one by default"
    )
    parser.add_argument(
        "--keep-mine",
        action="store_true",
        help="of a task or prompt: leave alone what was changed since, and take the rest back",
    )
    parser.add_argument(
        "--end",
        action="store_true",
        help="of a task that has not ended, since its process died: end it here, as failed",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would change, do nothing")
    parser.add_argument(
        "--force", action="store_true", help="give up what cannot be captured and is in the way"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    _check(arguments)
    if arguments.operation is not None and arguments.dry_run:
        hint = "`holdfast show` shows what an operation changed."
        raise usage("--dry-run shows an undo of the last change, or of a task", hint=hint)
    workspace = get_workspace(console, brings_back=True)
    task = arguments.task
    if arguments.prompt is not None:
        task = _task_of(workspace, arguments, console)
    if arguments.end:
        workspace.give_up(arguments.task)
    with console.progress() as progress:
        restored = workspace.undo(
            find_id(workspace.namespace, arguments.operation, now=console.clock()),
            task=task,
            keep_mine=arguments.keep_mine,
            dry_run=arguments.dry_run,
            force=arguments.force,
            limit=most_listed(console),
            progress=progress,
        )
    if task is not None:
        return tell(
            console,
            restored,
            verb="Took back",
            dry_verb="Taking back",
            what=escaped(arguments.task or f"prompt {arguments.prompt}"),
            directory=workspace.path,
            way_back="holdfast undo",
        )
    is_last = arguments.operation is None
    verb, way_back = ("Back at", "redo") if is_last else ("Took out", "undo")
    return tell(
        console,
        restored,
        verb=verb,
        dry_verb="Going back to",
        directory=workspace.path,
        way_back=f"holdfast {way_back}",
    )


def _check(arguments: Namespace) -> None:
    chosen = [arguments.operation, arguments.task, arguments.prompt]
    if sum(each is not None for each in chosen) > 1:
        raise usage("an operation, a task or a prompt is undone", hint="Choose one of them.")
    if arguments.session is not None and arguments.prompt is None:
        raise usage("--session is for undoing a prompt", hint="Name the prompt with --prompt.")
    if arguments.end and (arguments.task is None or arguments.dry_run):
        hint = "Name the task with --task, and leave --dry-run out: that changes nothing."
        raise usage("--end is for undoing a task that has not ended", hint=hint)
    if arguments.keep_mine and arguments.task is None and arguments.prompt is None:
        raise usage("--keep-mine is for undoing a task", hint="Name the task with --task.")


def _task_of(workspace: "holdfast.Workspace", arguments: Namespace, console: Console) -> str:
    """Returns the task of a prompt; what it has changed so far is kept as its own.

    Not by who only looks: that changes nothing.
    """
    found = find_prompt(
        workspace, number=arguments.prompt, session=arguments.session, console=console
    )
    if found.is_open and not arguments.dry_run:
        found = workspace.prompts.close(found)
    return found.task.id
