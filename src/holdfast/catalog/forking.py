"""Tells open things about `fork`, before it and after it.

A forked child inherits what its parent had open: descriptors with their locks, connections in
the middle of a conversation, mutexes whose holders do not exist in the child. What registers
here can put itself into a state that may be copied, and start afresh on the other side.
"""

import os
import threading
from typing import Final, Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Something that must not simply be copied into a child process."""

    def before_fork(self) -> None:
        """Gets ready to be copied, and stays as it is until `after_fork`."""
        ...

    def after_fork(self, *, in_child: bool) -> None:
        """Goes on, in the parent as before, in the child as if just opened."""
        ...


def tell_of_forks(thing: Forkable) -> None:
    """Tells a thing of every fork for as long as it lives."""
    with _guard:
        _told.add(thing)


_guard: Final = threading.Lock()
_told: Final[WeakSet[Forkable]] = WeakSet()
_waiting: Final[list[Forkable]] = []


def _before() -> None:
    _guard.acquire()
    for thing in list(_told):
        _waiting.append(thing)
        thing.before_fork()


def _after(*, in_child: bool) -> None:
    while _waiting:
        _waiting.pop().after_fork(in_child=in_child)
    _guard.release()


os.register_at_fork(
    before=_before,
    after_in_parent=lambda: _after(in_child=False),
    after_in_child=lambda: _after(in_child=True),
)
