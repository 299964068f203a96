"""Who only adds ends no session sooner: whatever it brings back, a term that was given stays.

A session whose term is over is out of reach, and goes with all of its history once no snapshot
holds it. Another state of it, an older one or one that came in an archive, has a term of its own.
Where a caller who only adds puts it in place, the session keeps the later end of the two, no end
being the latest, and the earlier beginning: how long it is given anew, should it lapse and come
back, is what lies between them (`reviving.py`). What a restore has set aside counts as what is
there: an undo brings it back. One that was deleted, or has lapsed, has no term any more.

Whoever plans a move of the head asks here before anything is made of where it leads, so that what
is told, what is stored and the row of the session agree. Turns that no version shows stay, too:
see `following.keep_conversation`.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions.following import session_of
from holdfast.entries import Session, encode_entry
from holdfast.instants import to_us
from holdfast.model.basics import Plane, Root
from holdfast.tree import Edit, apply, diff

TERMS_KEPT: Final = "terms_kept"
"""What details call the number of sessions whose term stayed."""


def keep_terms(
    transaction: Transaction,
    handle: Handle,
    stage: Stage,
    source: StagedObjects,
    *,
    shown: Root,
    goal: Root,
    selects: Callable[[bytes], bool] | None = None,
) -> tuple[Root, dict[str, object]]:
    """Returns what is to be shown, and what a snapshot says of the terms that were kept.

    Of sessions that are not selected, nothing is.
    """
    old, new = shown.plane(Plane.SESSIONS), goal.plane(Plane.SESSIONS)
    if not handle.context.adds_only or old == new:
        return goal, {}
    edits = (edit for edit in diff(source, old, new) if selects is None or selects(edit.key))
    kept = later_terms(transaction, handle, edits)
    if not kept:
        return goal, {}
    applied = apply(source, new, kept)
    stage.add_nodes(applied.nodes)
    return goal.replacing(sessions=applied.root), {TERMS_KEPT: len(kept)}


def later_terms(
    transaction: Transaction, handle: Handle, edits: Iterable[Edit]
) -> dict[bytes, bytes]:
    """Returns the entries of those that would end sooner than they do, with their terms kept."""
    kept = dict[bytes, bytes]()
    for edit in edits:
        term = None if edit.new is None else _term(transaction, handle, edit)
        if edit.new is not None and term is not None:
            entry = session_of(edit.new)
            if (longer := _with_term(entry, *term)) != entry:
                kept[edit.key] = encode_entry(longer)
    return kept


def shortens(handle: Handle, wanted: datetime | None, ends: datetime | None) -> bool:
    """Says whether a session has to end when it does, since who wants it sooner only adds."""
    return handle.context.adds_only and _is_sooner(_us(wanted), _us(ends))


def _term(transaction: Transaction, handle: Handle, edit: Edit) -> tuple[int, int | None] | None:
    """Returns when a session began and when it ends, of one that is there or was set aside."""
    if edit.old is not None:
        # As its row says, if there is one: that of a fork may be written yet.
        entry = session_of(edit.old)
        return entry.created_us, entry.expires_us
    found = transaction.find_session(handle.tenant_id, handle.name, edit.key.decode())
    if found is None or found[0].deleted_at is not None:
        return None
    return to_us(found[0].created_at), _us(found[0].expires_at)


def _with_term(entry: Session, begins: int, ends: int | None) -> Session:
    return replace(
        entry,
        created_us=min(entry.created_us, begins),
        expires_us=ends if _is_sooner(entry.expires_us, ends) else entry.expires_us,
    )


def _is_sooner(wanted: int | None, ends: int | None) -> bool:
    return wanted is not None and (ends is None or wanted < ends)


def _us(instant: datetime | None) -> int | None:
    return None if instant is None else to_us(instant)
