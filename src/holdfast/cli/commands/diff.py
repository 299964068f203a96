"""`holdfast diff`: what differs between two moments, as git writes it."""

import os
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.cli.folding import Folder, folded
from holdfast.cli.moments import HELP, find_id
from holdfast.cli.places import check_there, paths_from_here
from holdfast.cli.views import changes_view
from holdfast.errors import SnapshotNotFound

EXAMPLES = """\
examples:
  holdfast diff                    from the last snapshot to the directory as it is
  holdfast diff @-1                from the snapshot before that
  holdfast diff snap-k3v7 latest   between two snapshots
  holdfast diff @{yesterday}       from where it stood a day ago
  holdfast diff --path 'src/*.py'  of some files
  holdfast diff --stat             names and sizes
  holdfast diff --word-diff        word by word
  holdfast diff @-1 > work.patch   for `git apply work.patch` or `patch -p1 < work.patch`
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Shows what differs between two moments."
    parser.epilog = EXAMPLES
    parser.add_argument("old", nargs="?", metavar="A", help=f"from here: {HELP} (default: @)")
    parser.add_argument("new", nargs="?", metavar="B", help="to here (default: as it is now)")
    parser.add_argument(
        "--path",
        metavar="GLOB",
        nargs="+",
        action="extend",
        dest="paths",
        help="only these files, what lies in these directories, or what matches, from here",
    )
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--stat", action="store_true", help="names and sizes instead of text")
    ways.add_argument("--name-only", action="store_true", help="names alone")
    ways.add_argument("--word-diff", action="store_true", help="compare lines word by word")


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    workspace = get_workspace(console)
    named, now = workspace.namespace, console.clock()
    try:
        moments = find_id(named, arguments.old, now=now), find_id(named, arguments.new, now=now)
    except SnapshotNotFound as exc:
        _hint_at_files(exc, console, arguments)
        raise
    paths = paths_from_here(console, workspace, arguments.paths)
    if not (arguments.stat or arguments.name_only or console.is_json):
        patches = workspace.patches(*moments, paths=paths)
        if not patches:
            check_there(console, workspace, arguments.paths, moments)
        console.page(_patch_lines(console, patches, word_by_word=arguments.word_diff))
        return DONE
    changes = workspace.diff(*moments, paths=paths)
    if not changes:
        check_there(console, workspace, arguments.paths, moments)

    def lines() -> Iterator[str]:
        if arguments.name_only:
            yield from (words.local_name(console, change) for change in changes)
        else:
            yield from words.change_lines(console, changes, most=None)
            yield changes.summary()

    console.answer(document=lambda: changes_view(changes), lines=lines)
    return DONE


def _hint_at_files(error: SnapshotNotFound, console: Console, arguments: Namespace) -> None:
    """Says with an error how files are named, if there is one in the place of a snapshot."""
    said = [each for each in (arguments.old, arguments.new) if each is not None]
    moments = [each for each in said if not os.path.lexists(console.resolve(each))]
    files = [each for each in said if each not in moments]
    if files:
        typed = shlex.join(["holdfast", "diff", *moments, "--path", *files])
        error.with_hint(f"Files are named after --path: `{typed}`.")


def _patch_lines(
    console: Console, patches: "Sequence[holdfast.Patch]", *, word_by_word: bool
) -> Iterator[str]:
    """Yields a patch: all of it, but to a person what programs made by folder, and last.

    To a program, without what would make git refuse all the rest.
    """
    from holdfast.cli.patches import is_for_git, is_whole, lines_of  # noqa: PLC0415 - not for a list of names

    refused = list["holdfast.Patch"]()
    if not (console.is_terminal or word_by_word):
        refused = [patch for patch in patches if not is_for_git(patch)]
        patches = [patch for patch in patches if is_for_git(patch)]
    by_change = {id(patch.change): patch for patch in patches}
    rows: Sequence[holdfast.Change | Folder] = [patch.change for patch in patches]
    if console.is_terminal and not console.is_verbose:
        rows = folded((patch.change for patch in patches), most=len(patches))
    for row in rows:
        if isinstance(row, Folder):
            more = "`-v` shows it" if console.below else "`--path` or `-v` shows it"
            yield console.paint(f"{words.folder_text(console, row)}: {more}", "dim")
        else:
            yield from lines_of(console, by_change[id(row)], word_by_word=word_by_word)
    lost = [patch.change for patch in patches if not is_whole(patch)]
    if lost and not console.is_terminal:
        files = words.number(len(lost), "file")
        console.note(f"{files} too large for a patch, such as {words.plane_name(lost[0])}")
    if refused:
        paths, one = words.number(len(refused), "path"), words.plane_name(refused[0].change)
        console.note(f"left out {paths} that git refuses in a patch, such as {one}: see `--stat`")
