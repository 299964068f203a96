"""`holdfast log`: the snapshots, newest first."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace, note_if_missing
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, usage
from holdfast.cli.shown import shown
from holdfast.cli.views import snapshot_view
from holdfast.errors import NotFound

USUALLY_SHOWN = 20

EXAMPLES = """\
examples:
  holdfast log                     the last 20
  holdfast log -n 5                the last 5
  holdfast log -n 0                all of them

@ marks the snapshot whose state the directory last showed.
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Lists the snapshots, newest first."
    parser.epilog = EXAMPLES
    parser.add_argument(
        "-n",
        "--number",
        metavar="N",
        type=int,
        default=USUALLY_SHOWN,
        help=f"how many (default {USUALLY_SHOWN}; 0: all)",
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    if arguments.number < 0:
        raise usage("-n is 0 or more", hint="`holdfast log -n 0` lists all of them.")
    workspace = get_workspace(console)
    note_if_missing(console, workspace)
    namespace = workspace.namespace
    timeline = namespace.timeline(limit=arguments.number or None)
    position = _position(namespace)
    console.answer(
        document=lambda: {
            "namespace": namespace.name,
            "position_id": position,
            "snapshots": [snapshot_view(snapshot) for snapshot in timeline],
        },
        lines=lambda: _lines(console, timeline, position),
    )
    return DONE


def _position(namespace: "holdfast.Namespace") -> str | None:
    try:
        return namespace.get_snapshot("@").id
    except NotFound:
        return None


def _lines(
    console: Console, timeline: Sequence["holdfast.SnapshotInfo"], position: str | None
) -> Iterator[str]:
    if not timeline:
        yield "No snapshot yet."
    for snapshot in timeline:
        mark = "@" if snapshot.id == position else " "
        name = console.paint(words.short(snapshot.id), "cyan")
        marks = "".join(
            word
            for word, is_so in ((" PARTIAL", snapshot.is_partial), (" pinned", snapshot.pinned))
            if is_so
        )
        about = snapshot.label or snapshot.reason or ""
        if not about and snapshot.target is not None:
            about = f"to {words.short(snapshot.target)}"
        line = f"{mark} {name}  {words.local(snapshot.created_at)}  {snapshot.kind.value:<8}  "
        yield f"{line}{shown(about)}{marks}".rstrip()
