"""`holdfast undo`: takes the last change back, or what an operation or a task changed."""

from argparse import ArgumentParser, Namespace

from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.escaping import escaped
from holdfast.cli.exits import usage
from holdfast.cli.moments import find_id
from holdfast.cli.restored import most_listed, tell

EXAMPLES = """\
examples:
  holdfast undo                    back to the state before the last change
  holdfast undo --dry-run          only show what that would change
  holdfast undo snap-k3v7          take out what that one changed, keep what came after
  holdfast undo --task task-5xq…   take back what that task changed, and nothing else
  holdfast undo --task task-5xq… --dry-run
                                   only show what would change
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
        "--keep-mine",
        action="store_true",
        help="of a task: leave alone what was changed since, and take the rest back",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would change, do nothing")
    parser.add_argument(
        "--force", action="store_true", help="give up what cannot be captured and is in the way"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    if arguments.task is None and arguments.keep_mine:
        raise usage("--keep-mine is for undoing a task", hint="Name the task with --task.")
    if arguments.operation is not None and arguments.dry_run:
        hint = "`holdfast show` shows what an operation changed."
        raise usage("--dry-run shows an undo of the last change, or of a task", hint=hint)
    workspace = get_workspace(console, brings_back=True)
    with console.progress() as progress:
        restored = workspace.undo(
            find_id(workspace.namespace, arguments.operation, now=console.clock()),
            task=arguments.task,
            keep_mine=arguments.keep_mine,
            dry_run=arguments.dry_run,
            force=arguments.force,
            limit=most_listed(console),
            progress=progress,
        )
    if arguments.task is not None:
        return tell(
            console,
            restored,
            verb="Took back",
            dry_verb="Taking back",
            what=escaped(arguments.task),
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
