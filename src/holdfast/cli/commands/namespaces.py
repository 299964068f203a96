"""`holdfast namespaces`: the namespaces of the vault, with what each holds and where it is."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_vault
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.cli.views import path_view
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast namespaces              all of them
  holdfast namespaces shop-        those whose names begin so
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One namespace."""

    name: str
    size: "holdfast.Size"
    path: str | None
    """The directory that is attached to it."""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Lists the namespaces of the vault."
    parser.epilog = EXAMPLES
    parser.add_argument(
        "prefix", nargs="?", default="", metavar="PREFIX", help="only those that begin so"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    rows = rows_of(get_vault(console), prefix=arguments.prefix)
    console.answer(
        document=lambda: {
            "vault": console.location_text(),
            "namespaces": [view_of(row) for row in rows],
        },
        lines=lambda: _lines(console, rows),
    )
    return DONE


def rows_of(vault: "holdfast.Holdfast", *, prefix: str = "") -> list[Row]:
    """Returns namespaces with how much the newest state of each holds."""
    paths = {each.namespace: str(each.path) for each in vault.workspaces()}
    return [
        Row(name, vault.namespace(name).size(), paths.get(name))
        for name in vault.namespaces(prefix=prefix)
    ]


def view_of(row: Row) -> dict[str, object]:
    """Returns one namespace as a JSON object."""
    where = None if row.path is None else path_view(row.path)
    return {
        "namespace": row.name,
        "entries": row.size.entries,
        "bytes": row.size.bytes,
        "directory": where,
    }


def _lines(console: Console, rows: Sequence[Row]) -> Iterator[str]:
    if not rows:
        yield "There is none."
    width = max((len(escaped(row.name)) for row in rows), default=0)
    for row in rows:
        many = words.number(row.size.entries, "entry", "entries")
        where = "" if row.path is None else console.paint(escaped(row.path), "dim")
        line = f"{escaped(row.name):<{width}}  {words.size(row.size.bytes):>9}  {many:<14}  {where}"
        yield line.rstrip()
