"""`holdfast namespaces`: all namespaces of the vault at a glance, and where each is."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_vault
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.cli.views import instant, path_view
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast namespaces              all of them
  holdfast namespaces shop-        those whose names begin so
  holdfast namespaces -v           with what is known of each
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One namespace."""

    glance: "holdfast.NamespaceOverview"
    path: str | None
    """The directory that is attached to it."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.glance.namespace

    @property
    def size(self) -> "holdfast.Size":
        """How much its newest state holds."""
        return self.glance.size


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
    """Returns namespaces with what is known of each at a glance."""
    paths = {each.namespace: str(each.path) for each in vault.workspaces()}
    return [Row(each, paths.get(each.namespace)) for each in vault.overview(prefix=prefix)]


def view_of(row: Row) -> dict[str, object]:
    """Returns one namespace as a JSON object."""
    where = None if row.path is None else path_view(row.path)
    glance = row.glance
    latest, running = glance.latest, glance.running
    return {
        "namespace": row.name,
        "entries": row.size.entries,
        "bytes": row.size.bytes,
        "directory": where,
        "created_at": instant(glance.created_at),
        "forked_from": glance.forked_from,
        "snapshots": glance.snapshots,
        "latest": None
        if latest is None
        else {
            "id": latest.id,
            "number": latest.number,
            "kind": latest.kind.value,
            "label": latest.label,
            "actor": latest.actor,
            "created_at": instant(latest.created_at),
        },
        "is_dirty": glance.dirty,
        "running_tasks": glance.running_tasks,
        "running": None if running is None else {"id": running.id, "name": running.name},
        "rollbacks": glance.rollbacks,
        "rate": glance.rate,
        "level": glance.level.value,
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
        if console.is_verbose:
            yield from (f"  {said}" for said in _said(console, row.glance))


def _said(console: Console, glance: "holdfast.NamespaceOverview") -> Iterator[str]:
    """Yields what is known of a namespace, where there is something to say."""
    if glance.forked_from is not None:
        yield f"forked from {escaped(glance.forked_from)}"
    latest = glance.latest
    if latest is not None:
        title = words.short(latest.id) if latest.label is None else f'"{escaped(latest.label)}"'
        by = "" if latest.actor is None else f" by {escaped(latest.actor)}"
        when = words.ago(latest.created_at, console.clock())
        yield f"{words.number(glance.snapshots, 'snapshot')}, the last {title}, {when}{by}"
    if glance.dirty:
        yield "changes that are in no snapshot yet"
    if glance.running is not None:
        many = words.number(glance.running_tasks, "running task")
        yield f"{many}, the last of them {escaped(glance.running.name)}"
    if glance.rollbacks:
        many = words.number(glance.rollbacks, "rollback")
        yield f"{many} in 24 hours, a rate of {glance.rate:.1%}: {glance.level.value}"
