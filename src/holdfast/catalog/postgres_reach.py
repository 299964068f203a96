"""Whether PostgreSQL can be reached, and connections to it while it can.

Who finds it away tries again, half a second later, for as long as it may wait: a restart, or a
failover, is not noticed but for the wait. Once somebody has waited in vain, nobody else does:
whoever comes next is told so at once, and threads, which are few, are there for what needs no
database. Somebody looks meanwhile whether it is back, and the first who comes then has that
connection.

Nobody waits for longer than it may. A host that says nothing takes libpq two seconds, at the least:
who has less time left leaves it to whoever looks, and is told when its time is over.
"""

import threading
import time
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

Connection = psycopg.Connection[tuple[Any, ...]]

PAUSE_S: Final = 0.5
"""Between two attempts: what is back is used within a second."""

_LEAST_S: Final = 2
"""The shortest time that libpq waits for a host which says nothing."""

GIVEN_UP: Final = 2
"""How many in a row wait in vain until nobody waits, of those who had next to no time."""

ENOUGH_S: Final = 1.0
"""Who has tried in vain for so long has seen enough for all: whoever stood in line for its thread
would else wait as long again."""


class Reach:
    """Connects to one database, for any number of threads."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        given = conninfo_to_dict(conninfo)
        self._host_s = int(given.get("connect_timeout") or _LEAST_S)
        self._hosts = str(given.get("host") or given.get("hostaddr") or "").count(",") + 1
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._given_up = 0
        self._reason = ""
        self._is_watched = False
        self._spare: Connection | None = None

    def connect(self, *, until: float) -> Connection:
        """Returns a connection; raises `OperationalError` at that time, by the monotonic clock."""
        begun = time.monotonic()
        while True:
            # Also who waits already: it may have stood in line for as long as another has waited.
            self._check_awaited()
            connection = self._try_until(until)
            if connection is not None:
                return connection
            left_s = until - time.monotonic()
            if left_s <= 0 or self._closed.wait(min(PAUSE_S, left_s)):
                raise psycopg.OperationalError(self._give_up(time.monotonic() - begun))

    def close(self) -> None:
        """Stops looking, and closes what was found."""
        self._closed.set()
        with self._changed:
            spare, self._spare = self._spare, None
            self._changed.notify_all()
        if spare is not None:
            spare.close()

    def _check_awaited(self) -> None:
        """Raises if somebody has waited in vain, and nobody does any more."""
        with self._changed:
            # With nobody who looks, everybody does.
            is_away, reason = self._given_up >= GIVEN_UP and self._is_watched, self._reason
        if is_away:
            raise psycopg.OperationalError(f"it does not answer, and nobody waits for it: {reason}")

    def _try_until(self, until: float) -> Connection | None:
        """Returns a connection, if there is one to be had by then; notes why there is none."""
        with self._changed:
            spare, self._spare = self._spare, None
        if spare is not None:
            return spare
        left_s = until - time.monotonic()
        if left_s >= _LEAST_S * self._hosts:
            return self._try(left_s)
        with self._changed:
            # Anew for each who waits: what was found for one another may have taken.
            while self._spare is None and left_s > 0 and not self._closed.is_set():
                self._look()
                self._changed.wait_for(self._is_over, left_s)
                left_s = until - time.monotonic()
            spare, self._spare = self._spare, None
        return spare

    def _is_over(self) -> bool:
        return self._spare is not None or not self._is_watched

    def _try(self, left_s: float) -> Connection | None:
        """Connects, or notes why that cannot be done; of silent hosts each has a part of it."""
        timeout = max(_LEAST_S, min(self._host_s, int(left_s / self._hosts)))
        try:
            connection = psycopg.connect(self._conninfo, autocommit=True, connect_timeout=timeout)
        except psycopg.OperationalError as exc:
            self._reason = str(exc)
            return None
        with self._changed:
            self._given_up = 0
        return connection

    def _give_up(self, waited_s: float) -> str:
        """Counts who waited in vain; returns why that was."""
        with self._changed:
            self._given_up += GIVEN_UP if waited_s >= ENOUGH_S else 1
            if self._given_up >= GIVEN_UP:
                self._look()
            return self._reason or "it does not answer"

    def _look(self) -> None:
        """Has somebody look whether the database is back, if nobody does."""
        if not self._is_watched and not self._closed.is_set():
            looking = threading.Thread(target=self._watch, name="holdfast-reach", daemon=True)
            try:
                looking.start()
            except RuntimeError as exc:  # There are too many, or this process is about to end.
                raise psycopg.OperationalError(f"nobody can look for it: {exc}") from exc
            self._is_watched = True

    def _watch(self) -> None:
        """Looks until the database is back, or nobody wants to know."""
        found = None
        try:
            found = self._try(self._host_s)
            while found is None and not self._closed.wait(PAUSE_S):
                found = self._try(self._host_s)
        finally:  # Whatever ends it, the next who waits in vain has somebody look again.
            with self._changed:
                self._is_watched = False
                if found is not None and not self._closed.is_set() and self._spare is None:
                    self._spare, found = found, None
                self._changed.notify_all()
        if found is not None:
            found.close()
