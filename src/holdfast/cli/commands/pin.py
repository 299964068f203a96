"""`holdfast pin`: keeps a snapshot until it is unpinned."""

from argparse import ArgumentParser, Namespace

from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.cli.moments import add_moment, id_of
from holdfast.cli.snapshots import snapshot_view

EXAMPLES = """\
examples:
  holdfast pin latest              nothing but `holdfast unpin` lets it go
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Keeps a snapshot until it is unpinned, however old it gets."
    parser.epilog = EXAMPLES
    add_moment(parser)


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    namespace = get_workspace(console).namespace
    snapshot = namespace.pin(id_of(namespace, arguments.id, now=console.clock()))
    console.answer(document=lambda: snapshot_view(snapshot), lines=list)
    console.say(f"Pinned {words.titled(snapshot)}.")
    return DONE
