"""`holdfast export`: writes a snapshot to a tar file."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, usage
from holdfast.cli.moments import add_moment, id_of
from holdfast.cli.views import path_view
from holdfast.errors import HoldfastError
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast export backup.tar             what the last snapshot holds
  holdfast export old.tar snap-k3v7      another one
  tar -tf backup.tar                     any tar can read it
  holdfast export - | ssh host 'cat > b.tar'
  holdfast export - --files @-1 | tar -x -C ../copy   the files, as they were
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Writes a snapshot to a tar file, whole or not at all."
    parser.epilog = EXAMPLES
    parser.add_argument(
        "file", metavar="FILE", help="the file to write, one that is there goes; - for stdout"
    )
    add_moment(parser, default="@")
    parser.add_argument(
        "--files",
        action="store_true",
        help="the files alone, under their own names: for tar, or `holdfast import --files`",
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    workspace = get_workspace(console)
    namespace = workspace.namespace
    snapshot = namespace.get_snapshot(id_of(namespace, arguments.id or "@", now=console.clock()))
    write = namespace.export_files if arguments.files else namespace.export
    if arguments.file == "-":
        return _to_stdout(console, snapshot, write)
    target = console.resolve(arguments.file)
    with console.progress() as progress:
        count = write(target, snapshot=snapshot, progress=progress)
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


def _to_stdout(
    console: Console, snapshot: "holdfast.SnapshotInfo", write: Callable[..., int]
) -> int:
    """Writes to stdout: bytes and nothing else."""
    if console.is_terminal:
        raise usage("a tar file is nothing for a terminal", hint="Send it through a pipe.")
    if console.is_json:
        raise usage("stdout has room for one thing", hint="Leave --json out, or name a file.")
    try:
        with console.progress() as progress:
            count = write(console.binary_out(), snapshot=snapshot, progress=progress)
    except HoldfastError as error:
        # Whoever read it has gone: nothing is wrong with the vault, or with a file.
        if isinstance(error.__cause__, BrokenPipeError):
            raise error.__cause__ from None
        raise
    console.note(f"wrote {words.titled(snapshot)}: {words.number(count, 'entry', 'entries')}")
    return DONE
