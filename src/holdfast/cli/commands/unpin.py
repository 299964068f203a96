"""`holdfast unpin`: lets a snapshot expire again."""

from argparse import ArgumentParser, Namespace

from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.cli.moments import add_moment, id_of
from holdfast.cli.snapshots import snapshot_view

EXAMPLES = """\
examples:
  holdfast unpin snap-k3v7         it expires a full term from now
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Lets a snapshot expire again, a full term from now."
    parser.epilog = EXAMPLES
    add_moment(parser)


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    namespace = get_workspace(console).namespace
    snapshot = namespace.unpin(id_of(namespace, arguments.id, now=console.clock()))
    expires = "" if snapshot.expires_at is None else f"; expires {words.local(snapshot.expires_at)}"
    console.answer(document=lambda: snapshot_view(snapshot), lines=list)
    console.say(f"Unpinned {words.titled(snapshot)}{expires}.")
    return DONE
