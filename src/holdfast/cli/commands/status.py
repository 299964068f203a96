"""`holdfast status`: what has changed since the last snapshot, and what is covered."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.cli.places import check_there, paths_from_here
from holdfast.cli.snapshots import snapshot_view
from holdfast.cli.views import agreed_view, changes_view, coverage_view, path_view
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast status                  what has changed
  holdfast status src              in a directory, or of a file
  holdfast status -v               all of it, and what is left out
  holdfast status --json           for programs
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Shows what has changed since the last snapshot. Stores nothing."
    parser.epilog = EXAMPLES
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="only these files, what lies in these directories, or what matches, from here",
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    workspace = get_workspace(console)
    status = workspace.status()
    if arguments.paths:
        status = _narrowed(console, workspace, status, arguments.paths)
    for line in words.unread_lines(status.coverage):
        console.note(line)
    console.answer(
        document=lambda: {
            **path_view(str(status.path)),
            "namespace": status.namespace,
            "head": None if status.head is None else snapshot_view(status.head),
            "is_dirty": len(status.changes) + status.coverage.newly_excluded > 0,
            **changes_view(status.changes),
            "coverage": coverage_view(status.coverage),
            "recovered": status.recovered,
            "agreed": None if status.agreed is None else agreed_view(status.agreed),
        },
        lines=lambda: _lines(console, status),
    )
    return DONE


def _narrowed(
    console: Console, workspace: "holdfast.Workspace", status: "holdfast.Status", paths: list[str]
) -> "holdfast.Status":
    """Returns how the directory stands, with the changes of some files alone."""
    from msgspec.structs import replace  # noqa: PLC0415 - most ask for all of it

    from holdfast.engine.timeline.selection import path_filter  # noqa: PLC0415 - as above

    wanted = paths_from_here(console, workspace, paths)
    if wanted is None or "." in wanted:
        return status
    selects = path_filter(wanted)
    found = [c for c in status.changes if c.plane.value == "files" and selects(c.key)]
    if not found:
        check_there(console, workspace, paths, ("@",))
    return replace(status, changes=holdfast.Changes(found))


def _lines(console: Console, status: "holdfast.Status") -> Iterator[str]:
    path = console.paint(escaped(str(status.path)), "bold")
    yield f"{path}  namespace {escaped(status.namespace)}"
    if status.head is None:
        yield "No snapshot yet: `holdfast snapshot` takes the first."
    else:
        when = words.ago(status.head.created_at, console.clock())
        partial = console.paint(" PARTIAL", "red") if status.head.is_partial else ""
        yield f"at {words.titled(status.head)}, {when}{partial}"
    if len(status.changes) == 0 and not status.coverage.newly_excluded:
        yield "Nothing has changed."
    elif len(status.changes):
        total = words.number(len(status.changes), "change")
        yield f"{total}: {status.changes.summary()}"
        yield from words.change_lines(console, status.changes)
    yield from words.excluded_lines(status.coverage)
    yield words.coverage_line(status.coverage)
    yield from words.omission_lines(console, status.coverage)
    if status.coverage.is_partial:
        yield console.paint("A snapshot taken now would be PARTIAL.", "red")
