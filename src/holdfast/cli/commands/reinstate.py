"""`holdfast reinstate`: makes a vault of a backup, in an empty place, and proves it."""

from argparse import ArgumentParser, Namespace

import holdfast
from holdfast.cli import words
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.escaping import escaped
from holdfast.settingsfile import backup_key
from holdfast.wiring import said

EXAMPLES = """\
examples:
  holdfast reinstate /mnt/disk/backup ~/vault
  holdfast reinstate s3://bucket/nightly ~/vault
  holdfast reinstate /mnt/disk/backup postgresql://db/vault --objects /srv/packs

This makes a whole vault. To bring a snapshot back into a directory: `holdfast restore`.
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Makes a vault of a backup, in a directory or database that holds nothing yet. Every "
        "head and every snapshot is read to its last byte before the vault has its name. A "
        "backup that is incomplete or altered is refused: exit code 5, and nothing is made."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "backup", metavar="BACKUP", help="what `holdfast backup` has made: a directory or s3://…"
    )
    parser.add_argument("vault", metavar="VAULT", help="where the vault shall be")
    parser.add_argument(
        "--erased",
        metavar="CERTIFICATE",
        nargs="+",
        action="extend",
        default=[],
        help="erase again what these certificates of `holdfast erase` name",
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    given = arguments.vault
    location = console.resolve_place(given)
    objects = console.find_objects(location)
    with console.progress() as progress:
        done = holdfast.reinstate(
            console.resolve_place(arguments.backup),
            location,
            objects=objects,
            erased=[console.resolve(each) for each in arguments.erased],
            key=said(backup_key, console.environ),
            progress=progress,
        )
    console.answer(document=lambda: _document(done), lines=list)
    console.say(
        f"{escaped(console.location_text(given))} is a vault again, "
        f"as of {words.local(done.made_at)}: "
        f"{words.number(done.snapshots, 'snapshot')} of "
        f"{words.number(done.namespaces, 'namespace')}, "
        f"{words.number(done.objects, 'object')} hashed, every head and snapshot read."
    )
    for line in done.damage:
        console.say(f"  known to be lost before: {escaped(line)}")
    for outcome, names in (
        ("erased again, as it says", done.erased),
        ("erased before the backup was made", done.erased_before),
        ("matches nothing in this vault", done.unmatched),
    ):
        for name in names:
            console.say(f"  {escaped(name)}: {outcome}")
    if done.uncleared is not None:
        console.say(
            f"  {escaped(done.uncleared)}: what one that was killed has put there may be there "
            "still: clear it yourself"
        )
    return DONE


def _document(done: "holdfast.Reinstated") -> dict[str, object]:
    return {
        "made_at": done.made_at.isoformat(),
        "tenants": done.tenants,
        "namespaces": done.namespaces,
        "snapshots": done.snapshots,
        "packs": done.packs,
        "objects": done.objects,
        "bytes": done.bytes,
        "verified": True,
        "damage": list(done.damage),
        "erased": list(done.erased),
        "erased_before": list(done.erased_before),
        "unmatched": list(done.unmatched),
        "uncleared": done.uncleared,
    }
