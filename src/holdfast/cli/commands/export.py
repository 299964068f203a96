"""`holdfast export`: writes a snapshot to a tar file."""

import os
from argparse import ArgumentParser, Namespace

from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.escaping import escaped
from holdfast.cli.exits import DONE
from holdfast.cli.views import path_view

EXAMPLES = """\
examples:
  holdfast export backup.tar             what the last snapshot holds
  holdfast export old.tar snap-k3v7      another one
  tar -tf backup.tar                     any tar can read it
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Writes a snapshot to a tar file, whole or not at all."
    parser.epilog = EXAMPLES
    parser.add_argument("file", metavar="FILE", help="the file to write; one that is there goes")
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="an id or its beginning, latest, @ or @-n (default: @)"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    workspace = get_workspace(console)
    snapshot = workspace.namespace.get_snapshot(arguments.id or "@")
    target = console.resolve(arguments.file)
    with console.progress() as progress:
        count = workspace.namespace.export(target, snapshot=snapshot, progress=progress)
    written = os.stat(target).st_size
    console.answer(
        document=lambda: {
            **path_view(target),
            "snapshot_id": snapshot.id,
            "entries": count,
            "bytes": written,
        },
        lines=list,
    )
    console.say(
        f"Wrote {words.titled(snapshot)} to {escaped(target)}: "
        f"{words.number(count, 'entry', 'entries')}, {words.size(written)}."
    )
    return DONE
