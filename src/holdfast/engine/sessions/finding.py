"""Finds a session by its id, as it is now.

A fork of a namespace holds its sessions in the plane and has no rows of its own for them until
somebody asks: a fork costs the same whatever it holds. `catch_up` writes them.
"""

from datetime import datetime

from holdfast.catalog.transaction import Transaction
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions.bearers import bearer_of, number_of, version_numbers
from holdfast.errors import Damaged, InvalidValue, SessionNotFound
from holdfast.ids import NamespaceId
from holdfast.model.sessions import SessionRow, SessionRows, VersionRow


def find_row(
    transaction: Transaction, handle: Handle, session_id: str, *, now: datetime
) -> SessionRows | None:
    """Returns a session with its newest version; None if it is not there, or past its time."""
    return alive(transaction.find_session(handle.tenant_id, handle.name, session_id), now=now)


def alive(found: SessionRows | None, *, now: datetime) -> SessionRows | None:
    """Returns what was found, unless it was deleted, set aside, or is past its time."""
    if found is None or found[0].deleted_at is not None or not found[0].is_present:
        return None
    expires_at = found[0].expires_at
    return None if expires_at is not None and expires_at <= now else found


def get_row(
    transaction: Transaction, handle: Handle, session_id: str, *, now: datetime
) -> SessionRows:
    """Returns a session with its newest version; raises `SessionNotFound`."""
    found = find_row(transaction, handle, session_id, now=now)
    if found is None:
        raise SessionNotFound(session_id)
    return found


def check_gone(
    transaction: Transaction,
    handle: Handle,
    namespace_id: NamespaceId,
    session_id: str,
    number: int,
) -> None:
    """Raises `Damaged` if a version that is not there is one of a session that is."""
    found = transaction.find_session(handle.tenant_id, handle.name, session_id)
    if found is None or found[0].namespace_id != namespace_id:
        return
    if bearer_of(transaction, found[0], number) is not None:
        message = f"version {number} of session {session_id} is missing"
        raise Damaged(message)


def check_number(wanted: int | None) -> None:
    """Raises `InvalidValue` unless this can be the number of a version."""
    if isinstance(wanted, bool) or not isinstance(wanted, int | None):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped callers
        raise InvalidValue("a version is a number")


def get_version(transaction: Transaction, session: SessionRow, wanted: int) -> VersionRow:
    """Returns a version by its number; a negative one counts from the newest.

    Raises `VersionNotFound`.
    """
    check_number(wanted)
    number = number_of(session, wanted, version_numbers(transaction, session))
    found = transaction.find_version(session.namespace_id, session.id, number)
    if found is None:
        message = f"version {number} of session {session.id} is missing"
        raise Damaged(message)
    return found
