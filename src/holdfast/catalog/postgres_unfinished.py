"""What says of a schema in PostgreSQL that no vault is in it yet: a backup is being brought back.

It is a table of its own, `holdfast.reinstating`, with one row. It is there before anything else of
the new vault is, anywhere, and goes when all of that was proven, and what had to be erased is gone.
Whoever opens the catalog meanwhile is refused: so what is marked was never used by anybody, and may
be cleared by whoever brings a backup back there next.
"""

from typing import Final

from holdfast.catalog.postgres_reach import Connection
from holdfast.errors import VaultUnfinished
from holdfast.model.upkeep import Unfinished

_FIND: Final = "SELECT to_regclass('holdfast.reinstating') IS NOT NULL"
_READ: Final = "SELECT place, said FROM holdfast.reinstating"
_MAKE: Final = "CREATE TABLE holdfast.reinstating (place TEXT NOT NULL, said TEXT NOT NULL)"
_WRITE: Final = "INSERT INTO holdfast.reinstating (place, said) VALUES (%s, %s)"
_REMOVE: Final = "DROP TABLE holdfast.reinstating"


def find_unfinished(connection: Connection) -> Unfinished | None:
    """Returns what is marked in a database; None if nothing is."""
    if connection.execute(_FIND).fetchone() != (True,):
        return None
    row = connection.execute(_READ).fetchone()
    return None if row is None else Unfinished(*row)


def check_finished(connection: Connection, ours: Unfinished | None = None) -> None:
    """Raises `VaultUnfinished` if a backup is being brought back there, other than by ourselves."""
    found = find_unfinished(connection)
    if found is not None and found != ours:
        raise VaultUnfinished("the catalog in the database")


def mark_unfinished(connection: Connection, unfinished: Unfinished) -> None:
    """Marks a schema that was just made. Whoever calls commits."""
    connection.execute(_MAKE)
    connection.execute(_WRITE, (unfinished.place, unfinished.said))


def unmark(connection: Connection) -> None:
    """Says that a vault is there from now on. Whoever calls commits."""
    connection.execute(_REMOVE)
