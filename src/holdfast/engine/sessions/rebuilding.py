"""Makes the row of a session anew from what else knows it.

What a row says stands in the plane's entry, in the session's newest version and in the journal. A
row in which one bit was flipped is put back as it was: its hash says so. One that is damaged beyond
that, or lost, is made of the entry of a session that is present, and of the journal for one that
has ended, of which only the metadata is lost.
"""

from msgspec.structs import replace

from holdfast.catalog.sessions import to_traced
from holdfast.catalog.transaction import Transaction
from holdfast.engine.journal.chain import details_of, is_whole
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.view import View
from holdfast.engine.sessions.following import rows_of, session_of
from holdfast.engine.sessions.purging import SessionsInUse
from holdfast.entries import Session
from holdfast.errors import Damaged, VaultTooNew
from holdfast.instants import from_us, to_us
from holdfast.model.basics import Head, Plane
from holdfast.model.sessions import SessionRow, VersionRow
from holdfast.model.traces import TraceRow


def rebuild(transaction: Transaction, handle: Handle, head: Head) -> tuple[int, list[str]]:
    """Makes damaged rows of sessions anew, and those that are lost; the head has to be locked.

    Returns how many were put right, and the ids of those of which something is lost.
    """
    if transaction.is_lagging(head.namespace_id):
        return 0, []
    try:
        view = View.of_head(handle.objects, transaction, head, Plane.SESSIONS)
        held = {key.decode("utf-8", "replace"): session_of(data) for key, data in view.iterate()}
    except (Damaged, VaultTooNew):
        return 0, []  # What the plane lacks is named, and it says nothing then.
    count, lost = transaction.mend_formers(head.namespace_id)
    _give_up(transaction, handle, head, lost)
    for row in transaction.damaged_sessions(head.namespace_id):
        if transaction.mend_session(row):
            count += 1
        elif row.id not in held:
            if transaction.has_versions(head.namespace_id, row.id):
                _rebuild_ended(transaction, head, row.id)
                lost.append(row.id)
            else:
                transaction.drop_session(row)  # None of this namespace's.
                count += 1
    count += _begin_at_first(transaction, head)
    sound = {*transaction.present_ids(head.namespace_id)}
    sound -= {row.id for row in transaction.damaged_sessions(head.namespace_id)}
    for session_id, entry in held.items():
        if session_id not in sound:
            made = _present(transaction, head, session_id, entry)
            if made is None:
                lost.append(session_id)
            else:
                transaction.replace_session(made)
                count += 1
    return count + transaction.mend_session_count(head.namespace_id), lost


def _give_up(transaction: Transaction, handle: Handle, head: Head, ids: list[str]) -> None:
    """Lets go of who had an id before, if that row is beyond mending and no snapshot holds it.

    With the versions that are nobody's then: they would keep those from theirs who have the id.
    """
    if not ids:
        return
    held = SessionsInUse(handle.context, head.tenant_id)
    try:
        held.look(transaction)
    except (Damaged, VaultTooNew):
        return  # What cannot be read may hold any of them.
    for session_id in dict.fromkeys(ids):
        place = head.namespace_id, session_id
        try:
            now = transaction.find_holder(*place)
        except Damaged:
            continue
        sound = [*transaction.sound_formers(*place), *([] if now is None else [now])]
        began = {to_us(each.created_at) for each in sound}
        if now is None or not held.beginnings(session_id) <= began:
            continue
        transaction.drop_damaged_formers(*place)
        first = 0
        for each in sound:
            transaction.drop_versions(replace(each, since=first, version=each.first - 1))
            first = each.version + 1
        transaction.drop_entities_but(*place, began)


def _begin_at_first(transaction: Transaction, head: Head) -> int:
    """Gives sessions their first versions that are counted from a later one; returns how many.

    Forks once had that from their origins. Nobody else had such an id, and its version 0 was made
    when the session began: so it is the session's own.
    """
    count = 0
    for session_id in transaction.broken_histories(head.namespace_id):
        place = head.namespace_id, session_id
        try:
            session = transaction.find_holder(*place)
            if session is None or not session.first or transaction.former_sessions(*place):
                continue
            version = transaction.find_version(*place, 0)
        except Damaged:
            continue  # `verify` names it.
        if version is not None and version.created_at == session.created_at:
            transaction.set_session(replace(session, since=None))
            count += 1
    return count


def _present(
    transaction: Transaction, head: Head, session_id: str, entry: Session
) -> SessionRow | None:
    """Returns the row of a session that the plane holds; None if too little is known of it."""
    newest = _newest(transaction, head, session_id)
    if newest is None:
        return None
    session, _ = rows_of(head.namespace_id, session_id, entry, now=newest.created_at)
    session = replace(session, version=newest.number)
    first = _first(transaction, head, session_id)
    if not first:
        return None if first is None else _told(transaction, head, session)
    # What the journal says of the id may be said of those that had it before.
    return replace(session, since=first)


def _rebuild_ended(transaction: Transaction, head: Head, session_id: str) -> None:
    """Makes the row of a session that is over anew; one of which too little is known stays."""
    made = _ended(transaction, head, session_id)
    if made is not None:
        transaction.replace_session(made)


def _ended(transaction: Transaction, head: Head, session_id: str) -> SessionRow | None:
    """Returns the row of a session that is over; None if too little is known of it.

    The journal does not tell of the beginning of one that came with a fork or an import.
    """
    newest = _newest(transaction, head, session_id)
    first = _first(transaction, head, session_id)
    if newest is None or first is None:
        return None
    begun = _made_by(transaction, head, session_id, first)
    if begun is None and first == 0:
        begun = _whole(transaction.traces_of(head, session_id, oldest_first=True))
    if begun is None:
        return None
    session = SessionRow(
        namespace_id=head.namespace_id,
        id=session_id,
        agent_id=begun.agent_id or "",
        user_id=begun.user_id,
        metadata="{}",
        created_at=from_us(begun.created_us),
        updated_at=newest.created_at,
        expires_at=None,
        version=newest.number,
        branch=newest.branch,
        turns=newest.turns,
        is_present=False,
        since=first or None,
    )
    formers = transaction.sound_formers(head.namespace_id, session_id)
    if any(each.created_at == session.created_at for each in formers):
        return None  # It began a little before: no two of an id do so at once.
    told = session if first else _told(transaction, head, session)
    last = _whole(transaction.traces_of(head, session_id, oldest_first=False))
    is_over = last is not None and last.action in ("session.deleted", "session.expired")
    over_at = told.updated_at if last is None else from_us(last.created_us)
    return replace(told, deleted_at=over_at if is_over else None)


def _made_by(transaction: Transaction, head: Head, session_id: str, number: int) -> TraceRow | None:
    """Returns what the journal says of a version with which a session was created, if one was."""
    place = head.namespace_id, session_id
    rows = transaction.list_traced_versions(
        head.tenant_id, *place, after=number - 1, before=number + 1, most=1
    )
    try:
        trace = to_traced(*place, rows[0])[1] if rows else None
    except Damaged:
        return None
    return _whole(trace) if trace is not None and trace.action == "session.created" else None


def _told(transaction: Transaction, head: Head, session: SessionRow) -> SessionRow:
    """Returns a session with what the journal says of it: its origin, and when it last changed."""
    begun = _whole(transaction.traces_of(head, session.id, oldest_first=True))
    if begun is not None and begun.action == "session.forked":
        known = details_of(begun)
        origin = {"forked_from": known.get("source_session")}
        session = replace(session, **origin, forked_version=known.get("fork_version"))
    last = _whole(transaction.traces_of(head, session.id, oldest_first=False))
    if last is not None:
        session = replace(session, updated_at=max(session.updated_at, from_us(last.created_us)))
    return session


def _newest(transaction: Transaction, head: Head, session_id: str) -> VersionRow | None:
    try:
        return transaction.newest_version(head.namespace_id, session_id)
    except Damaged:
        return None  # `verify` names it.


def _first(transaction: Transaction, head: Head, session_id: str) -> int | None:
    """Returns the first version of who has an id; None if that is not known, or there is none.

    Of those between that one and the last who had it before, nothing is left if they are gone for
    good.
    """
    place = head.namespace_id, session_id
    try:
        earlier = transaction.former_sessions(*place)
    except Damaged:
        return None
    return transaction.next_number(*place, after=earlier[-1].version if earlier else -1)


def _whole(row: TraceRow | None) -> TraceRow | None:
    return row if row is not None and is_whole(row) else None
