"""`holdfast snapshot`: keeps the directory as it is now."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, PARTIAL
from holdfast.cli.snapshots import add_note, note_of, snapshot_view
from holdfast.cli.views import coverage_view, find_coverage, gave_way_view

EXAMPLES = """\
examples:
  holdfast snapshot                            keep this moment
  holdfast snapshot -m "before the refactor"   with a label
  ID=$(holdfast snapshot -q)                   the id alone
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Keeps the directory as it is now. Exits with 6 if it is partial."
    parser.epilog = EXAMPLES
    add_note(parser)


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    workspace = get_workspace(console)
    with console.progress() as progress:
        snapshot = workspace.snapshot(**note_of(arguments), progress=progress)
    coverage = find_coverage(snapshot)
    for line in words.unread_lines(coverage):
        console.note(line)
    console.answer(
        document=lambda: {
            **snapshot_view(snapshot),
            **gave_way_view(snapshot),
            "coverage": coverage_view(coverage),
        },
        lines=lambda: [snapshot.id] if console.is_quiet else _lines(console, snapshot),
    )
    return PARTIAL if snapshot.is_partial else DONE


def _lines(console: Console, snapshot: "holdfast.SnapshotInfo") -> Iterator[str]:
    pinned = ", pinned" if snapshot.pinned else ""
    yield f"Snapshot {words.titled(snapshot)}{pinned}"
    coverage = find_coverage(snapshot)
    if coverage is not None:
        yield words.coverage_line(coverage)
        yield from words.excluded_lines(coverage)
        yield from words.omission_lines(console, coverage)
        yield from words.partial_lines(console, coverage)
    yield from words.gave_way_lines(snapshot)
