"""The plane of memories: what a map holds for each, and how rows and map go together.

The rows of a namespace are its memories as they are now, and what is searched. The plane is what
snapshots hold of them. Whoever changes a memory changes its row and says in what is pending that
it did; the next snapshot takes what the row holds then. Where a restore, an undo, a merge or an
import moves the plane, the rows and the index of their words follow in the same transaction: what
the new root does not hold is deleted, and can be recovered as what somebody deleted can.

A fork holds its memories in the plane and has no rows for them until somebody asks: a fork costs
the same whatever it holds. `catch_up` writes them. Where rows and plane differ,
`find_memory_faults` says it.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice, zip_longest
from typing import Final, TypeVar

import msgspec

from holdfast.catalog.pending import mark_of
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import check_quota
from holdfast.engine.journal.chain import append
from holdfast.engine.memory.fields import terms_of
from holdfast.engine.objects import content
from holdfast.engine.objects.content import NamesOnly
from holdfast.engine.objects.reader import Objects
from holdfast.engine.planes.forms import Part, memory_of, read_part
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.missing import note_added
from holdfast.engine.planes.ownership import note_change
from holdfast.engine.planes.view import View
from holdfast.engine.planes.writers import written
from holdfast.entries import IN_ROW, Inline, Memory, encode_entry
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, ObjectId, TenantId
from holdfast.instants import from_us, to_us
from holdfast.model.basics import Head, Plane, Size
from holdfast.model.memories import MemoryRow, Time
from holdfast.model.sessions import SessionRow
from holdfast.model.traces import Trace
from holdfast.tree import diff, get_many, iterate

BATCH: Final = 500
"""Memories that are read or written together: each may have 100 KB, most have 100 bytes."""

_body_decoder: Final = msgspec.msgpack.Decoder(tuple[str, str, str])


T = TypeVar("T")


def note(
    transaction: Transaction,
    handle: Handle,
    head: Head,
    changes: Mapping[str, MemoryRow | None],
    *,
    old: Mapping[str, MemoryRow],
    more: Size,
) -> None:
    """Says what memories became, by id, and in `old` what was there of them.

    In the transaction that changes their rows, and has locked the head. Raises `QuotaExceeded` if
    the namespace may not hold so much more.
    """
    check_quota(head, more)
    sequence = head.sequence + 1
    writer = written(handle, head)
    namespace_id, plane = head.namespace_id, Plane.MEMORIES
    rows = [(name.encode(), None if row is None else IN_ROW) for name, row in changes.items()]
    transaction.note_pending(namespace_id, plane, rows, sequence=sequence, more=more, writer=writer)
    if len(rows) == 1:
        note_added(
            handle.context, namespace_id, head.unfolded, mark_of(plane, rows[0][0]), is_sure=False
        )
    if handle.door.within():
        # The rows are what is now, and the next change overwrites them.
        note_change(
            transaction,
            handle,
            namespace_id,
            plane,
            old={name.encode(): _entry(row, Inline) for name, row in old.items()},
            new={name.encode(): row and _entry(row, Inline) for name, row in changes.items()},
        )


def delete_those_of(
    transaction: Transaction,
    handle: Handle,
    head: Head,
    session: SessionRow,
    *,
    others: tuple[Time, ...],
    now: datetime,
) -> int:
    """Deletes what belongs to a session, which is being deleted; returns how many memories.

    What was remembered while others had its id stays.
    """
    ready(transaction, handle, head)
    rows = transaction.list_memories_of(
        head.namespace_id, session.id, since=session.created_at, others=others
    )
    found = {row.id: row for row in rows}
    if found:
        transaction.put_memories(head.namespace_id, [], gone=[*found], now=now)
        gone = Size(-len(found), -sum(len(row.content.encode()) for row in found.values()))
        # The head as it is by now: whoever deletes the session has moved it on.
        head = handle.lock(transaction)
        note(transaction, handle, head, dict.fromkeys(found), old=found, more=gone)
    return len(found)


def settled(
    transaction: Transaction,
    sink: content.Sink,
    namespace_id: NamespaceId,
    changes: Mapping[bytes, bytes | None],
) -> dict[bytes, bytes | None]:
    """Returns what is pending of memories as the map has it; what it needs goes to the sink."""
    done = dict(changes)
    in_rows = [key for key, entry in changes.items() if entry == IN_ROW]
    for batch in _batches(in_rows):
        names = [key.decode() for key in batch]
        rows = {row.id: row for row in transaction.memories_by_id(namespace_id, names)}
        for key, name in zip(batch, names, strict=True):
            if name not in rows:
                message = f"the catalog has lost the row of the memory {name!r}"
                raise Damaged(message)
            done[key] = entry_of(sink, rows[name])
    return done


def all_pending(
    transaction: Transaction, namespace_id: NamespaceId
) -> list[tuple[Plane, bytes, bytes | None]]:
    """Returns all memories of a namespace as if each were pending: the plane anew, from rows."""
    rows = every_row(transaction, namespace_id)
    return [(Plane.MEMORIES, row.id.encode(), IN_ROW) for row in rows]


def note_anew(transaction: Transaction, source: content.Source, head: Head) -> None:
    """Makes pending what differs between the rows of a namespace and its base root.

    Of no mark: the head, which is locked, has to be marked anew.
    """
    if is_lagging(transaction, head):
        return
    root = source.get_root(head.root).plane(Plane.MEMORIES)
    left, changes = dict(iterate(source, root)), dict[bytes, bytes | None]()
    for row in every_row(transaction, head.namespace_id):
        key = row.id.encode()
        if left.pop(key, None) != entry_of(NamesOnly(), row):
            changes[key] = IN_ROW
    changes |= dict.fromkeys(left)
    transaction.put_pending(
        head.namespace_id, Plane.MEMORIES, changes.items(), sequence=head.sequence + 1
    )


def without_rows(
    transaction: Transaction, source: Objects, head: Head
) -> dict[bytes, bytes | None]:
    """Returns the memories that the plane of a head holds and no row does.

    Each with what the base root has for it; None if that has nothing.
    """
    view = View.of_head(source, transaction, head, Plane.MEMORIES)
    base, gone = source.get_root(head.root).plane(Plane.MEMORIES), list[bytes]()
    for batch in _batches(key for key, _ in view.iterate()):
        names = [key.decode("utf-8", "replace") for key in batch]
        there = {row.id for row in transaction.memories_by_id(head.namespace_id, names)}
        gone += [key for key, name in zip(batch, names, strict=True) if name not in there]
    known = get_many(source, base, gone) if gone else {}
    return {key: known.get(key) for key in gone}


def bring_back(
    transaction: Transaction,
    source: content.ChunkSource,
    namespace_id: NamespaceId,
    entries: Mapping[bytes, bytes],
    *,
    now: datetime,
) -> None:
    """Writes the rows of memories anew, as entries have them."""
    for batch in _batches(entries.items()):
        _put(transaction, source, namespace_id, batch, gone=(), now=now)


def every_row(transaction: Transaction, namespace_id: NamespaceId) -> Iterator[MemoryRow]:
    """Yields all memories of a namespace, by id."""
    after = ""
    while page := transaction.all_memories(namespace_id, after=after, most=BATCH):
        yield from page
        after = page[-1].id


def entry_of(sink: content.Sink, row: MemoryRow) -> bytes:
    """Returns the entry of a memory; what it needs goes to the sink."""
    return _entry(row, lambda part: content.as_value(sink, part))


def _entry(row: MemoryRow, make: Part) -> bytes:
    body = msgspec.msgpack.encode((row.content, row.tags, row.metadata))
    return encode_entry(
        Memory(
            body=encode_entry(make(body)),
            bytes=len(row.content.encode()),
            kind=row.type,
            session_id=row.session_id,
            user_id=row.user_id,
            agent_id=row.agent_id,
            is_searchable=row.is_searchable,
            version=row.version,
            created_us=to_us(row.created_at),
            updated_us=to_us(row.updated_at),
            embedding=None if row.embedding is None else encode_entry(make(row.embedding)),
        )
    )


def row_of(
    source: content.ChunkSource, namespace_id: NamespaceId, key: bytes, entry: Memory
) -> MemoryRow:
    """Returns the row of a memory of which an entry is all that is known."""
    try:
        text, tags, metadata = _body_decoder.decode(read_part(source, entry.body))
        row = MemoryRow(
            namespace_id=namespace_id,
            id=key.decode(),
            session_id=entry.session_id,
            user_id=entry.user_id,
            agent_id=entry.agent_id,
            type=entry.kind,
            tags=tags,
            metadata=metadata,
            is_searchable=entry.is_searchable,
            version=entry.version,
            created_at=from_us(entry.created_us),
            updated_at=from_us(entry.updated_us),
            terms="",
            content=text,
            embedding=None if entry.embedding is None else read_part(source, entry.embedding),
        )
        return msgspec.structs.replace(row, terms=terms_of(row))
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, ValueError) as exc:
        message = f"the memory {key!r} cannot be read: {exc}"
        raise Damaged(message) from exc


def memory_text(source: content.ChunkSource, key: bytes, entry: Memory) -> str:
    """Returns what a memory is, a line for each part, to be compared with what it was."""
    row = row_of(source, NamespaceId(0), key, entry)
    lines = [f"type: {row.type}"]
    for kind, name in (("session", row.session_id), ("user", row.user_id), ("agent", row.agent_id)):
        lines += [] if name is None else [f"{kind}: {name}"]
    lines += [f"tags: {row.tags}"] if row.tags != "[]" else []
    lines += [f"metadata: {row.metadata}"] if row.metadata != "{}" else []
    lines += [] if row.is_searchable else ["not searched"]
    return "\n".join([*lines, "", row.content]) + "\n"


def follow(
    transaction: Transaction,
    source: content.Source,
    old: ObjectId,
    new: ObjectId,
    *,
    namespace_id: NamespaceId,
    now: datetime,
) -> None:
    """Makes the rows of memories that differ between two roots of the plane those of the new."""
    for batch in _batches(diff(source, old, new)):
        gone = [edit.key.decode() for edit in batch if edit.new is None]
        there = [(edit.key, edit.new) for edit in batch if edit.new is not None]
        _put(transaction, source, namespace_id, there, gone=gone, now=now)


def ready(transaction: Transaction, handle: Handle, head: Head) -> None:
    """Writes the rows of a fork's memories, if that is still to be done, in a write transaction."""
    if is_lagging(transaction, head):
        catch_up(transaction, handle, head)


def is_lagging(transaction: Transaction, head: Head) -> bool:
    """Says whether the memories of a fork have no rows yet."""
    return head.fork_of is not None and transaction.is_lagging_memories(head.namespace_id)


@contextmanager
def looking(handle: Handle) -> Generator[tuple[Transaction, Head | None]]:
    """Opens the rows of memories to look at, with the head: those of a fork are there by then."""
    catalog = handle.context.catalog
    with catalog.read() as transaction:
        head = handle.find_head(transaction)
        if head is None or not is_lagging(transaction, head):
            yield transaction, head
            return
    with catalog.write() as transaction:
        ready(transaction, handle, handle.lock(transaction))
    with catalog.read() as transaction:
        yield transaction, handle.find_head(transaction)


def catch_up(transaction: Transaction, handle: Handle, head: Head) -> None:
    """Writes the rows of the memories that a fork was made with."""
    source = handle.objects_in(transaction)
    shown = View.of_head(source, transaction, head, Plane.MEMORIES).iterate()
    # What was changed since has a row, and says so. The oldest first: they are numbered anew.
    made = [(key, entry) for key, entry in shown if entry != IN_ROW]
    made.sort(key=lambda pair: (memory_of(pair[1]).created_us, pair[0]))
    now = handle.context.clock()
    for batch in _batches(made):
        _put(transaction, source, head.namespace_id, batch, gone=(), now=now)
    transaction.drop_lagging_memories(head.namespace_id)


def _put(
    transaction: Transaction,
    source: content.ChunkSource,
    namespace_id: NamespaceId,
    there: Iterable[tuple[bytes, bytes]],
    *,
    gone: Sequence[str],
    now: datetime,
) -> None:
    rows = [row_of(source, namespace_id, key, memory_of(data)) for key, data in there]
    transaction.put_memories(namespace_id, rows, gone=gone, now=now)


def _batches(given: Iterable[T]) -> Iterator[list[T]]:
    left = iter(given)
    while batch := list(islice(left, BATCH)):
        yield batch


def purge_memories(context: Context, tenant_id: TenantId, *, before: datetime) -> int:
    """Lets go for good of what was deleted by then; returns how many memories that were."""
    with context.catalog.write() as transaction:
        count = transaction.purge_memories(tenant_id, before=before)
        if count:
            told = Trace(action="memory.purged", resource_type="memory", details={"count": count})
            append(transaction, context, tenant_id, told)
    return count


def find_memory_faults(
    context: Context, transaction: Transaction, tenant_id: TenantId
) -> Iterator[tuple[str, str]]:
    """Yields what is wrong, and why; raises `Damaged` where a plane cannot be read at all."""
    for head in transaction.iter_heads(tenant_id):
        # The rows of a fork are written when somebody first asks for them.
        if not is_lagging(transaction, head):
            yield from _find_in(context, transaction, head)


def _find_in(context: Context, transaction: Transaction, head: Head) -> Iterator[tuple[str, str]]:
    objects = Objects(context, head.tenant_id, transaction)
    shown = View.of_head(objects, transaction, head, Plane.MEMORIES).iterate()
    for entry, row in zip_longest(shown, every_row(transaction, head.namespace_id)):
        key, data = entry or (None, None)
        is_there = row is not None and key == row.id.encode()
        if row is not None and is_there and data in (IN_ROW, entry_of(NamesOnly(), row)):
            continue
        # From here on the two are out of step: one fault says it.
        keys = ([entry[0]] if entry else []) + ([row.id.encode()] if row else [])
        name = min(keys).decode(errors="replace")
        yield f"memories: {name}", f"its row and the plane of {head.name!r} differ"
        return
