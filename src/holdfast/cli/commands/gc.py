"""`holdfast gc`: gives back the bytes that nothing needs any more."""

from argparse import ArgumentParser, Namespace

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_vault
from holdfast.cli.console import Console
from holdfast.cli.exits import DAMAGED, DONE
from holdfast.cli.shown import shown

EXAMPLES = """\
examples:
  holdfast forget --keep-last 20
  holdfast gc                      the bytes of what was forgotten
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Applies retention to every attached directory of the vault, then gives back the bytes "
        "that nothing needs any more. Exits with 5 if a pack could not be read."
    )
    parser.epilog = EXAMPLES


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    del arguments
    vault = get_vault(console)
    with console.progress() as progress:
        collected = vault.collect(progress=progress)
    console.answer(document=lambda: _document(collected), lines=list)
    console.say(
        f"Freed {words.size(max(0, collected.bytes_freed))} in "
        f"{words.number(collected.objects_deleted, 'object')}; "
        f"{words.size(collected.bytes_after)} are in use."
    )
    for pack in collected.damaged:
        console.complain(f"holdfast: {shown(pack)} could not be read and was left alone")
    return DAMAGED if collected.damaged else DONE


def _document(collected: "holdfast.Collected") -> dict[str, object]:
    return {
        "objects_deleted": collected.objects_deleted,
        "packs_deleted": collected.packs_deleted,
        "bytes_before": collected.bytes_before,
        "bytes_after": collected.bytes_after,
        "bytes_freed": collected.bytes_freed,
        "damaged": list(collected.damaged),
    }
