"""`holdfast redo`: takes the last undo back."""

from argparse import ArgumentParser, Namespace

from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.restored import most_listed, tell

EXAMPLES = """\
examples:
  holdfast undo
  holdfast redo                    as if nothing had been undone
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Takes the last undo back. What was there is kept first."
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--force", action="store_true", help="give up what cannot be captured and is in the way"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    workspace = get_workspace(console)
    with console.progress() as progress:
        restored = workspace.redo(
            force=arguments.force, limit=most_listed(console), progress=progress
        )
    return tell(
        console,
        restored,
        verb="Forward to",
        directory=workspace.path,
        way_back="holdfast undo",
    )
