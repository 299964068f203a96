"""Takes a namespace out of a vault as one file, and brings such a file in again.

The file is a plain tar: a manifest, the files under `files/`, the store's values under `store/`.
Ordinary tools read it, and the same content always makes the same bytes. What comes in is not
trusted. It is surveyed from end to end before anything is written (`survey.py`), and what it
then amounts to has to have the very root that the manifest names; so an import is exactly what
was exported, or an error and no change. It is one step on the timeline, and can be undone.

Two exports of the same content differ in the manifest's names alone, whatever vault they come
from: the root depends on the content and on nothing else.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import chain

import msgspec

from holdfast.catalog.port import Transaction
from holdfast.engine import content
from holdfast.engine.advance import Folded, Move, Note, advance, replacing
from holdfast.engine.archives.archivefile import FileName, Source, writing_to
from holdfast.engine.archives.imported import Imported
from holdfast.engine.archives.manifest import MANIFEST_NAME, Manifest
from holdfast.engine.archives.survey import FILES_PREFIX, VALUE_NAME, Surveyed, read_value, survey
from holdfast.engine.archives.tarread import Member, MemberKind
from holdfast.engine.archives.tarwrite import TarWriter
from holdfast.engine.collect import Progress, no_progress
from holdfast.engine.editing import MAX_MODE, USUAL_FILE_MODE
from holdfast.engine.handle import Handle
from holdfast.engine.limits import check_quota
from holdfast.engine.objects import Objects
from holdfast.engine.pending import ATTEMPTS
from holdfast.engine.restore import folded_head, prove
from holdfast.engine.stage import Stage, StagedObjects, Withdrawn
from holdfast.engine.storeplane import from_store_key
from holdfast.entries import (
    Blob,
    Directory,
    Entry,
    Inline,
    Link,
    decode_entry,
    encode_entry,
    twin_of,
    with_twin,
)
from holdfast.errors import Busy, Damaged, Incompatible, UnsafeArchive
from holdfast.ids import ObjectId
from holdfast.model import Head, Kind, Plane, Root, Size, SnapshotInfo
from holdfast.packs import ObjectKind
from holdfast.tree import build, count, iterate


def export(
    handle: Handle,
    target: FileName,
    *,
    snapshot: SnapshotInfo | None = None,
    progress: Progress = no_progress,
) -> int:
    """Writes a snapshot, or what is there now, to a tar file; returns its number of entries.

    What is pending is part of what is there, and no snapshot is left behind. A file that has
    the target's name is replaced once the new one is on disk. Raises `Incompatible`, before
    anything is written, if the namespace holds something that an archive cannot carry.
    """
    with _moment(handle, snapshot) as (source, root_id):
        root = source.get_root(root_id)
        manifest = _describe(handle, snapshot, root_id, _measure(handle, source, root))
        with writing_to(target) as file:
            writer = TarWriter(file, path=os.fspath(target))
            text = manifest.encode()
            writer.add_file(MANIFEST_NAME, [text], size=len(text), mode=USUAL_FILE_MODE)
            for done, _ in enumerate(_write_entries(writer, source, root), start=1):
                progress("export", done, manifest.entries)
            writer.finish()
    return manifest.entries


def import_(handle: Handle, source: FileName, *, progress: Progress = no_progress) -> Imported:
    """Replaces a namespace's content by that of an archive; makes the namespace if need be.

    What is pending is kept as a snapshot first. Raises `UnsafeArchive`, `VaultTooNew` or a
    `LimitExceeded`, with nothing changed, for an archive that cannot be used.
    """
    with Source(source) as file:
        found = survey(file, handle.context.limits, progress)
        with handle.context.catalog.read() as transaction:
            _check_quota(handle.head_or_empty(transaction), found.manifest.size)
        done = _bring_in(handle, file, found, progress)
    last = done[-1]
    return Imported(
        snapshot=last,
        safety_id=done[0].id if len(done) > 1 else None,
        manifest=found.manifest,
        verified=last.root.hex() == found.manifest.root and prove(handle, last),
    )


# Taking out


@contextmanager
def _moment(
    handle: Handle, snapshot: SnapshotInfo | None
) -> Generator[tuple[Objects | StagedObjects, ObjectId]]:
    """Opens a snapshot, or the head with what is pending, as it is at one moment."""
    if snapshot is None:
        with folded_head(handle) as (transaction, folded):
            # A file without content would look like a copy of something.
            handle.get_head(transaction)
            yield folded.source, folded.root_id
        return
    with handle.context.catalog.read() as transaction:
        usable = handle.get_snapshot(transaction, handle.get_head(transaction), snapshot.id)
        yield handle.objects.bound(transaction), usable.root


def _measure(handle: Handle, source: Objects | StagedObjects, root: Root) -> Size:
    """Returns how much there is to export; raises if an archive cannot carry all of it."""
    for plane in Plane:
        if plane not in (Plane.FILES, Plane.STORE) and count(source, root.plane(plane)):
            raise Incompatible(
                f"{handle.name!r} holds {plane.value}; an archive carries files and store alone"
            )
    entries = total = 0
    for plane in (Plane.FILES, Plane.STORE):
        for _, data in iterate(source, root.plane(plane)):
            entries, total = entries + 1, total + decode_entry(data).size
    return Size(entries, total)


def _describe(
    handle: Handle, snapshot: SnapshotInfo | None, root_id: ObjectId, size: Size
) -> Manifest:
    return Manifest(
        namespace=handle.name,
        snapshot=snapshot.id if snapshot else None,
        label=snapshot.label if snapshot else None,
        created_at=snapshot.created_at if snapshot else None,
        root=root_id.hex(),
        entries=size.entries,
        content_bytes=size.bytes,
    )


def _write_entries(
    writer: TarWriter, source: Objects | StagedObjects, root: Root
) -> Iterator[None]:
    """Writes one member for each entry, in the order of the maps; yields after each."""
    for key, data in iterate(source, root.plane(Plane.FILES)):
        _write_path(writer, source, FILES_PREFIX + key, decode_entry(data))
        yield
    for number, (key, data) in enumerate(iterate(source, root.plane(Plane.STORE))):
        _write_value(writer, source, VALUE_NAME % number, key, decode_entry(data))
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


# Bringing in


class _Overtaken(Busy):
    """The collector took something that the import was about to use again."""


def _check_quota(head: Head, size: Size) -> None:
    check_quota(head, Size(0, size.bytes - head.size.bytes))


def _bring_in(
    handle: Handle, file: Source, found: Surveyed, progress: Progress
) -> list[SnapshotInfo]:
    """Stores what was surveyed and moves the head to it; returns the snapshots that made."""
    attempts_left = ATTEMPTS
    while True:
        attempts_left -= 1
        with Stage(handle.context, handle.tenant_id) as stage:
            root_id = _stage(stage, file, found, handle, progress)
            stage.seal()
            try:
                done = _advance(handle, stage, root_id, found.manifest)
            except _Overtaken:
                if not attempts_left:
                    raise
                continue
            stage.keep()
            return done


def _stage(
    stage: Stage, file: Source, found: Surveyed, handle: Handle, progress: Progress
) -> ObjectId:
    """Stages all content and the maps over it; raises unless the root is as announced."""
    total = len(found.files) + len(found.values)
    files: list[tuple[bytes, bytes]] = []
    for member in found.files:
        files.append((member.name, encode_entry(_to_entry(stage, file, member))))
        progress("import", len(files), total)
    store: list[tuple[bytes, bytes]] = []
    for member in found.values:
        key, data = read_value(file, member, handle.context.limits)
        store.append((key, encode_entry(content.as_value(stage, data))))
        progress("import", len(files) + len(store), total)
    roots: dict[str, bytes] = {}
    for plane, rows in ((Plane.FILES, files), (Plane.STORE, store)):
        built = build(sorted(rows))
        stage.add_nodes(built.nodes)
        stage.spill()
        roots[plane.value] = built.root
    root_id = stage.add(Root().replacing(**roots).encode(), ObjectKind.NODE)
    # If it was changed, say so: the root would differ too, and blame the archive.
    file.check_unchanged()
    if root_id.hex() != found.manifest.root:
        raise UnsafeArchive("its content is not what the root in its manifest stands for")
    return root_id


def _to_entry(stage: Stage, file: Source, member: Member) -> Entry:
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
    handle: Handle, stage: Stage, root_id: ObjectId, manifest: Manifest
) -> list[SnapshotInfo]:
    """Moves the head to what is staged, which is named in the same transaction."""

    def plan(transaction: Transaction, folded: Folded) -> Move:
        _check_quota(folded.head, manifest.size)
        marks = replacing(
            handle,
            transaction,
            folded,
            kind=Kind.IMPORT,
            root=root_id,
            size=manifest.size,
            reason="before importing an archive",
            note=Note(reason=f"imported from {manifest.namespace}"),
            detail={
                "imported_from": manifest.namespace,
                "imported_snapshot": manifest.snapshot,
                "imported_label": manifest.label,
            },
        )
        return Move(marks=marks, position=marks[-1].id, exact=True, also=record)

    def record(writing: Transaction, _head: Head) -> None:
        try:
            stage.record(writing)
        except Withdrawn as exc:
            # Not passed on as it is: making the plan again would not stage anything again.
            raise _Overtaken(str(exc)) from exc

    handle.ensure()
    return advance(handle, plan)
