"""The part of a transaction that is about locks between users of a database, and who writes packs.

A lock is a row with an end, by the database's clock, which whoever holds it moves on. Each holder
has a token of its own: a transaction that insists on it happens only while nobody else has taken
the lock over, and whoever takes it over waits for such a transaction.
"""

import os

from holdfast.catalog.driver import Driver


class LeaseQueries:
    """Rows of leases and of writers."""

    __slots__ = ()

    _db: Driver

    def wait_briefly(self, *, most_ms: int) -> None:
        """Has what follows fail with `Busy` where it would wait for others for longer than this."""
        self._db.say("limit_waiting", most=str(most_ms))

    def take_lease(self, name: str, *, holder: str, term_us: int) -> int | None:
        """Takes a lock that nobody has, for so long; returns its token, None if somebody has it."""
        token = int.from_bytes(os.urandom(7))
        row = self._db.one("take_lease", name=name, holder=holder, token=token, term_us=term_us)
        return None if row is None else int(row[0])

    def renew_lease(self, name: str, token: int, *, term_us: int) -> bool:
        """Has a lock for so long from now on; False if somebody else has it."""
        return self._db.run("renew_lease", name=name, token=token, term_us=term_us) == 1

    def renew_free_lease(self, name: str, token: int, *, term_us: int) -> bool:
        """As `renew_lease`, and waits for nobody; False also where something insists on it."""
        return self._db.run("renew_free_lease", name=name, token=token, term_us=term_us) == 1

    def end_lease(self, name: str, token: int) -> None:
        """Lets go of a lock, if it is still this one's."""
        self._db.say("end_lease", name=name, token=token)

    def has_lease(self, name: str, token: int) -> bool:
        """Says whether nobody has taken a lock over."""
        return self._db.one("find_lease", name=name, token=token) is not None

    def insist_on_lease(self, name: str, token: int) -> None:
        """Has the transaction fail with `Busy` if somebody else has a lock by now."""
        self._db.insist("find_lease", locked=True, name=name, token=token)

    def note_writer(self, name: str) -> None:
        """Notes that a writer is alive."""
        self._db.say("note_writer", name=name)

    def is_writer_seen(self, name: str, *, silent_us: int) -> bool:
        """Says whether a writer was noted to be alive less than so many microseconds ago."""
        return self._db.one("find_writer", name=name, silent_us=silent_us) is not None

    def forget_writer(self, name: str) -> None:
        """Forgets a writer that writes no more."""
        self._db.say("forget_writer", name=name)

    def purge_writers(self, *, silent_us: int) -> None:
        """Forgets those of whom nothing was heard for so long."""
        self._db.run("purge_writers", silent_us=silent_us)
