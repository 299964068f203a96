"""Takes a namespace out of a vault as one file, and brings such a file in again.

The file is a plain tar: a manifest, the files under `files/`, the store's values under `store/`,
sessions with their conversations under `sessions/`, memories under `memories/`. Ordinary tools
read it, and the same content always makes the same bytes. What comes in is not trusted. It is
surveyed from end to end before anything is written (`survey.py`), and what it then amounts to has
to have the very root that the manifest names; so an import is exactly what was exported, or an
error and no change. It is one step on the timeline, and can be undone. An archive from before
memories were a plane says nothing of them: importing it leaves them alone.

Two exports of the same content differ in the manifest's names alone, whatever vault they come
from: the root depends on the content and on nothing else.

What an archive tells of a namespace, and how it is written: one member for each entry.
"""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import chain
from typing import BinaryIO

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.archives.archivefile import FileName, Source, writing_to
from holdfast.engine.archives.arriving import Arriving, named_by
from holdfast.engine.archives.manifest import (
    ARCHIVE_FORMAT,
    MANIFEST_NAME,
    WITHOUT_MEMORIES,
    Manifest,
    named,
)
from holdfast.engine.archives.memoryfile import MEMORY_NAME, memory_members, read_memory
from holdfast.engine.archives.sessionfile import (
    SESSION_NAME,
    TURNS_NAME,
    Conversation,
    measure,
    write_session,
    write_turns,
)
from holdfast.engine.archives.survey import FILES_PREFIX, VALUE_NAME, Surveyed, read_value, survey
from holdfast.engine.archives.tarread import Member, MemberKind
from holdfast.engine.archives.tarwrite import TarWriter
from holdfast.engine.core.coverage import Lacking, lacking_in
from holdfast.engine.core.limits import check_quota
from holdfast.engine.core.paths import to_bytes
from holdfast.engine.files.editing import MAX_MODE, USUAL_FILE_MODE
from holdfast.engine.memory.plane import entry_of
from holdfast.engine.objects import content
from holdfast.engine.objects.ahead import look_ahead
from holdfast.engine.objects.reader import Objects
from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.engine.pending.fold import Folded, lacking_at
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.unit import carry_out
from holdfast.engine.sessions.following import session_of
from holdfast.engine.timeline.head import Move, advance, replacing
from holdfast.engine.timeline.restore import completed, folded_apart, folded_head, prove
from holdfast.engine.timeline.snapshots import find_current
from holdfast.entries import (
    Blob,
    Directory,
    Entry,
    Inline,
    Link,
    Session,
    decode_entry,
    encode_entry,
    twin_of,
    with_twin,
)
from holdfast.errors import Damaged, UnsafeArchive
from holdfast.ids import ObjectId, TenantId, object_id_of
from holdfast.model.archives import OF_SNAPSHOT, Imported
from holdfast.model.basics import Head, Kind, Plane, Root, Size, SnapshotInfo
from holdfast.operations.snapshots import Note
from holdfast.packs import ObjectKind
from holdfast.progress import Progress, no_progress
from holdfast.storekeys import from_store_key
from holdfast.tree import build, count, iterate

Reading = Callable[[], AbstractContextManager[Transaction]]
"""Opens a transaction to read rows of the moment that is exported."""


class Contents:
    """What there is to export, as an archive tells it.

    Its root is that of the namespace, but that a session's branch stands under the hash of its
    conversation: what an importer can compute, too.
    """

    def __init__(
        self,
        reading: Reading,
        tenant_id: TenantId,
        source: Objects | StagedObjects,
        root: Root,
    ) -> None:
        self._reading, self._tenant_id = reading, tenant_id
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
        with self._reading() as transaction:
            yield from write_turns(transaction, self._tenant_id, entry)


def write_entries(writer: TarWriter, told: Contents) -> Iterator[None]:
    """Writes one member for each entry, in the order of the maps; yields after each."""
    source, root = told.source, told.root
    for key, entry, objects in look_ahead(source, iterate(source, root.plane(Plane.FILES))):
        _write_path(writer, objects, FILES_PREFIX + key, entry)
        yield
    values = look_ahead(source, iterate(source, root.plane(Plane.STORE)))
    for number, (key, entry, objects) in enumerate(values):
        _write_value(writer, objects, VALUE_NAME % number, key, entry)
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
    writer: TarWriter,
    source: Objects | StagedObjects,
    name: bytes,
    entry: Entry,
    *,
    in_motion: bool = False,
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
                in_motion=in_motion,
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


def export(
    handle: Handle,
    target: FileName | BinaryIO,
    *,
    snapshot: SnapshotInfo | None = None,
    progress: Progress = no_progress,
) -> int:
    """Writes a snapshot, or what is there now, to a tar file; returns its number of entries.

    What is pending is part of what is there, and no snapshot is left behind. A file that has
    the target's name is replaced once the new one is on disk; an open file gets the bytes as they
    come. Where nothing is pending, it is the snapshot that the head stands on.
    """
    current = find_current(handle) if snapshot is None else None
    with _moment(handle, snapshot) as (reading, source, root_id, lacking):
        told = Contents(reading, handle.tenant_id, source, source.get_root(root_id))
        # Somebody may have written since: then no snapshot is what goes out.
        is_current = current is not None and current.root == root_id
        manifest = _describe(handle, current if is_current else snapshot, told, lacking)
        with _written_to(target) as writer:
            text = manifest.encode()
            writer.add_file(MANIFEST_NAME, [text], size=len(text), mode=USUAL_FILE_MODE)
            for done, _ in enumerate(write_entries(writer, told), start=1):
                progress("export", done, manifest.entries)
    return manifest.entries


def export_files(
    handle: Handle,
    target: FileName | BinaryIO,
    *,
    snapshot: SnapshotInfo | None = None,
    progress: Progress = no_progress,
) -> int:
    """Writes the files alone, under their own names, for whoever unpacks them without us.

    `import_files` takes it, too. Returns how many files, links and directories there are in it.
    """
    done = 0
    with _moment(handle, snapshot) as (_, source, root_id, lacking):
        files = source.get_root(root_id).plane(Plane.FILES)
        moving = {to_bytes(path) for path in lacking.in_motion}
        total = count(source, files)
        with _written_to(target) as writer:
            told = look_ahead(source, iterate(source, files))
            for done, (key, entry, objects) in enumerate(told, start=1):
                # By its own name, below the folder that it is unpacked in: never an option of tar.
                _write_path(writer, objects, b"./" + key, entry, in_motion=key in moving)
                progress("export", done, total)
    return done


@contextmanager
def _written_to(target: FileName | BinaryIO) -> Generator[TarWriter]:
    """Opens a tar file to write: one that takes its name when it is whole, or one that is open."""
    if isinstance(target, str | os.PathLike):
        with writing_to(target) as file:
            writer = TarWriter(file, path=os.fspath(target))
            yield writer
            writer.finish()
        return
    writer = TarWriter(target, path="the open file")
    yield writer
    writer.finish()
    target.flush()


def import_(handle: Handle, source: FileName, *, progress: Progress = no_progress) -> Imported:
    """Replaces a namespace's content by that of an archive; makes the namespace if need be.

    What is pending is kept as a snapshot first. Raises `UnsafeArchive`, `VaultTooNew` or a
    `LimitExceeded`, with nothing changed, for an archive that cannot be used.
    """
    with surveyed(handle, source, progress=progress) as bring:
        return bring(handle)


@contextmanager
def surveyed(
    handle: Handle, source: FileName, *, progress: Progress = no_progress
) -> Generator[Callable[[Handle], Imported]]:
    """Yields what brings an archive in; raises as `import_` for one that cannot be used.

    For whoever has to keep something first, which would be for nothing then.
    """
    with Source(source) as file:
        found = survey(file, handle.context.limits, progress)
        with handle.context.catalog.read() as transaction:
            _check_quota(handle.head_or_empty(transaction), found.manifest.size)
        yield lambda into: _import(into, file, found, progress)


def _import(handle: Handle, file: Source, found: Surveyed, progress: Progress) -> Imported:
    done, root_id = _bring_in(handle, file, found, progress)
    last = done[-1]
    return Imported(
        snapshot=last,
        safety_id=done[0].id if len(done) > 1 else None,
        manifest=found.manifest,
        verified=last.root == root_id and prove(handle, last),
    )


# Taking out


_Moment = tuple[Reading, Objects | StagedObjects, ObjectId, Lacking]


@contextmanager
def _moment(handle: Handle, snapshot: SnapshotInfo | None) -> Generator[_Moment]:
    """Opens a snapshot, or the head with what is pending, as it is at one moment.

    With its root, and what it does not vouch for. What lies in a bucket is read with no transaction
    open, of rows that were looked up before: those of conversations only grow.
    """
    if handle.context.blobs.is_remote:
        with _moment_apart(handle, snapshot) as moment:
            yield moment
        return
    if snapshot is None:
        with folded_head(handle) as (transaction, folded):
            # A file without content would look like a copy of something.
            handle.get_head(transaction)
            reading = partial(nullcontext, transaction)
            yield reading, folded.source, folded.root_id, lacking_at(folded)
        return
    with handle.context.catalog.read() as transaction:
        usable = handle.get_snapshot(transaction, handle.get_head(transaction), snapshot.id)
        source = handle.objects.bound(transaction)
        yield partial(nullcontext, transaction), source, usable.root, lacking_in(usable)


@contextmanager
def _moment_apart(handle: Handle, snapshot: SnapshotInfo | None) -> Generator[_Moment]:
    reading = handle.context.catalog.read
    if snapshot is None:
        with folded_apart(handle) as folded:
            yield reading, folded.source, folded.root_id, lacking_at(folded)
        return
    with reading() as transaction:
        usable = handle.get_snapshot(transaction, handle.get_head(transaction), snapshot.id)
    yield reading, handle.objects.unbound(), usable.root, lacking_in(usable)


def _describe(
    handle: Handle, snapshot: SnapshotInfo | None, told: Contents, lacking: Lacking
) -> Manifest:
    return Manifest(
        format=ARCHIVE_FORMAT if told.root.holds(Plane.MEMORIES) else WITHOUT_MEMORIES,
        namespace=handle.name,
        snapshot=snapshot.id if snapshot else None,
        **{name: getattr(snapshot, name, None) or None for name in OF_SNAPSHOT},
        root=told.root_id.hex(),
        entries=told.size.entries,
        content_bytes=told.size.bytes,
        # Of what nobody has named, one stands for all.
        uncaptured=len(lacking.uncaptured) + lacking.is_unnamed,
        in_motion=len(lacking.in_motion),
        uncaptured_paths=named(lacking.uncaptured),
        in_motion_paths=named(lacking.in_motion),
    )


# Bringing in


def _check_quota(head: Head, size: Size) -> None:
    check_quota(head, Size(0, size.bytes - head.size.bytes))


def _bring_in(
    handle: Handle, file: Source, found: Surveyed, progress: Progress
) -> tuple[list[SnapshotInfo], ObjectId]:
    """Stores what was surveyed and moves the head to it.

    Returns the snapshots that made, and the root that the last one has to have.
    """

    def attempt(stage: Stage) -> tuple[list[SnapshotInfo], ObjectId]:
        root, arriving = _stage(stage, file, found, handle, progress)
        stage.seal()
        return _advance(handle, stage, root, found.manifest, arriving)

    return carry_out(handle, attempt, is_around=True)


def _stage(
    stage: Stage, file: Source, found: Surveyed, handle: Handle, progress: Progress
) -> tuple[Root, Arriving]:
    """Stages all content and the maps over it; raises unless the root is as announced."""
    total = len(found.files) + len(found.values) + len(found.sessions) + len(found.memories)
    files: list[tuple[bytes, bytes]] = []
    for member in found.files:
        files.append((member.name, encode_entry(to_entry(stage, file, member))))
        progress("import", len(files), total)
    store: list[tuple[bytes, bytes]] = []
    for member in found.values:
        key, data = read_value(file, member, handle.context.limits)
        store.append((key, encode_entry(content.as_value(stage, data))))
        progress("import", len(files) + len(store), total)
    arriving = Arriving(handle, file)
    for done, session in enumerate(found.sessions, start=1):
        arriving.take(stage, session)
        progress("import", len(files) + len(store) + done, total)
    memories: list[tuple[bytes, bytes]] = []
    for member in found.memories:
        row = read_memory(file, member, handle.context.limits)
        memories.append((row.id.encode(), entry_of(stage, row)))
        arriving.row_bytes += row.size_bytes
        stage.spill()
        progress("import", total - len(found.memories) + len(memories), total)
    roots: dict[str, bytes] = {}
    planes = {Plane.FILES: files, Plane.STORE: store, Plane.SESSIONS: arriving.rows}
    if found.manifest.format != WITHOUT_MEMORIES:
        planes[Plane.MEMORIES] = memories
    for plane, rows in planes.items():
        built = build(sorted(rows))
        stage.add_nodes(built.nodes)
        stage.spill()
        roots[plane.value] = built.root
    root = Root(memories=None).replacing(**roots)
    told = root.replacing(sessions=build(sorted(arriving.told)).root)
    # If it was changed, say so: the root would differ too, and blame the archive.
    file.check_unchanged()
    if object_id_of(told.encode()).hex() != found.manifest.root:
        raise UnsafeArchive("its content is not what the root in its manifest stands for")
    stage.add(root.encode(), ObjectKind.NODE)
    return root, arriving


def to_entry(stage: Stage, file: Source, member: Member) -> Entry:
    """Stages what a member of the files plane holds; returns its entry."""
    match member.kind:
        case MemberKind.FILE:
            stream = file.stream(member.at, member.size)
            stored = content.store_stream(stage, stream, max_bytes=member.size)
            dressed = msgspec.structs.replace(stored, mode=member.mode, mtime_ns=member.mtime_ns)
            return with_twin(dressed, member.twin)
        case MemberKind.LINK:
            return Link(member.target, member.mtime_ns)
        case MemberKind.DIRECTORY:
            return Directory(member.mode)


def _advance(
    handle: Handle, stage: Stage, root: Root, manifest: Manifest, arriving: Arriving
) -> tuple[list[SnapshotInfo], ObjectId]:
    """Moves the head to what is staged, which is named in the same transaction.

    Returns as `_bring_in` does.
    """

    def plan(transaction: Transaction, folded: Folded) -> Move[ObjectId]:
        goal, size = completed(folded, root, manifest.size)
        _check_quota(folded.head, size)
        goal, kept = arriving.with_later_terms(transaction, folded, goal)
        goal_id = folded.stage.add(goal.encode(), ObjectKind.NODE)
        marks = replacing(
            handle,
            transaction,
            folded,
            kind=Kind.IMPORT,
            root=goal_id,
            size=size,
            reason="before importing an archive",
            note=Note(reason=f"imported from {manifest.namespace}", metadata=manifest.metadata),
            detail={
                "imported_from": manifest.namespace,
                "imported_snapshot": manifest.snapshot,
                "imported_label": manifest.label,
                **kept,
            },
            lacking=manifest.lacking,
        )
        at = marks[-1].id
        return Move(marks=marks, position=at, result=goal_id, exact=True, also=arriving.record)

    return advance(handle, plan, creates=True, ahead=stage)
