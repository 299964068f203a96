"""Whether PostgreSQL can be reached, and connections to it while it can.

Who finds it away tries again, half a second later, for as long as it may wait: a restart, or a
failover, is not noticed but for the wait. Once two have waited in vain, nobody else does: whoever
comes next is told so at once, and threads, which are few, are there for what needs no database.
Somebody looks meanwhile whether it is back, and the first who comes then has that connection.
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
"""How many in a row wait in vain until nobody waits: one alone may have had a short wait."""


class Reach:
    """Connects to one database, for any number of threads."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._host_s = int(conninfo_to_dict(conninfo).get("connect_timeout") or _LEAST_S)
        self._guard = threading.Lock()
        self._closed = threading.Event()
        self._given_up = 0
        self._reason = ""
        self._is_watched = False
        self._spare: Connection | None = None

    def connect(self, *, until: float) -> Connection:
        """Returns a connection; raises `OperationalError` at that time, by the monotonic clock."""
        with self._guard:
            # With nobody who looks, everybody does.
            is_away, reason = self._given_up >= GIVEN_UP and self._is_watched, self._reason
        if is_away:
            raise psycopg.OperationalError(f"it does not answer, and nobody waits for it: {reason}")
        while True:
            connection, failure = self._try(until - time.monotonic())
            if connection is not None:
                return connection
            left_s = until - time.monotonic()
            if left_s <= 0 or self._closed.wait(min(PAUSE_S, left_s)):
                self._give_up(str(failure))
                raise psycopg.OperationalError(str(failure)) from failure

    def close(self) -> None:
        """Stops looking, and closes what was found."""
        self._closed.set()
        with self._guard:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.close()

    def _try(self, left_s: float) -> tuple[Connection | None, psycopg.OperationalError | None]:
        with self._guard:
            spare, self._spare = self._spare, None
        if spare is not None:
            return spare, None
        try:
            connection = psycopg.connect(
                self._conninfo,
                autocommit=True,
                connect_timeout=max(_LEAST_S, min(self._host_s, int(left_s))),
            )
        except psycopg.OperationalError as exc:
            return None, exc
        with self._guard:
            self._given_up = 0
        return connection, None

    def _give_up(self, reason: str) -> None:
        with self._guard:
            self._given_up += 1
            self._reason = reason
            if self._given_up < GIVEN_UP or self._is_watched:
                return
            threading.Thread(target=self._watch, name="holdfast-reach", daemon=True).start()
            self._is_watched = True

    def _watch(self) -> None:
        """Looks until the database is back, or nobody wants to know."""
        found: Connection | None = None
        while found is None and not self._closed.wait(PAUSE_S):
            found, _ = self._try(self._host_s)
        with self._guard:
            self._is_watched = False
            if found is not None and not self._closed.is_set() and self._spare is None:
                self._spare, found = found, None
        if found is not None:
            found.close()
