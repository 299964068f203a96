"""`holdfast forget`: takes old snapshots off the timeline."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.cli.snapshots import snapshot_view
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast forget --dry-run                  what has expired?
  holdfast forget --keep-last 20             all but the newest 20
  holdfast forget --keep-daily 7 --keep-weekly 4

Pinned snapshots, what the directory stands on and what undo and redo need always stay.
`holdfast gc` then gives the bytes back.
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Takes snapshots off the timeline: what has expired, or what these rules do not keep."
    )
    parser.epilog = EXAMPLES
    for rule, what in (
        ("last", "the newest N"),
        ("daily", "the newest of each of N days"),
        ("weekly", "the newest of each of N weeks"),
    ):
        parser.add_argument(f"--keep-{rule}", metavar="N", type=int, default=0, help=f"keep {what}")
    parser.add_argument("--dry-run", action="store_true", help="say what would go, do nothing")


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    namespace = get_workspace(console).namespace
    policy = holdfast.Policy(
        keep_last=arguments.keep_last,
        keep_daily=arguments.keep_daily,
        keep_weekly=arguments.keep_weekly,
    )
    gone = namespace.forget(policy=policy if policy.is_set else None, dry_run=arguments.dry_run)
    console.answer(
        document=lambda: {
            "dry_run": arguments.dry_run,
            "forgotten": [snapshot_view(snapshot) for snapshot in gone],
        },
        lines=lambda: _lines(console, gone, is_dry=arguments.dry_run),
    )
    return DONE


def _lines(
    console: Console, gone: Sequence["holdfast.SnapshotInfo"], *, is_dry: bool
) -> Iterator[str]:
    if console.is_quiet and not is_dry:
        return
    verb = "Would forget" if is_dry else "Forgot"
    yield f"{verb} {words.number(len(gone), 'snapshot')}" + ("." if not gone else ":")
    for snapshot in gone:
        about = escaped(snapshot.label or snapshot.reason or "")
        line = f"  {words.short(snapshot.id)}  {words.local(snapshot.created_at)}  {about}"
        yield line.rstrip()
    if gone and not is_dry:
        yield "`holdfast gc` gives their bytes back."
