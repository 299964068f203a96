"""`holdfast backup`: makes a second copy of the whole vault, and proves it."""

from argparse import ArgumentParser, Namespace

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_vault
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.cli.views import path_view
from holdfast.escaping import escaped
from holdfast.settingsfile import backup_key
from holdfast.wiring import said

EXAMPLES = """\
examples:
  holdfast backup /mnt/disk/backup       the vault; again later: what is new since
  holdfast backup s3://bucket/nightly    the same, in a bucket
  holdfast reinstate /mnt/disk/backup ~/vault

A backup holds all that the vault holds, and is as private. With HOLDFAST_BACKUP_KEY, or a file that
HOLDFAST_BACKUP_KEY_FILE names, it is encrypted. Nobody has to stop for it.
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Copies the whole vault as it is now, with every snapshot of every directory, to a "
        "directory on another disk, or to a bucket. Everything is hashed on the way; a vault that "
        "is damaged is not copied over a good backup, and the command exits with 5."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "target",
        metavar="PLACE",
        help="a directory or s3://BUCKET/PREFIX that is new, empty, or a backup of this vault",
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="also put it over a backup that another copy of this vault has made since",
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    target = console.resolve_place(arguments.target)
    key = said(backup_key, console.environ)
    with console.progress() as progress:
        vault, replace = get_vault(console), arguments.replace
        done = vault.backup(target, key=key, replace=replace, progress=progress)
    console.answer(document=lambda: _document(done), lines=list)
    console.say(
        f"Backed up {words.number(done.snapshots, 'snapshot')} of "
        f"{words.number(done.namespaces, 'namespace')} to {escaped(done.path)}: "
        f"{words.number(done.packs, 'pack')}, {words.number(done.packs_copied, 'pack')} new, "
        f"{words.size(done.bytes)}{', encrypted' if done.is_encrypted else ''}."
    )
    if done.is_beside:
        console.note("the packs of the vault are in the same bucket: who loses it loses both")
    for line in done.damage:
        console.say(f"  known to be lost, and not in it: {escaped(line)}")
    return DONE


def _document(done: "holdfast.BackedUp") -> dict[str, object]:
    return {
        **path_view(done.path),
        "made_at": done.made_at.isoformat(),
        "namespaces": done.namespaces,
        "snapshots": done.snapshots,
        "packs": done.packs,
        "packs_copied": done.packs_copied,
        "bytes": done.bytes,
        "is_first": done.is_first,
        "is_encrypted": done.is_encrypted,
        "is_beside": done.is_beside,
        "damage": list(done.damage),
    }
