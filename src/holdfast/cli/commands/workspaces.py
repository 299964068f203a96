"""`holdfast workspaces`: the attached directories of the vault."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_vault
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.cli.views import instant, path_view
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast workspaces              which directories does the vault know?
  holdfast detach DIR              take one off the list; its history stays
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Lists the attached directories of the vault."
    parser.epilog = EXAMPLES


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    del arguments
    attached = get_vault(console).workspaces()
    console.answer(
        document=lambda: {
            "vault": console.location_text(),
            "workspaces": [
                {
                    **path_view(str(each.path)),
                    "namespace": each.namespace,
                    "attached_at": instant(each.attached_at),
                    "exists": os.path.isdir(each.path),
                }
                for each in attached
            ],
        },
        lines=lambda: _lines(console, attached),
    )
    return DONE


def _lines(console: Console, attached: Sequence["holdfast.Attachment"]) -> Iterator[str]:
    if not attached:
        yield "No directory is attached: `holdfast init` attaches the one that you are in."
    width = max((len(escaped(each.namespace)) for each in attached), default=0)
    for each in attached:
        missing = "" if os.path.isdir(each.path) else console.paint("  (not there)", "yellow")
        when = words.local(each.attached_at)
        yield f"{escaped(each.namespace):<{width}}  {when}  {escaped(str(each.path))}{missing}"
