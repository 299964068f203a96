"""`holdfast undo`: takes the last change back, or what one operation changed."""

from argparse import ArgumentParser, Namespace

from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.restored import most_listed, tell

EXAMPLES = """\
examples:
  holdfast undo                    back to the state before the last change
  holdfast undo snap-k3v7          take out what that one changed, keep what came after
  holdfast redo                    take the undo back
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Takes the last change back. What was there is kept first."
    parser.epilog = EXAMPLES
    parser.add_argument(
        "operation", nargs="?", metavar="OPERATION", help="a snapshot whose changes to take out"
    )
    parser.add_argument(
        "--force", action="store_true", help="give up what cannot be captured and is in the way"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    workspace = get_workspace(console, brings_back=True)
    with console.progress() as progress:
        restored = workspace.undo(
            arguments.operation,
            force=arguments.force,
            limit=most_listed(console),
            progress=progress,
        )
    is_last = arguments.operation is None
    verb, way_back = ("Back at", "redo") if is_last else ("Took out", "undo")
    return tell(
        console, restored, verb=verb, directory=workspace.path, way_back=f"holdfast {way_back}"
    )
