"""`holdfast gc`: gives back the bytes that nothing needs any more."""

from argparse import ArgumentParser, Namespace

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_vault
from holdfast.cli.console import Console
from holdfast.cli.exits import DAMAGE_HINT, DAMAGED, DONE
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast forget --keep-last 20
  holdfast gc                      the bytes of what was forgotten
  holdfast gc --now                the disk is full: all of it, and at once

Bytes that nothing needs any more stay for a day: a copy of the catalog that is brought back may
still name them. --now gives them back at once, and with them the way back to any older copy of
the catalog. What is on a timeline is never touched.
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Applies retention to every attached directory of the vault, then gives back the bytes "
        "that nothing needs any more. Exits with 5 if a pack could not be read."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--now",
        action="store_true",
        help="give back at once what is kept for an older catalog that is brought back: "
        "after this there is no way back to one",
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    vault = get_vault(console)
    with console.progress() as progress:
        collected = vault.collect(now=arguments.now, progress=progress)
    console.answer(document=lambda: _document(collected), lines=list)
    console.say(
        f"Freed {words.size(max(0, collected.bytes_freed))} in "
        f"{words.number(collected.objects_deleted, 'object')}; "
        f"{words.size(collected.bytes_after - collected.bytes_retired)} are in use."
    )
    if collected.bytes_retired:
        console.say(
            f"{words.size(collected.bytes_retired)} more are kept for a while, in case an older "
            "copy of the catalog is brought back; --now gives them up."
        )
    for pack in collected.damaged:
        console.complain(
            f"holdfast: {escaped(pack)}: it could not be read, and what it may need was left alone"
        )
    if collected.damaged:
        console.complain(f"  {DAMAGE_HINT}")
    vault.erasures.finish()
    return DAMAGED if collected.damaged else DONE


def _document(collected: "holdfast.Collected") -> dict[str, object]:
    return {
        "objects_deleted": collected.objects_deleted,
        "packs_deleted": collected.packs_deleted,
        "bytes_before": collected.bytes_before,
        "bytes_after": collected.bytes_after,
        "bytes_freed": collected.bytes_freed,
        "bytes_retired": collected.bytes_retired,
        "damaged": list(collected.damaged),
    }
