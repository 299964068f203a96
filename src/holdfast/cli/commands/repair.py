"""`holdfast repair`: rebuilds what is damaged, and names what is lost."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Final

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_vault
from holdfast.cli.console import Console
from holdfast.cli.exits import DAMAGED, DONE
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast repair                      from other packs, and from the attached directories
  holdfast repair --from /mnt/backup   and from a copy of the vault, or what is left of one
"""

LISTED: Final = 20
"""Snapshots that one line names; JSON has them all."""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Rebuilds what is damaged or lost from wherever its bytes are still to be had, and names "
        "what is nowhere, with the snapshots that lack it. Deletes no bytes of the vault, but for "
        "changes that are damaged and in no snapshot yet: those are named, too, and what the last "
        "snapshot has is there again. Exits with 0 if all is whole, with 5 if something stays lost."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--from",
        dest="places",
        action="append",
        default=[],
        metavar="PATH",
        help="another vault, a copy of this one, or any directory with packs; may be repeated",
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    vault = get_vault(console)
    with console.progress() as progress:
        places = [console.resolve(place) for place in arguments.places]
        done = vault.repair(places=places, progress=progress)
    console.answer(document=lambda: _document(done), lines=lambda: _lines(console, done))
    return DONE if done.ok else DAMAGED


def _lines(console: Console, done: "holdfast.Repaired") -> Iterator[str]:
    if not console.is_quiet:
        if done.rebuilt or done.misplaced or done.replaced:
            yield (
                f"Rebuilt {words.number(done.rebuilt, 'object')}, found "
                f"{words.number(done.misplaced, 'object')} elsewhere, replaced "
                f"{words.number(len(done.replaced), 'damaged pack')}."
            )
        if done.mended:
            rows = words.number(done.mended, "row")
            yield f"Put a flipped bit back in {rows} of the catalog."
        if done.reindexed:
            places = words.number(done.reindexed, "place")
            yield f"Made indexes of the catalog anew: {places} did not agree with its rows."
        if done.ok:
            yield "All is whole."
    if done.ok:
        return
    yield console.paint(f"LOST: {words.number(len(done.lost), 'part')}", "red")
    for lost in done.lost:
        needed = ", ".join(lost.snapshots[:LISTED])
        more = len(lost.snapshots) - LISTED
        yield escaped(
            f"  {lost.what}: lacking in {needed}{f' and {more} more' if more > 0 else ''}"
        )
    for pack in done.damaged:
        yield f"  {escaped(pack)} stays as it is: put it back from a copy, or use --from"


def _document(done: "holdfast.Repaired") -> dict[str, object]:
    return {
        "ok": done.ok,
        "rebuilt": done.rebuilt,
        "misplaced": done.misplaced,
        "mended": done.mended,
        "reindexed": done.reindexed,
        "replaced": list(done.replaced),
        "damaged": list(done.damaged),
        "lost": [
            {
                "what": lost.what,
                "object_id": None if lost.object_id is None else lost.object_id.hex(),
                "snapshots": list(lost.snapshots),
            }
            for lost in done.lost
        ],
    }
