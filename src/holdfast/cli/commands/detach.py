"""`holdfast detach`: lets go of an attached directory, and keeps its history."""

import shlex
from argparse import ArgumentParser, Namespace

import holdfast
from holdfast.cli import thin
from holdfast.cli.attached import get_vault, get_workspace
from holdfast.cli.background import end_watcher
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, NOT_FOUND, Refused, usage
from holdfast.cli.views import path_view
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast detach                  the directory that you are in
  holdfast detach ~/old            another one, there or not
  holdfast detach shop             by the name of its namespace

Nothing in the directory is touched, and all snapshots stay in the vault.
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Lets go of an attached directory. Its history stays in the vault."
    parser.epilog = EXAMPLES
    parser.add_argument(
        "which", nargs="?", metavar="DIR", help="a directory, or a namespace (default: this one)"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    location = console.location()
    chosen = _choose(arguments.which, console)
    directory, name = str(chosen.path), chosen.namespace
    folder = thin.run_folder(location)
    if folder is not None:
        end_watcher(folder, directory)
    # What was opened to find it is let go, before it is let go of.
    console.vaults.release()
    console.open_vault(location).detach(directory, on_recovery=console.tell_of_recovery)
    console.answer(
        document=lambda: {
            **path_view(directory),
            "namespace": name,
            "vault": console.location_text(location),
        },
        lines=lambda: [
            f"Detached {escaped(directory)}; its history stays in the vault.",
            f"`holdfast init --namespace {escaped(shlex.quote(name))}` attaches a directory to it.",
        ],
    )
    return DONE


def _choose(which: str | None, console: Console) -> "holdfast.Attachment":
    attached = get_vault(console).workspaces()
    if which is None:
        path = get_workspace(console).path
        return next(each for each in attached if each.path == path)
    directory = console.resolve(which)
    found = [each for each in attached if str(each.path) == directory]
    found += [each for each in attached if each.namespace == which and each not in found]
    if not found:
        raise Refused(
            f"{which} is neither an attached directory nor the namespace of one",
            code="not_attached",
            exit_code=NOT_FOUND,
            hint="`holdfast workspaces` lists them.",
        )
    if len(found) > 1:
        raise usage(
            f"{which} is the directory {found[0].path}, and the namespace of {found[1].path}",
            hint=f"`holdfast detach {shlex.quote(str(found[1].path))}` names the latter.",
        )
    return found[0]
