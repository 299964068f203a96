"""What an archive tells of a namespace, and how it is written: one member for each entry.

Not here: which moment is told, and the file that it goes to (`transfer.py`).
"""

from collections.abc import Iterator
from itertools import chain

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.archives.arriving import named_by
from holdfast.engine.archives.memoryfile import MEMORY_NAME, memory_members
from holdfast.engine.archives.sessionfile import (
    SESSION_NAME,
    TURNS_NAME,
    Conversation,
    measure,
    write_session,
    write_turns,
)
from holdfast.engine.archives.survey import FILES_PREFIX, VALUE_NAME
from holdfast.engine.archives.tarwrite import TarWriter
from holdfast.engine.files.editing import MAX_MODE, USUAL_FILE_MODE
from holdfast.engine.objects import content
from holdfast.engine.objects.reader import Objects
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.sessions.following import session_of
from holdfast.entries import Blob, Directory, Entry, Inline, Link, Session, decode_entry, twin_of
from holdfast.errors import Damaged
from holdfast.ids import TenantId, object_id_of
from holdfast.model.basics import Plane, Root, Size
from holdfast.storekeys import from_store_key
from holdfast.tree import build, iterate


class Contents:
    """What there is to export, as an archive tells it.

    Its root is that of the namespace, but that a session's branch stands under the hash of its
    conversation: what an importer can compute, too.
    """

    def __init__(
        self,
        transaction: Transaction,
        tenant_id: TenantId,
        source: Objects | StagedObjects,
        root: Root,
    ) -> None:
        self._transaction, self._tenant_id = transaction, tenant_id
        self.source, self.root = source, root
        self.size = Size()
        for plane in (Plane.FILES, Plane.STORE):
            for _, data in iterate(source, root.plane(plane)):
                self.size += Size(1, decode_entry(data).size)
        self.conversations: list[Conversation] = []
        rows = list[tuple[bytes, bytes]]()
        for session_id, entry in self.sessions():
            found = measure(self.turns(entry))
            self.conversations.append(found)
            rows.append((session_id.encode(), named_by(entry, found.digest)))
            self.size += Size(1, entry.size)
        for _, data in iterate(source, root.plane(Plane.MEMORIES)):
            self.size += Size(1, decode_entry(data).size)
        told = root.replacing(sessions=build(rows).root)
        self.root_id = object_id_of(told.encode())

    def sessions(self) -> Iterator[tuple[str, Session]]:
        """Yields sessions by id."""
        for key, data in iterate(self.source, self.root.plane(Plane.SESSIONS)):
            yield key.decode(), session_of(data)

    def turns(self, entry: Session) -> Iterator[bytes]:
        """Yields the lines of a session's conversation."""
        return write_turns(self._transaction, self._tenant_id, entry)


def write_entries(writer: TarWriter, told: Contents) -> Iterator[None]:
    """Writes one member for each entry, in the order of the maps; yields after each."""
    source, root = told.source, told.root
    for key, data in iterate(source, root.plane(Plane.FILES)):
        _write_path(writer, source, FILES_PREFIX + key, decode_entry(data))
        yield
    for number, (key, data) in enumerate(iterate(source, root.plane(Plane.STORE))):
        _write_value(writer, source, VALUE_NAME % number, key, decode_entry(data))
        yield
    for number, (session_id, entry) in enumerate(told.sessions()):
        text = write_session(session_id, entry, source)
        writer.add_file(SESSION_NAME % number, [text], size=len(text), mode=USUAL_FILE_MODE)
        if entry.turns:
            size, lines = told.conversations[number].bytes, told.turns(entry)
            writer.add_file(TURNS_NAME % number, lines, size=size, mode=USUAL_FILE_MODE)
        yield
    for number, text in enumerate(memory_members(source, root.plane(Plane.MEMORIES))):
        writer.add_file(MEMORY_NAME % number, [text], size=len(text), mode=USUAL_FILE_MODE)
        yield


def _write_path(
    writer: TarWriter, source: Objects | StagedObjects, name: bytes, entry: Entry
) -> None:
    match entry:
        case Inline() | Blob() if 0 <= entry.mode <= MAX_MODE:
            parts = content.stream(source, entry)
            writer.add_file(
                name,
                parts,
                size=entry.size,
                mode=entry.mode,
                mtime_ns=entry.mtime_ns,
                twin=twin_of(entry),
            )
        case Link():
            writer.add_link(name, entry.target, mtime_ns=entry.mtime_ns)
        case Directory() if 0 <= entry.mode <= MAX_MODE:
            writer.add_directory(name, mode=entry.mode)
        case _:
            raise Damaged("an entry is nothing that the files plane can hold")


def _write_value(
    writer: TarWriter, source: Objects | StagedObjects, name: bytes, key: bytes, entry: Entry
) -> None:
    if not isinstance(entry, Inline | Blob) or entry.mode or entry.mtime_ns:
        raise Damaged("an entry is nothing that the store can hold")
    # All but the value: an empty one takes two bytes, and its content is written as it is read.
    before = msgspec.msgpack.encode((*from_store_key(key), b""))[:-2] + _bin_header(entry.size)
    parts = chain([before], content.stream(source, entry))
    writer.add_file(name, parts, size=len(before) + entry.size, mode=USUAL_FILE_MODE)


def _bin_header(size: int) -> bytes:
    """Returns what msgpack puts before so many bytes."""
    for width, first in ((1, b"\xc4"), (2, b"\xc5")):
        if size < 1 << 8 * width:
            return first + size.to_bytes(width, "big")
    return b"\xc6" + size.to_bytes(4, "big")
