"""Sessions whose time is over end: they leave the plane, and a trace says so.

A session is out of reach from the moment at which its time is over, whoever asks. That it ended is
told once: under the lock of its namespace, by whoever is first. A server looks every second for
what is due; without one, the next who looks for a session, or at traces, does it. Its memories
stay, and so do its history and conversation until collection: see `purging.py`.

Nobody did it, so it is no change that an undo could take back: `is_lapse_alone` says so.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.core.rounds import do_all
from holdfast.engine.objects.content import NamesOnly
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.overlays import settle_session
from holdfast.engine.planes.writers import UPKEEP
from holdfast.engine.sessions.writing import Draft, entry_of, write
from holdfast.entries import encode_entry
from holdfast.errors import (
    Busy,
    Damaged,
    HoldfastError,
    LimitExceeded,
    NamespaceNotFound,
    StorageFull,
    Unavailable,
)
from holdfast.ids import TenantId
from holdfast.model.basics import Plane, Root
from holdfast.model.sessions import SessionRow
from holdfast.tree import Edit, diff

MOST: Final = 100
"""Sessions that end in one go: a writer never waits long for its turn."""


def end_lapsed(context: Context, tenant_id: TenantId | None = None) -> int:
    """Ends some of the sessions whose time is over, of a tenant or of all; returns how many.

    What fails is raised once all others have had their turn: one that cannot be ended is in
    nobody's way.
    """
    now, ended, stuck = context.clock(), 0, 0
    failed: HoldfastError | None = None
    while ended < MOST:
        groups = dict[tuple[TenantId, str], list[str]]()
        with context.catalog.read() as transaction:
            found = transaction.sessions_to_end(tenant_id, now=now, most=MOST - ended, skip=stuck)
        for tenant, name, session_id in found:
            groups.setdefault((tenant, name), []).append(session_id)
        done = list[int]()
        first = do_all(
            partial(_end_each, Handle(context, *place, door=UPKEEP), ids, now=now, done=done)
            for place, ids in groups.items()
        )
        failed = failed or first
        ended += sum(done)
        stuck += len(found) - sum(done)
        # Where nobody can write now, the rest is not tried: a look costs no more for all who wait.
        if not found or isinstance(first, Busy | StorageFull | Unavailable):
            break
    if failed is not None:
        raise failed
    return ended


def notice_lapsed(context: Context, tenant_id: TenantId) -> None:
    """Ends what is due for somebody who wants to look, and who is not kept from that.

    Where it cannot be written now, it is told at another time; what is damaged is told to whoever
    asks for that.
    """
    with suppress(Busy, Damaged, LimitExceeded, Unavailable):
        while end_lapsed(context, tenant_id) == MOST:
            pass


def is_lapse_alone(
    transaction: Transaction, handle: Handle, source: StagedObjects, *, old: Root, new: Root
) -> bool:
    """Says whether all that differs between two roots is that sessions ended by themselves.

    As they were in the old one: what was changed of a session before its time was over was changed
    by somebody.
    """
    sessions = new.plane(Plane.SESSIONS)
    if old.replacing(sessions=sessions) != new:
        return False
    edits = diff(source, old.plane(Plane.SESSIONS), sessions)
    return all(_has_lapsed(transaction, handle, source, edit) for edit in edits)


def _has_lapsed(
    transaction: Transaction, handle: Handle, source: StagedObjects, edit: Edit
) -> bool:
    if edit.new is not None:
        return False
    found = transaction.find_session(handle.tenant_id, handle.name, edit.key.decode())
    # One that somebody deleted was over sooner.
    if found is None or found[0].deleted_at is None or found[0].deleted_at != found[0].expires_at:
        return False
    return settle_session(NamesOnly(), source, encode_entry(entry_of(*found))) == edit.old


def _end_each(handle: Handle, ids: Sequence[str], *, now: datetime, done: list[int]) -> None:
    """Ends sessions of a namespace, all at once; one by one where something about one is wrong."""
    try:
        done.append(_end(handle, ids, now=now))
    except Damaged:
        if len(ids) == 1:
            raise
        parts = (partial(_end_each, handle, [each], now=now, done=done) for each in ids)
        failed = do_all(parts)
        if failed is not None:
            raise failed from None


def _end(handle: Handle, ids: Sequence[str], *, now: datetime) -> int:
    def compute(draft: Draft) -> int:
        for session_id in ids:
            found = draft.transaction.find_session(handle.tenant_id, handle.name, session_id)
            # Another may have been faster, or have given it a new term.
            if found is None or not found[0].is_present or not _is_over(found[0], now):
                continue
            session, version = found
            gone = replace(session, is_present=False, deleted_at=session.expires_at)
            draft.transaction.set_session(gone)
            draft.remove(session, version)
            draft.note(gone, "session.expired", _last_words(session))
        return len(draft.traces)

    try:
        return write(handle, compute, about=(ids[0], None))
    except NamespaceNotFound:
        return 0  # Deleted since we looked: it goes as a whole.


def _is_over(session: SessionRow, now: datetime) -> bool:
    return session.expires_at is not None and session.expires_at <= now


def _last_words(session: SessionRow) -> dict[str, Any]:
    if session.expires_at is None:
        return {}
    return {
        "expired_at": session.expires_at.isoformat(),
        "ttl_seconds": int((session.expires_at - session.created_at).total_seconds()),
        "last_activity": session.updated_at.isoformat(),
        "turn_count": session.turns,
    }
