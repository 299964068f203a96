"""Says which sessions go where one is erased, or all that were a user's.

An id may have been several sessions' (`sessions/bearers.py`). Who erases a session by its id means
all that ever had it. Of a user those go that were the user's at any time that a row, a snapshot or
the journal still knows of, and whoever else had the same id stays as it is: of such an id, a
session is known by when it began, and what was told of it by where in the journal that stands.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.sessions.bearers import rows_of_id, stretches
from holdfast.engine.sessions.following import session_of
from holdfast.instants import to_us
from holdfast.model.basics import Head
from holdfast.model.sessions import SessionRow

Entries = Callable[[], Iterator[tuple[bytes, bytes]]]
"""Yields what the roots of a namespace, and what is noted beside them, hold of sessions."""

Numbers = tuple[int, int]
"""The first and the last of some rows of a chain."""


class Chosen(msgspec.Struct, frozen=True):
    """Sessions that go."""

    gone: Mapping[bytes, AbstractSet[int]]
    """By their ids, the microseconds at which they began."""
    names: AbstractSet[str]
    """Ids of which nothing stays: all that is told of one goes."""
    mentions: Mapping[str, list[Numbers]]
    """Ids that others have, too: which rows of the chain tell of those that go."""

    def takes(self, key: bytes, entry: bytes) -> bool:
        """Says whether an entry is of one that goes."""
        return session_of(entry).created_us in self.gone.get(key, ())

    @property
    def shared(self) -> set[bytes]:
        """The ids that others have, too."""
        return {key for key in self.gone if key.decode() not in self.names}


def choose_session(
    transaction: Transaction, head: Head, session_id: str, entries: Entries
) -> Chosen:
    """Returns all that ever had an id."""
    key = session_id.encode()
    began = transaction.beginnings_of(head.namespace_id, session_id)
    began |= {session_of(entry).created_us for name, entry in entries() if name == key}
    # One whose rows are long gone may still be told of.
    return Chosen({key: began} if began else {}, {session_id}, {})


def choose_user(
    transaction: Transaction, head: Head, user_id: str, told: Iterable[str], entries: Entries
) -> Chosen:
    """Returns what was a user's; `told` are ids that the journal says so of."""
    theirs = dict[bytes, set[int]]()
    for session_id, began_us in transaction.sessions_of_user(head.namespace_id, user_id):
        theirs.setdefault(session_id.encode(), set()).add(began_us)
    for key, entry in entries():
        session = session_of(entry)
        if session.user_id == user_id:
            theirs.setdefault(key, set()).add(session.created_us)
    ids = {*theirs, *(each.encode() for each in told)}
    seen = {key: transaction.beginnings_of(head.namespace_id, key.decode()) for key in ids}
    for key, entry in entries():
        if key in seen:
            seen[key].add(session_of(entry).created_us)
    known = dict[bytes, list[SessionRow]]()
    for key in ids:
        if seen[key] <= theirs.get(key, set()):
            continue  # Nobody else has it: all of it goes, be it damaged.
        known[key] = rows_of_id(transaction, head.namespace_id, key.decode())
        for row, told_of in stretches(transaction, head.tenant_id, known[key]):
            numbers = told_of.start, told_of.stop - 1
            if transaction.names_user(head.namespace_id, row.id, user_id, *numbers):
                theirs.setdefault(key, set()).add(to_us(row.created_at))
    names = {key.decode() for key in ids if seen[key] <= theirs.get(key, set())}
    shared = {key for key in ids if key.decode() not in names}
    return Chosen(
        theirs,
        names,
        {
            key.decode(): [
                *_numbers_of(transaction, head, known[key], theirs.get(key, ()), user_id)
            ]
            for key in shared
        },
    )


def _numbers_of(
    transaction: Transaction,
    head: Head,
    rows: list[SessionRow],
    began: Container[int],
    user_id: str,
) -> Iterator[Numbers]:
    """Yields where stands what is told of a user's sessions among those that had an id.

    Also of such whose rows are long gone: the journal alone says that they were the user's.
    """
    for at, (row, told_of) in enumerate(stretches(transaction, head.tenant_id, rows)):
        before = 0, told_of.start - 1
        if at == 0 and transaction.names_user(row.namespace_id, row.id, user_id, *before):
            yield before
        if to_us(row.created_at) in began:
            yield told_of.start, told_of.stop - 1
