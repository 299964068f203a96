"""Who is next: what threads of a process wait for goes round by tenant, then by who came first.

Where everybody stood in one queue, whoever had the most requests under way had the most of what
there is. Now a tenant's queue stands behind itself, and whoever comes from another tenant is
before all of it. What there are several of is shared out as a server shares its threads: a tenant
gets one more only while as many as it would then hold are free, so that there is always one for
whoever comes next.

SQLite has one writer (`Turns`). Between processes the file's lock decides as before, for which
each of them waits with a single thread: the one whose turn it is. What a turn
costs is in `docs/adr/0033-writers-take-turns-by-tenant.md`.
"""

import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from holdfast.behalf import BEHALF, NOBODY
from holdfast.catalog.filelocks import FileLocks
from holdfast.catalog.forking import tell_of_forks
from holdfast.errors import Unavailable
from holdfast.model.upkeep import Load

WRITE: Final = "write"
"""The name of the lock that writers of all processes share."""

_FOR_EVER: Final = -1.0


class Turn:
    """One thread's turn."""

    __slots__ = ("begun", "fd", "tenant")

    def __init__(self, tenant: str) -> None:
        self.tenant, self.fd = tenant, -1
        self.begun: threading.Lock | None = None
        """Held until it begins, by one that has to wait for that."""


class Slots:
    """So many of something, of which each thread takes one."""

    def __init__(self, total: int, *, wait_s: float = _FOR_EVER) -> None:
        self._free, self._wait_s = total, wait_s
        self._total = total
        self._waits, self._waited_s = 0, 0.0
        """How often somebody had to wait, and for how long all of them."""
        self._guard = threading.Lock()
        self._held = dict[Turn, None]()
        self._counts = dict[str, int]()
        self._waiting = dict[str, deque[Turn]]()
        """Those of each tenant in their order; the tenants in the order of their turns."""
        tell_of_forks(self)

    def take(self) -> Turn:
        """Waits for a turn; returns what `leave` has to be given. Raises `Unavailable`."""
        turn, is_begun = Turn(BEHALF.get()), False
        try:
            self._queue(turn)
            is_begun = turn.begun is None or self._wait_for(turn.begun)
        finally:
            if not is_begun:
                self.leave(turn)
        if not is_begun:
            raise Unavailable("others have all connections to the database, and keep them")
        return turn

    def leave(self, turn: Turn) -> None:
        """Ends a turn, or stops waiting for it; whoever is next begins."""
        with self._guard:
            if turn in self._held:
                del self._held[turn]
                self._free += 1
                left = self._counts[turn.tenant] - 1
                if left:
                    self._counts[turn.tenant] = left
                else:
                    del self._counts[turn.tenant]
                if self._waiting:
                    self._pass_on()
            else:
                waiting = self._waiting.get(turn.tenant, deque[Turn]())
                if turn in waiting:
                    waiting.remove(turn)
                    if not waiting:
                        del self._waiting[turn.tenant]

    @contextmanager
    def taken(self) -> Generator[None]:
        """Holds a turn, once it has come."""
        turn = self.take()
        try:
            yield
        finally:
            self.leave(turn)

    def load(self) -> Load:
        """Returns how busy it is."""
        with self._guard:
            return Load(
                used=self._total - self._free,
                most=self._total,
                waiting=sum(len(turns) for turns in self._waiting.values()),
                waits=self._waits,
                waited_s=self._waited_s,
            )

    def before_fork(self) -> None:
        """Sees to it that no thread is about to change what is copied."""
        self._guard.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        """Begins anew in a child: who had a turn, or waited for one, is not there."""
        if in_child:
            self._free = self._total
            for each in (self._held, self._counts, self._waiting):
                each.clear()
        self._guard.release()

    def _wait_for(self, begun: threading.Lock) -> bool:
        since = time.monotonic()
        try:
            return begun.acquire(timeout=self._wait_s)
        finally:
            with self._guard:
                self._waits += 1
                self._waited_s += time.monotonic() - since

    def _queue(self, turn: Turn) -> None:
        with self._guard:
            if turn.tenant not in self._waiting and self._fits(turn.tenant):
                self._begin(turn)
            else:
                turn.begun = threading.Lock()
                turn.begun.acquire()
                self._waiting.setdefault(turn.tenant, deque()).append(turn)

    def _fits(self, tenant: str) -> bool:
        # What is done for nobody is all that there is, or little.
        return self._free > (0 if tenant == NOBODY else self._counts.get(tenant, 0))

    def _begin(self, turn: Turn) -> None:
        self._free -= 1
        self._counts[turn.tenant] = self._counts.get(turn.tenant, 0) + 1
        self._held[turn] = None
        if turn.begun is not None:
            turn.begun.release()

    def _pass_on(self) -> None:
        """Begins what fits by now, a turn of each tenant at a time."""
        for tenant, turns in list(self._waiting.items()):
            if not self._free:
                return
            if self._fits(tenant):
                # To the end of the queue: after this one, it is the turn of the others.
                del self._waiting[tenant]
                self._begin(turns.popleft())
                if turns:
                    self._waiting[tenant] = turns


class Turns(Slots):
    """Turns to write, of all threads that use one catalog in a file."""

    def __init__(self, locks: FileLocks) -> None:
        super().__init__(1)
        self._locks, self._kept = locks, -1

    def take(self) -> Turn:
        """Waits until it is our turn; returns what `leave` has to be given."""
        turn, is_taken = super().take(), False
        try:
            # One whose wait is interrupted is closed, and its number is the next file's.
            kept, self._kept = self._kept, -1
            turn.fd = self._kept = self._locks.wait(WRITE, kept=kept)
            is_taken = True
        finally:
            if not is_taken:
                super().leave(turn)
        return turn

    def leave(self, turn: Turn) -> None:
        """Ends a turn, and begins the next."""
        try:
            # First: another process waits for it, and this one's next thread for us.
            if turn.fd >= 0 and turn.fd == self._kept:
                self._locks.unlock(turn.fd)
            elif turn.fd >= 0:
                self._locks.free(turn.fd)
        finally:
            super().leave(turn)

    def close(self) -> None:
        """Keeps the lock's file open no longer; a turn that is taken ends as it would."""
        with self._guard:
            kept, self._kept, is_over = self._kept, -1, not self._held
        if is_over:
            self._locks.free(kept)

    def after_fork(self, *, in_child: bool) -> None:
        """Begins anew in a child, where the lock's file is closed."""
        if in_child:
            self._kept = -1
        super().after_fork(in_child=in_child)
