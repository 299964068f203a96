"""`holdfast fork`: a second timeline that goes on from here, or from an earlier moment."""

import shlex
from argparse import ArgumentParser, Namespace

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.cli.moments import HELP, find_id
from holdfast.cli.snapshots import snapshot_view
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast fork idea                 a second timeline that goes on from here
  holdfast fork idea --at @-3        or from an earlier moment
  holdfast switch idea               let the directory show it
  holdfast merge idea                bring back what was done there

A fork takes no room of its own, and the directory stays as it is.
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Makes a namespace that goes on from what is here now, or was before."
    parser.epilog = EXAMPLES
    parser.add_argument("name", metavar="NAME", help="what to call it")
    parser.add_argument("--at", metavar="ID", help=f"from here: {HELP} (default: as it is now)")


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    workspace = get_workspace(console)
    made = fork(console, workspace, arguments.name, at=arguments.at)
    first = made.get_snapshot("@")
    console.answer(
        document=lambda: {
            "namespace": made.name,
            "forked_from": workspace.namespace.name,
            "snapshot": snapshot_view(first),
        },
        lines=list,
    )
    holds = words.number(first.size.entries, "entry", "entries")
    console.say(f"Forked {escaped(made.name)}: {holds}.")
    console.say(f"`holdfast switch {escaped(shlex.quote(made.name))}` lets the directory show it.")
    return DONE


def fork(
    console: Console, workspace: "holdfast.Workspace", name: str, *, at: str | None
) -> "holdfast.Namespace":
    """Makes the fork; what is in the directory and in no snapshot is one first, and part of it."""
    namespace = workspace.namespace
    if at is None:
        _check_free(console.open_vault(console.location()), name)
        workspace.snapshot_if_changed(reason=f"before forking {name}")
    return namespace.fork(name, at=find_id(namespace, at, now=console.clock()))


def _check_free(vault: "holdfast.Holdfast", name: str) -> None:
    """Refuses a name that cannot be, or is taken, before anything is kept for it."""
    from holdfast.errors import NamespaceExists  # noqa: PLC0415 - for mistakes alone

    if vault.namespace(name).name in vault.namespaces(prefix=name):
        raise NamespaceExists(name)
