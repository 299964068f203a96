"""Locks between all who use a database, and the names of those who write packs.

Both are rows, and belong to no connection: one that breaks takes nothing with it, and a pooler may
stand in between. A thread moves their ends on, a lock's every third of its term. Who could not do
so for a whole term may find that somebody else has the lock: then nothing that insists on it is
committed any more (`fence`), and `check` says so. All times are the database's.

All of it goes over one connection: nobody waits on it for long, for the locks that are held would
wait as well. One on which a transaction insists cannot be moved on, nor taken, before that ends.
"""

import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final

from holdfast.catalog.forking import tell_of_forks
from holdfast.catalog.transaction import Transaction
from holdfast.errors import Busy, HoldfastError

TERM_S: Final = 15.0
"""How long a lock outlives a process that is killed, and how long one may stand still and keep it.
"""

SILENT_S: Final = 300.0
"""How long a writer is not heard of until what it has announced is withdrawn."""

_AGAIN_S: Final = 1.0
_SOON_S: Final = 0.1
_MICRO: Final = 1_000_000

Open = Callable[[], AbstractContextManager[Transaction]]


class Lease:
    """A lock that somebody has taken."""

    def __init__(self, write: Open, name: str, token: int) -> None:
        self._write = write
        self.name, self.token = name, token
        self.is_lost = False
        self.pid = os.getpid()

    def fence(self, transaction: Transaction) -> None:
        """Has a transaction happen only if nobody else has the lock."""
        transaction.insist_on_lease(self.name, self.token)

    def check(self) -> None:
        """Raises `Busy` if somebody else has the lock by now."""
        if not self.is_lost:
            with self._write() as transaction:
                self.is_lost = not transaction.has_lease(self.name, self.token)
        if self.is_lost:
            message = f"another has taken {self.name} over, and this one has stopped"
            raise Busy(message)


class Leases:
    """What one opener of a catalog holds, and its name."""

    def __init__(self, write: Open, new_name: Callable[[], str], *, term_s: float = TERM_S) -> None:
        self._write, self._new_name, self._term_s = write, new_name, term_s
        self._term_us = int(term_s * _MICRO)
        # For somebody else's transaction. The other locks, which wait as well, stay ours meanwhile.
        self._wait_ms = int(min(_AGAIN_S, term_s / 6) * 1000)
        self._begin()
        tell_of_forks(self)

    def writer(self) -> str:
        """Returns a name that others take for alive."""
        with self._naming:
            # Long before others may take it for dead: then it is another one.
            if self._name is None or time.monotonic() - self._named_at > SILENT_S / 2:
                name = self._new_name()
                with self._write() as transaction:
                    transaction.note_writer(name)
                self._name, self._named_at = name, time.monotonic()
                self._keep_alive()
            return self._name

    @contextmanager
    def lock(self, name: str) -> Generator[Lease]:
        """Holds a lock; raises `Busy` if somebody has it."""
        lease = self._take(name)
        try:
            yield lease
        finally:
            if lease.pid == os.getpid():  # A forked child has what its parent holds.
                with self._guard:
                    self._held.discard(lease)
                # Whatever is the matter, its time will be over.
                with suppress(HoldfastError), self._write() as transaction:
                    transaction.end_lease(lease.name, lease.token)

    def close(self) -> None:
        """Lets go of the name; what holds a lock lets go of it by itself."""
        self._closed.set()
        with self._naming:
            name, self._name = self._name, None
        if name is not None:
            with suppress(HoldfastError), self._write() as transaction:
                transaction.forget_writer(name)

    def before_fork(self) -> None:
        """Holds nothing: who has our locks waits for others that a fork takes."""

    def after_fork(self, *, in_child: bool) -> None:
        """Has locks of its own in a child, and nothing else: all of it is its parent's."""
        if in_child:
            self._begin()

    def _begin(self) -> None:
        self._guard, self._naming = threading.Lock(), threading.Lock()
        self._held = set[Lease]()
        self._name: str | None = None
        self._named_at = 0.0
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def _take(self, name: str) -> Lease:
        holder = f"{os.uname().nodename}:{os.getpid()}"
        message = f"{name} is already running, or was killed within {self._term_s:g} seconds"
        try:
            with self._write() as transaction:
                transaction.wait_briefly(most_ms=self._wait_ms)
                token = transaction.take_lease(name, holder=holder, term_us=self._term_us)
        except Busy as exc:
            raise Busy(message) from exc
        if token is None:
            raise Busy(message)
        lease = Lease(self._write, name, token)
        with self._guard:
            self._held.add(lease)
        self._keep_alive()
        return lease

    def _keep_alive(self) -> None:
        with self._guard:
            if self._thread is None and not self._closed.is_set():
                beating = threading.Thread(
                    target=self._beat, args=(self._closed,), name="holdfast-leases", daemon=True
                )
                beating.start()  # If there is no room for it, the next one tries again.
                self._thread = beating

    def _beat(self, closed: threading.Event) -> None:
        pause_s = self._term_s / 3
        while not closed.wait(pause_s):
            try:
                pause_s = self._term_s / 3 if self._renew() else _SOON_S
                self._note_name()
            except Exception:  # noqa: BLE001 - whoever works says what is wrong with the database
                pause_s = min(_AGAIN_S, self._term_s / 3)

    def _note_name(self) -> None:
        with self._naming:
            if self._name is not None and not self._closed.is_set():
                with self._write() as transaction:
                    transaction.wait_briefly(most_ms=self._wait_ms)
                    transaction.note_writer(self._name)
                self._named_at = time.monotonic()

    def _renew(self) -> bool:
        """Moves all ends on; False if some are left that a transaction insists on."""
        with self._guard:
            left = sorted(self._held, key=lambda lease: lease.name)
        if left:
            with self._write() as transaction:
                left = [
                    lease
                    for lease in left
                    if not transaction.renew_free_lease(
                        lease.name, lease.token, term_us=self._term_us
                    )
                ]
        # Last of all, to stand in line before whoever would take it over.
        return not [lease for lease in left if not self._renew_after(lease)]

    def _renew_after(self, lease: Lease) -> bool:
        """Moves an end on when nothing is being written under it; False if that takes too long."""
        try:
            with self._write() as transaction:
                transaction.wait_briefly(most_ms=self._wait_ms)
                is_ours = transaction.renew_lease(lease.name, lease.token, term_us=self._term_us)
        except Busy:
            return False
        lease.is_lost = not is_ours
        return True
