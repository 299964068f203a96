"""Which copy of a vault a backup is of: a vault that was made of a backup is another one.

Both have the same name, and packs of the same names: nothing else tells a copy that was made to
try a backup out from the vault that people work with. So a copy notes when it was made, and its
backups say so (`reinstated_at`). Every vault notes the seals of the backups that it has made, one
for each place, and a copy the seal of that which it was made of. A backup goes over one that the
same copy has made, or one whose seal it knows: all that is in there was in this copy, too. Over
any other it would destroy what this copy never had. Clocks are not asked: they go wrong.
"""

from contextlib import suppress
from datetime import datetime
from typing import Final

from holdfast.engine.backups.manifest import Manifest
from holdfast.engine.core.context import Context
from holdfast.errors import HoldfastError

_OWN: Final = "reinstated"
"""Under this name the catalog has when this copy was made; nothing, if it is the first."""


def chores_of(manifest: Manifest, *, now: datetime) -> dict[str, datetime]:
    """Returns what the catalog of a copy notes that is made of a backup now."""
    return {_OWN: now, _of(manifest): manifest.made_at}


def find_copy(context: Context) -> datetime | None:
    """Returns when this copy of the vault was made of a backup; None for the first."""
    with context.catalog.read() as transaction:
        return transaction.find_chore(_OWN)


def is_before(manifest: Manifest, context: Context) -> bool:
    """Says whether a backup holds nothing that this copy has not had."""
    with context.catalog.read() as transaction:
        is_own = manifest.copied_at == transaction.find_chore(_OWN)
        return is_own or transaction.find_chore(_of(manifest)) is not None


def note(manifest: Manifest, context: Context, *, over: Manifest | None) -> None:
    """Notes a backup that was just made, for copies to know it; forgets that which was there.

    Where there is no room for it, the backup is as good: only copies will not go over it unasked.
    """
    with suppress(HoldfastError), context.catalog.write() as transaction:
        if over is not None:
            transaction.drop_chore(_of(over))
        transaction.set_chore(_of(manifest), done_at=manifest.made_at)


def _of(manifest: Manifest) -> str:
    """Returns the name under which the catalog has a backup that holds nothing else."""
    return f"backed up {manifest.seal}"
