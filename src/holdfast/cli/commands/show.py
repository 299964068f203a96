"""`holdfast show`: one snapshot, and what it changed."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace, note_if_missing
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.cli.moments import add_moment, id_of
from holdfast.cli.snapshots import fields_of, snapshot_view
from holdfast.cli.views import (
    changes_view,
    coverage_view,
    find_coverage,
    find_lacking,
    path_view,
)
from holdfast.errors import NotFound
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast show latest             the newest snapshot
  holdfast show snap-k3v7          by the beginning of its id
  holdfast show @-1                the one before where the directory stands
  holdfast show "it works"         by its label
"""


_NO_CHANGES = {"changes": None, "truncated": False, "counts": None}
"""Of the first snapshot, or where the one before it is gone."""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Shows one snapshot, and what it changed."
    parser.epilog = EXAMPLES
    add_moment(parser)


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    workspace = get_workspace(console)
    note_if_missing(console, workspace)
    snapshot = workspace.namespace.get_snapshot(
        id_of(workspace.namespace, arguments.id, now=console.clock())
    )
    changes = _changes(workspace, snapshot)
    coverage, lacking = find_coverage(snapshot), find_lacking(snapshot)
    console.answer(
        document=lambda: {
            **snapshot_view(snapshot),
            "coverage": coverage_view(coverage),
            "uncaptured": [path_view(path) for path in lacking.uncaptured],
            "in_motion": [path_view(path) for path in lacking.in_motion],
            **(_NO_CHANGES if changes is None else changes_view(changes)),
        },
        lines=lambda: _lines(console, snapshot, coverage, changes),
    )
    return DONE


def _changes(
    workspace: "holdfast.Workspace", snapshot: "holdfast.SnapshotInfo"
) -> "holdfast.Changes | None":
    """Returns what the snapshot changed; None for the first, or if the one before is gone."""
    if snapshot.parent is None:
        return None
    try:
        return workspace.namespace.diff(snapshot.parent, snapshot)
    except NotFound:
        return None


def _lines(
    console: Console,
    snapshot: "holdfast.SnapshotInfo",
    coverage: "holdfast.Coverage | None",
    changes: "holdfast.Changes | None",
) -> Iterator[str]:
    partial = console.paint("  PARTIAL", "red") if snapshot.is_partial else ""
    yield f"{console.paint(snapshot.id, 'cyan')}  {snapshot.kind.value}{partial}"
    for name, value in fields_of(snapshot):
        if value:
            yield f"  {name:<9}{escaped(value)}"
    if coverage is not None:
        yield f"  {'coverage':<9}{words.coverage_line(coverage)}"
        yield from words.omission_lines(console, coverage)
        yield from (f"  {line}" for line in words.unread_lines(coverage))
    else:
        lacking = find_lacking(snapshot)
        yield from words.lacking_lines(console, lacking, is_kept=True)
        if lacking.is_unnamed:
            yield console.paint(f"  not captured: {words.UNNAMED}", "red")
    if changes is None:
        return
    yield f"Changed since {words.short(snapshot.parent or '')}: {changes.summary()}"
    yield from words.change_lines(console, changes)
