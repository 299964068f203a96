"""What the engine asks of a catalog, and what a catalog promises.

1. A write transaction happens wholly or not at all, and once it has returned it outlives a
   power cut. If one of its statements failed it does not happen, whoever swallows the error;
   only where the connection breaks during the commit itself can nobody say (`OutcomeUnknown`):
   who has locked what it changed is certain once it has locked that anew.
   A read transaction sees one moment, and changes nothing.
2. `lock_head` and `lock_live_head` make writers of one namespace take turns until their
   transactions end.
3. `join_epoch` is shared by writers; `advance_epoch` waits for every writer that joined the
   old epoch. An object stamped with the current epoch is out of the collector's reach.
4. Errors of the driver never leave an adapter. They are `Unavailable`, `Busy`, `StorageFull` or
   `Damaged`; `InvalidValue` for what no row can hold (a NUL in text, a number beyond 64 bits);
   `Conflict` for rows that contradict each other.
5. Ids are never given again, also when what they named is gone.
6. A thread that is to rest now and then (`holdfast.behalf`) does so before a transaction and in the
   middle of one that reads, never of one that writes: others would wait for it.

Any number of threads may use a catalog; a transaction belongs to one, and is over when its
block ends. A thread with an open transaction opens no second: it could wait for itself. A
forked child may go on with a catalog that was open before, under a writer's name of its own.

Methods are plain data in, plain data out. No SQL, no decisions: those are the engine's.
"""

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Protocol

from holdfast.catalog.transaction import Transaction
from holdfast.model.upkeep import Load, Loss


class Lease(Protocol):
    """A lock that is held, until somebody else has it."""

    def fence(self, transaction: Transaction) -> None:
        """Has a write transaction fail with `Busy` if somebody else has the lock by now.

        While such a transaction is open, nobody takes the lock over.
        """
        ...

    def check(self) -> None:
        """Raises `Busy` if somebody else has the lock by now."""
        ...


class Catalog(Protocol):
    """Opens transactions, and knows which of its users are still alive."""

    @property
    def writer(self) -> str:
        """This opener's name, known to be alive until `close`, or until the process dies.

        To be asked for each time: after a while without the database it is another one.
        """
        ...

    @property
    def kind(self) -> str:
        """What the rows are in: only the same kind takes what `dump` wrote."""
        ...

    @property
    def keep_deleted(self) -> timedelta:
        """How long bytes outlive their rows here, where the limits say nothing else.

        As long as an older copy of the rows may ordinarily be brought back.
        """
        ...

    def read(self) -> AbstractContextManager[Transaction]: ...
    def ask(self) -> AbstractContextManager[Transaction]:
        """Opens a read transaction for a single question: each query has a moment of its own."""
        ...

    def write(self) -> AbstractContextManager[Transaction]: ...
    def is_alive(self, writer: str) -> bool:
        """Says whether a writer may still finish what it has announced."""
        ...

    def lock(self, name: str) -> AbstractContextManager[Lease]:
        """Holds a lock between all users of the catalog; raises `Busy` if it is taken.

        Who stands still for long may lose it: what must not happen then has a fence.
        """
        ...

    def free_bytes(self) -> int | None: ...
    def reclaim(self) -> None:
        """Gives back what deleted rows and dead writers left, where that needs asking."""
        ...

    def tend_log(self) -> None:
        """Does beside writers what they otherwise do to the log now and then, while others wait.

        From the first time on they leave it to whoever asks for this, again and again.
        """
        ...

    def load(self) -> Load:
        """Returns how busy this opener's connections are; asks nobody."""
        ...

    def scrub(self) -> None:
        """Overwrites or gives back whatever may still hold rows that are gone, and the log.

        Raises `Busy` if somebody reads for so long that it cannot.
        """
        ...

    def find_index_faults(self) -> list[str]:
        """Returns where indexes and rows do not agree: what is there is not found by its name."""
        ...

    def rebuild_indexes(self) -> dict[str, int]:
        """Makes indexes anew of the rows; returns how many rows of which tables are lost by that.

        Rows go only where two say to be the same one.
        """
        ...

    def make_room(self) -> None:
        """Gives up what is kept aside for collecting on a full disk, if there is no other room."""
        ...

    def check_current(self) -> None:
        """Raises `CatalogReplaced` if other files lie where this process has the catalog open.

        A write does so by itself, before it is acknowledged.
        """
        ...

    def find_loss(self) -> Loss | None:
        """Returns what was acknowledged and is found missing, until somebody accepts it."""
        ...

    def accept_loss(self) -> None:
        """Takes note that somebody knows what is missing."""
        ...

    def close(self) -> None: ...
