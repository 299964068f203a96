"""`holdfast restore`: brings a snapshot back, whole or in part, here or elsewhere."""

from argparse import ArgumentParser, Namespace

from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import usage
from holdfast.cli.moments import add_moment, id_of
from holdfast.cli.places import names_from_here, paths_from_here
from holdfast.cli.restored import most_listed, tell

EXAMPLES = """\
examples:
  holdfast restore latest                    as the newest snapshot has it
  holdfast restore snap-k3v7 --dry-run       what would change?
  holdfast restore @-1 --path 'src/*'        some files of an earlier moment
  holdfast restore @-1 --name 'x[1].txt'     one file, to the letter
  holdfast restore @-1 --except notes.md     all but one file
  holdfast restore @{yesterday}              as it stood a day ago
  holdfast restore "before the rewrite"      by its label
  holdfast restore snap-k3v7 --keep-mine     take back what tasks did since, and nothing else
  holdfast restore snap-k3v7 --to ../copy    into a new directory

What is there before is kept as a snapshot first: `holdfast undo` takes a restore back.
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Brings a snapshot back; what was there is kept first."
    parser.epilog = EXAMPLES
    add_moment(parser)
    parser.add_argument(
        "--path",
        metavar="GLOB",
        nargs="+",
        action="extend",
        dest="paths",
        help="only these files, what lies in these directories, or what matches",
    )
    parser.add_argument(
        "--name",
        metavar="FILE",
        nargs="+",
        action="extend",
        dest="names",
        help="only these files and what lies in these directories; never read as patterns",
    )
    parser.add_argument(
        "--except",
        metavar="FILE",
        nargs="+",
        action="extend",
        dest="excepted",
        help="leave these files, and what lies in these directories, as they are",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would change, do nothing")
    parser.add_argument(
        "--force", action="store_true", help="give up what cannot be captured and is in the way"
    )
    parser.add_argument(
        "--refuse-drift",
        action="store_true",
        help="stop with exit code 4 if anything is in no snapshot yet",
    )
    parser.add_argument(
        "--keep-mine",
        action="store_true",
        help="take back what tasks changed since; what anybody else changed stays",
    )
    parser.add_argument("--to", metavar="DIR", help="into this new or empty directory instead")


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    if arguments.to is not None:
        return _checkout(arguments, console)
    if arguments.keep_mine and _is_narrowed(arguments):
        raise usage(
            "--keep-mine is for a whole restore", hint="Leave --path, --name and --except out."
        )
    workspace = get_workspace(console)
    with console.progress() as progress:
        restored = workspace.restore(
            id_of(workspace.namespace, arguments.id, now=console.clock()),
            paths=paths_from_here(console, workspace, arguments.paths),
            names=names_from_here(console, workspace, arguments.names),
            except_=names_from_here(console, workspace, arguments.excepted),
            dry_run=arguments.dry_run,
            force=arguments.force,
            drift="refuse" if arguments.refuse_drift else "capture",
            keep="mine" if arguments.keep_mine else None,
            limit=most_listed(console),
            progress=progress,
        )
    return tell(
        console,
        restored,
        verb="Restored",
        dry_verb="Restoring",
        directory=workspace.path,
        way_back="holdfast undo",
    )


def _is_narrowed(arguments: Namespace) -> bool:
    return bool(arguments.paths or arguments.names or arguments.excepted)


def _checkout(arguments: Namespace, console: Console) -> int:
    narrowed = _is_narrowed(arguments) or arguments.keep_mine
    if narrowed or arguments.dry_run or arguments.force or arguments.refuse_drift:
        raise usage(
            "--to writes a whole snapshot into a new directory",
            hint="It goes with no other option: nothing there can be in the way.",
        )
    workspace = get_workspace(console)
    with console.progress() as progress:
        restored = workspace.checkout(
            id_of(workspace.namespace, arguments.id, now=console.clock()),
            console.resolve(arguments.to),
            progress=progress,
        )
    return tell(console, restored, verb="Wrote", to=console.resolve(arguments.to))
