"""Says where the rows of sessions lack one that the plane of their namespace holds.

The row of a session is a reading of the plane and of its newest version. One whose own key was
damaged is found by nobody; what is there of it still is the plane's entry, and how many sessions a
namespace counts. So a list compares two numbers, and only where they differ all that there is; and
who asks for one session that has no row is told that it is damaged if the plane holds it.
"""

from collections.abc import Mapping
from datetime import datetime

from holdfast.catalog.counting import MOST_COUNTED
from holdfast.catalog.transaction import Transaction
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.view import View
from holdfast.engine.sessions.following import session_of
from holdfast.errors import Damaged, SessionNotFound
from holdfast.instants import to_us
from holdfast.model.basics import Head, Plane


def check_list(transaction: Transaction, handle: Handle, damaged: Mapping[str, Damaged]) -> int:
    """Raises `Damaged` if sessions that are present are missing from lists of their namespace.

    Returns how many have to be present.

    What is damaged of a list, and not in the plane, is none of this namespace's: a row of another
    one, or of a session that has ended.
    """
    head = handle.find_head(transaction)
    if head is None:
        return 0
    if damaged:
        held = _view(transaction, handle, head).get_many([name.encode() for name in damaged])
        for name, error in damaged.items():
            if name.encode() in held:
                raise error
    wanted, found = transaction.count_present(head.namespace_id, most=MOST_COUNTED)
    # A row that is another's, or has another's id, stands in the place of one that is missing.
    if damaged or (found is not None and found != wanted):
        present = set(transaction.present_ids(head.namespace_id))
        for key, _ in _view(transaction, handle, head).iterate():
            if (name := key.decode("utf-8", "replace")) not in present:
                raise _lost(name)
    return wanted


def check_listed(transaction: Transaction, handle: Handle, listed: int, wanted: int) -> None:
    """Raises `Damaged` if a list of all sessions lacks one that the plane holds.

    An index that counts all of its rows need not lead to all of them. Where the number itself is
    wrong, none is missing.
    """
    head = handle.find_head(transaction) if listed != wanted else None
    if head is None:
        return
    # First: one that another begins meanwhile is in the list, and in the plane or not.
    held = [key.decode("utf-8", "replace") for key, _ in _view(transaction, handle, head).iterate()]
    page = transaction.list_sessions(head.namespace_id, most=max(wanted, len(held)) + MOST_COUNTED)
    shown = {session.id for session, _ in page.sound} | {*page.damaged}
    for name in held:
        if name not in shown and transaction.find_session(handle.tenant_id, handle.name, name):
            raise _lost(name)


def check_absent(
    transaction: Transaction, handle: Handle, session_id: str, *, now: datetime
) -> None:
    """Raises `Damaged` if a session that has no row is one that the plane holds."""
    head = handle.find_head(transaction)
    if head is None:
        return
    data = _view(transaction, handle, head).get(session_id.encode("utf-8", "replace"))
    if data is not None:
        expires_us = session_of(data).expires_us
        if expires_us is None or expires_us > to_us(now):
            raise _lost(session_id)


def absence_of(
    transaction: Transaction, handle: Handle, session_id: str, *, now: datetime
) -> SessionNotFound:
    """Returns the error of a session that is not there; raises `Damaged` if it should be."""
    check_absent(transaction, handle, session_id, now=now)
    return SessionNotFound(session_id)


def _view(transaction: Transaction, handle: Handle, head: Head) -> View:
    return View.of_head(handle.objects, transaction, head, Plane.SESSIONS)


def _lost(session_id: str) -> Damaged:
    return Damaged(f"the catalog has lost the row of the session {session_id}")
