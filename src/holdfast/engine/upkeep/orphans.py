"""Rows of the catalog that refer to a row that is not there: named, put right, or let go of.

They are nobody's, so whoever verifies finds all of them. They are never noted as known: a database
takes no copy of them, so no backup could be brought back.
"""

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.errors import Conflict, Damaged
from holdfast.model.upkeep import Fault, Lost

WHAT = "rows of nobody"
"""What a fault of such rows is called."""

_LOST_TENANT = (
    "The row of a tenant is lost, or another stands in it. `repair` puts that right where it can; "
    "if this is there after it, bring back the last backup: it keeps the namespaces as they are."
)


def find_orphan_faults(context: Context) -> list[Fault]:
    """Returns a fault for each table with such rows. Whoever asks knows that indexes are sound."""
    try:
        with context.catalog.read() as transaction:
            return [
                Fault(WHAT, each.said, hint=_LOST_TENANT if each.table == "namespaces" else "")
                for each in transaction.find_orphans()
            ]
    except Damaged:
        return []  # Rows that cannot be read are named by whoever looks at them.


def bring_orphans_home(context: Context) -> int:
    """Has rows refer again to what they referred to, where that is told; returns how many."""
    count = 0
    with context.catalog.read() as transaction:
        homes = [*transaction.homes_of_orphans()]
    for table, stray, home in homes:
        try:
            with context.catalog.write() as transaction:
                count += transaction.move_orphans(table, stray=stray, home=home)
        except Conflict:
            continue  # In its place is another row by now.
    return count


def drop_orphans(context: Context) -> list[Lost]:
    """Lets go of such rows; returns what is lost by that.

    Nothing goes while the row that it belongs to is there under another number: who brings that
    back has all of it.
    """
    with context.catalog.read() as transaction:
        if not transaction.find_orphans() or _has_moved(transaction):
            return []
    with context.catalog.write() as transaction:
        return [Lost(each.said, None, ("the catalog",)) for each in transaction.drop_orphans()]


def _has_moved(transaction: Transaction) -> bool:
    tenants = transaction.sort_tenants()
    if tenants.damaged:
        return True
    return any(transaction.has_moved(each.id) for each in tenants.sound)
