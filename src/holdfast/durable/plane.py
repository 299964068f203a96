"""The store plane as the catalog shows it, in memory; and how changes get from memory there.

Both cost what has changed. To look means to bring a picture of the plane up to date: the maps
are compared from the root that it shows, and what is pending is put on top. Opening a store is
to look at it with a picture that shows nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from holdfast.catalog.namespaces import LogPosition
from holdfast.catalog.transaction import Transaction
from holdfast.durable.records import Change, Mark
from holdfast.engine.objects import content
from holdfast.engine.objects.reader import Objects
from holdfast.engine.objects.stage import Stage
from holdfast.engine.pending.writing import put_rows
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.missing import check_whole
from holdfast.engine.planes.storevalues import iter_packed
from holdfast.engine.planes.unit import carry_out
from holdfast.entries import encode_entry
from holdfast.errors import NamespaceNotFound, ObjectMissing, PackMissing
from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP, Head, Plane, Size
from holdfast.store import Snapshot, Store
from holdfast.storekeys import from_store_key, to_store_key
from holdfast.tree import diff

BATCH: Final = 2048
"""Entries that are read together: as many of their chunks are found with one question."""

_Row = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Picture:
    """The store plane as it was when somebody looked."""

    mark: Mark
    root: ObjectId
    """The map that the head stood on."""
    base: Snapshot
    """What that map holds."""
    content: Snapshot
    """The same with what was pending: what the head showed."""


def nothing() -> Picture:
    """Returns the picture of a plane that nobody has looked at."""
    empty = Store().snapshot()
    return Picture(Mark(0, 0, 0), EMPTY_MAP, empty, empty)


def look(transaction: Transaction, handle: Handle, before: Picture) -> Picture:
    """Returns the plane as the head shows it now, at the cost of what has changed."""
    head = handle.get_head(transaction)
    try:
        return _look(transaction, handle, head, before)
    except (ObjectMissing, PackMissing):
        # What was seen before may have been collected since: compared with nothing, all that
        # is needed is what has to be there.
        return _look(transaction, handle, head, nothing())


def after_snapshot(transaction: Transaction, handle: Handle, before: Picture) -> Picture | None:
    """Returns the plane after a snapshot of what was seen; None if that is not all there was."""
    head = handle.get_head(transaction)
    seen = before.mark
    if Mark.of(head) != Mark(seen.namespace_id, seen.generation + 1, seen.sequence):
        return None
    return standing_on(transaction, handle, head, before.content)


def standing_on(transaction: Transaction, handle: Handle, head: Head, content: Snapshot) -> Picture:
    """Returns the plane of a head with nothing pending, whose content is known."""
    return Picture(Mark.of(head), _root_of(transaction, handle, head), content, content)


def flush(handle: Handle, before: Picture, now: Snapshot, log: LogPosition) -> Picture | None:
    """Writes what leads from the content seen before to another one, in one transaction.

    The same transaction says up to where the log is in the catalog. Returns None, with nothing
    written, if somebody has changed the head since it was seen.
    """
    changes = now.differences(before.content)

    def write(stage: Stage) -> Picture | None:
        rows = {
            to_store_key(namespace, key): _entry(stage, new) for namespace, key, _, new in changes
        }
        stage.seal()
        with handle.context.work() as transaction:
            head = handle.lock(transaction)
            if head.namespace_id != before.mark.namespace_id:
                raise NamespaceNotFound(handle.name)
            if Mark.of(head) != before.mark:
                return None
            sequence = head.sequence
            if rows:
                more = _growth(changes)
                left = put_rows(
                    transaction, handle, head, Plane.STORE, rows, stage=stage, more=more
                )
                sequence = left.head.sequence
            transaction.set_log(head.namespace_id, log)
        mark = Mark(head.namespace_id, head.generation, sequence)
        return Picture(mark, before.root, before.base, now)

    return carry_out(handle, write)


def _look(transaction: Transaction, handle: Handle, head: Head, before: Picture) -> Picture:
    objects = handle.objects.bound(transaction)
    root = _root_of(transaction, handle, head)
    picture = Store()
    picture.restore(before.base)
    edits = diff(objects, before.root, root)
    _put(picture, objects, ((edit.key, edit.new) for edit in edits))
    base = picture.snapshot()
    of = head.namespace_id, head.unfolded
    pending = check_whole(handle.context, transaction, of, plane=Plane.STORE)
    if pending is None:
        pending = transaction.range_pending(of[0], Plane.STORE, start=b"", stop=None)
    _put(picture, objects, pending)
    return Picture(Mark.of(head), root, base, picture.snapshot())


def _root_of(transaction: Transaction, handle: Handle, head: Head) -> ObjectId:
    return handle.objects.bound(transaction).get_root(head.root).plane(Plane.STORE)


def _put(picture: Store, objects: Objects, rows: Iterable[_Row]) -> None:
    """Puts rows into a store in memory, without decoding a value."""
    remaining = iter(rows)
    while batch := list(islice(remaining, BATCH)):
        picture.put_many(_iter_changes(objects, batch))


def _iter_changes(objects: Objects, rows: list[_Row]) -> Iterator[Change]:
    packed = dict(iter_packed(objects, ((key, data) for key, data in rows if data is not None)))
    for key, _ in rows:
        yield *from_store_key(key), packed.get(key)


def _entry(stage: Stage, data: bytes | None) -> bytes | None:
    return None if data is None else encode_entry(content.as_value(stage, data))


def _growth(changes: list[tuple[str, str, bytes | None, bytes | None]]) -> Size:
    entries = sum((new is not None) - (old is not None) for _, _, old, new in changes)
    size = sum(len(new or b"") - len(old or b"") for _, _, old, new in changes)
    return Size(entries, size)
