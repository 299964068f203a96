"""Whose turn it is to write: the threads of a process take it by tenant, then by who came first.

There is one writer at a time. Where everybody stood in one queue, whoever had the most requests
under way had the most of it: now a tenant's queue stands behind itself, and whoever comes from
another tenant is before all of it but one. Between processes the file's lock decides as before,
for which each of them waits with a single thread: the one whose turn it is.

Taking a turn that is free and passing it on costs 1 µs beyond what the lock does.
"""

import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from holdfast.behalf import BEHALF
from holdfast.catalog.filelocks import FileLocks
from holdfast.catalog.forking import tell_of_forks

WRITE: Final = "write"
"""The name of the lock that writers of all processes share."""


class Turn:
    """One thread's turn."""

    __slots__ = ("begun", "fd", "tenant")

    def __init__(self, tenant: str) -> None:
        self.tenant, self.fd = tenant, -1
        self.begun = threading.Lock()
        """Held until it begins."""
        self.begun.acquire()


class Turns:
    """Turns to write, of all threads that use one catalog."""

    def __init__(self, locks: FileLocks) -> None:
        self._locks = locks
        self._guard = threading.Lock()
        self._holder: Turn | None = None
        self._waiting = dict[str, deque[Turn]]()
        """Those of each tenant in their order; the tenants in the order of their turns."""
        tell_of_forks(self)

    def take(self) -> Turn:
        """Waits until it is our turn; returns what `pass_on` has to be given."""
        turn, is_taken = Turn(BEHALF.get()), False
        try:
            self._queue(turn)
            turn.begun.acquire()
            turn.fd = self._locks.wait(WRITE)
            is_taken = True
        finally:
            if not is_taken:
                self._leave(turn)
        return turn

    def pass_on(self, turn: Turn) -> None:
        """Ends a turn, and begins the next."""
        try:
            # First: another process waits for it, and this one's next thread for us.
            self._locks.free(turn.fd)
        finally:
            self._leave(turn)

    @contextmanager
    def taken(self) -> Generator[None]:
        """Holds a turn, once it has come."""
        turn = self.take()
        try:
            yield
        finally:
            self.pass_on(turn)

    def before_fork(self) -> None:
        """Sees to it that no thread is about to change what is copied."""
        self._guard.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        """Begins anew in a child: who had a turn, or waited for one, is not there."""
        if in_child:
            self._holder = None
            self._waiting.clear()
        self._guard.release()

    def _queue(self, turn: Turn) -> None:
        with self._guard:
            if self._holder is None:
                self._holder = turn
                turn.begun.release()
            else:
                self._waiting.setdefault(turn.tenant, deque()).append(turn)

    def _leave(self, turn: Turn) -> None:
        """Takes a turn away: one that is over, or one that nobody waits for any more."""
        with self._guard:
            if self._holder is turn:
                self._holder = self._next()
                if self._holder is not None:
                    self._holder.begun.release()
            else:
                waiting = self._waiting.get(turn.tenant, deque[Turn]())
                if turn in waiting:
                    waiting.remove(turn)
                    if not waiting:
                        del self._waiting[turn.tenant]

    def _next(self) -> Turn | None:
        for tenant, turns in self._waiting.items():
            turn = turns.popleft()
            # To the end of the queue: after this one, it is the turn of the others.
            del self._waiting[tenant]
            if turns:
                self._waiting[tenant] = turns
            return turn
        return None
