"""Makes pending again what was pending of sessions and memories, and is not found any more.

Nothing of it is lost: what a session or a memory is, its own rows say, and the map says what of
that the last snapshot has. Where a single row is missing its mark says which it was, even if
nothing differs. What has no row at all may have lost that, too: it is left alone here, and brought
back from the map.
"""

from collections.abc import Iterator
from contextlib import suppress

from holdfast.catalog.pending import mark_of
from holdfast.catalog.transaction import Transaction
from holdfast.engine.memory import plane as memoryplane
from holdfast.engine.objects.content import NamesOnly
from holdfast.engine.objects.reader import Objects
from holdfast.engine.planes import missing
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.overlays import settle_session
from holdfast.engine.planes.view import View
from holdfast.engine.planes.writers import written
from holdfast.engine.sessions.writing import entry_of
from holdfast.entries import IN_ROW, encode_entry
from holdfast.errors import Damaged, VaultTooNew
from holdfast.ids import NamespaceId
from holdfast.model.basics import Head, Plane, Size

Row = tuple[bytes, bytes | None]


def note_unfolded(transaction: Transaction, handle: Handle, namespace_id: NamespaceId) -> int:
    """Puts rows that a head lacks, which is locked; returns how many.

    Their marks are in its sum already.
    """
    head = transaction.lock_head(namespace_id)
    if head is None:
        return 0
    lacking = missing.find_all(head, transaction.sort_pending(namespace_id)[0])
    if not lacking:
        return 0
    count = 0
    for plane, find in ((Plane.SESSIONS, _sessions), (Plane.MEMORIES, _memories)):
        rows = list[Row]()
        with suppress(Damaged, VaultTooNew):  # Of what cannot be read, that is named.
            rows = [*find(transaction, handle, head, lacking)]
        if rows:
            sequence = transaction.advance_sequence(
                namespace_id, more=Size(), writer=written(handle, head)
            )
            transaction.put_pending(namespace_id, plane, rows, sequence=sequence)
        count += len(rows)
    return count


def _sessions(transaction: Transaction, handle: Handle, head: Head, lacking: int) -> Iterator[Row]:
    """Yields what the rows of sessions have that the plane has not."""
    if transaction.is_lagging(head.namespace_id):
        return
    objects = handle.objects.bound(transaction)
    shown = dict(View.of_head(objects, transaction, head, Plane.SESSIONS).iterate())
    for session_id in transaction.session_ids(head.namespace_id):
        key = session_id.encode()
        try:
            found = transaction.find_session(head.tenant_id, head.name, session_id)
        except Damaged:
            continue  # Its own rows are looked at when all is done that is pending.
        if found is None:
            continue
        entry = encode_entry(entry_of(*found)) if found[0].is_present else None
        is_there = _settled(objects, entry) == _settled(objects, shown.get(key))
        if not is_there or mark_of(Plane.SESSIONS, key) == lacking:
            yield key, entry


def _settled(objects: Objects, entry: bytes | None) -> bytes | None:
    """Returns a session as maps have it, or will have it."""
    return None if entry is None else settle_session(NamesOnly(), objects, entry)


def _memories(transaction: Transaction, handle: Handle, head: Head, lacking: int) -> Iterator[Row]:
    """Yields what the rows of memories have that the plane has not."""
    if memoryplane.is_lagging(transaction, head):
        return
    objects, plane = handle.objects.bound(transaction), Plane.MEMORIES
    shown = dict(View.of_head(objects, transaction, head, plane).iterate())
    gone = {each.encode() for each in transaction.memory_ids(head.namespace_id)}
    for row in memoryplane.every_row(transaction, head.namespace_id):
        key = row.id.encode()
        gone.discard(key)
        is_there = shown.get(key) in (IN_ROW, memoryplane.entry_of(NamesOnly(), row))
        if not is_there or mark_of(plane, key) == lacking:
            yield key, IN_ROW
    yield from ((key, None) for key in gone if key in shown or mark_of(plane, key) == lacking)
