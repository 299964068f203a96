"""Makes the files of a namespace exactly those of a plain tar file, or of a folder.

The files plane alone is replaced: values, sessions and memories stay as they are. It is one step
on the timeline, after what was there was kept, and can be undone. A tar file is surveyed from end
to end before any of it is used (`survey.py`); a folder is read as every directory is
(`capturing`), and what cannot be read of it is an error: a set with gaps is not the one that was
asked for.
"""

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.catalog.transaction import Transaction
from holdfast.engine.archives.archivefile import FileName, Source, error_of
from holdfast.engine.archives.survey import size_of_files, survey_files
from holdfast.engine.archives.tarread import Member
from holdfast.engine.archives.transfer import to_entry
from holdfast.engine.capturing.folder import capture_folder
from holdfast.engine.core.coverage import LACKS_NOTHING, Lacking
from holdfast.engine.core.growth import size_of
from holdfast.engine.core.limits import check_quota
from holdfast.engine.core.paths import legible, to_text
from holdfast.engine.objects.stage import Stage
from holdfast.engine.pending.fold import Folded
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.unit import carry_out
from holdfast.engine.timeline.head import Move, advance, replacing
from holdfast.engine.timeline.restore import folded_head, prove
from holdfast.entries import Blob, Entry, Inline, encode_entry, with_twin
from holdfast.errors import Unavailable
from holdfast.ids import ObjectId
from holdfast.model.archives import ImportedFiles
from holdfast.model.basics import Kind, Plane, Size, SnapshotInfo
from holdfast.operations.snapshots import Note
from holdfast.packs import ObjectKind
from holdfast.progress import Progress, no_progress
from holdfast.tree import Edit, build, diff, iterate
from holdfast.workspace.descent import open_target


@dataclass(frozen=True, slots=True)
class _Arrived:
    """A set of files whose content is staged, and what it does not vouch for."""

    entries: Mapping[bytes, bytes]
    lacking: Lacking = LACKS_NOTHING
    detail: Mapping[str, object] | None = None


Bring = Callable[[Stage], _Arrived]


def import_files(
    handle: Handle, source: FileName, *, progress: Progress = no_progress
) -> ImportedFiles:
    """Replaces a namespace's files by those of a plain tar file or a folder.

    Makes the namespace if need be; what is pending is kept as a snapshot first. Raises
    `UnsafeArchive` or a `LimitExceeded` for a tar file that cannot be used, `Unavailable` for a
    folder that cannot be read, with nothing changed.
    """
    with surveyed(handle, source, progress=progress) as bring:
        return bring(handle)


@contextmanager
def surveyed(
    handle: Handle, source: FileName, *, progress: Progress = no_progress
) -> Generator[Callable[[Handle], ImportedFiles]]:
    """Yields what brings the files in; raises as `import_files` for a tar file that cannot be used.

    For whoever has to keep something first, which would be for nothing then.
    """
    if os.path.isdir(source):  # noqa: PTH112 - a name with a NUL is none, and said so below
        folder = Path(source)
        yield lambda into: _bring_in(
            into, lambda stage: _read_folder(into, folder, stage, progress)
        )
        return
    with Source(source) as file:
        found = survey_files(file, handle.context.limits, progress)
        _check_quota(handle, size_of_files(found).bytes)
        yield lambda into: _bring_in(into, lambda stage: _read_tar(file, found, stage, progress))


def _check_quota(handle: Handle, files_bytes: int) -> None:
    """Raises before anything is stored if so much in files is more than the namespace may have."""
    with folded_head(handle) as (_, folded):
        if folded.head.quota_bytes is not None:
            there = iterate(folded.source, folded.root.plane(Plane.FILES))
            less = size_of(Edit(key, data, None) for key, data in there)
            check_quota(folded.head, Size(0, less.bytes + files_bytes))


def _bring_in(handle: Handle, bring: Bring) -> ImportedFiles:
    def attempt(stage: Stage) -> tuple[_Arrived, list[SnapshotInfo], ObjectId]:
        arrived = bring(stage)
        built = build(sorted(arrived.entries.items()))
        stage.add_nodes(built.nodes)
        stage.spill()
        stage.seal()
        return arrived, *_advance(handle, stage, built.root, arrived)

    arrived, done, root_id = carry_out(handle, attempt, is_around=True)
    size, last = size_of(Edit(b"", None, data) for data in arrived.entries.values()), done[-1]
    return ImportedFiles(
        snapshot=last,
        safety_id=done[0].id if len(done) > 1 else None,
        entries=size.entries,
        content_bytes=size.bytes,
        # A directory that follows may become less: what its new rules leave out.
        verified=(last.root == root_id or handle.before_commit is not None) and prove(handle, last),
    )


def _advance(
    handle: Handle, stage: Stage, files: ObjectId, arrived: _Arrived
) -> tuple[list[SnapshotInfo], ObjectId]:
    """Moves the head to the files that are staged, which are named in the same transaction.

    Returns the snapshots that made, and the root that the last one has to have.
    """

    def plan(transaction: Transaction, folded: Folded) -> Move[ObjectId]:
        more = size_of(diff(folded.source, folded.root.plane(Plane.FILES), files))
        check_quota(folded.head, Size(0, more.bytes))
        root = folded.root.replacing(files=files)
        goal_id = folded.stage.add(root.encode(), ObjectKind.NODE)
        marks = replacing(
            handle,
            transaction,
            folded,
            kind=Kind.IMPORT,
            root=goal_id,
            size=folded.size + more,
            reason="before importing files",
            note=Note(reason="imported files"),
            detail=arrived.detail,
            lacking=arrived.lacking,
        )
        return Move(marks=marks, position=marks[-1].id, result=goal_id, exact=True)

    return advance(handle, plan, creates=True, ahead=stage)


# A tar file


def _read_tar(file: Source, found: Sequence[Member], stage: Stage, progress: Progress) -> _Arrived:
    entries: dict[bytes, Entry] = {}
    names: dict[bytes | int, list[bytes]] = {}
    read: dict[int, Entry] = {}
    for done, member in enumerate(found, start=1):
        # Names of one file are read once: those of a hostile archive would be without end.
        if member.at not in read:
            read[member.at] = to_entry(stage, file, replace(member, twin=b""))
        entries[member.name] = read[member.at]
        names.setdefault(member.twin or member.at, []).append(member.name)
        progress("import", done, len(found))
    file.check_unchanged()
    for same in names.values():
        _join(entries, same)
    in_motion = [to_text(member.name) for member in found if member.is_in_motion]
    encoded = {key: encode_entry(entry) for key, entry in entries.items()}
    return _Arrived(encoded, Lacking(in_motion=in_motion))


def _join(entries: dict[bytes, Entry], same: Sequence[bytes]) -> None:
    """Lets the names of one file say which of them is the first, if they are one file."""
    if len(same) > 1:
        first = min(same)
        entry = entries[first]
        if isinstance(entry, Inline | Blob) and all(entries[key] == entry for key in same):
            entries.update(dict.fromkeys(same, with_twin(entry, first)))


# A folder


def _read_folder(handle: Handle, folder: Path, stage: Stage, progress: Progress) -> _Arrived:
    try:
        fd = open_target(str(folder))
    except OSError as exc:
        raise error_of(exc, folder) from exc
    try:
        captured = capture_folder(handle.context, stage, folder, fd, progress=progress)
    finally:
        os.close(fd)
    coverage = captured.coverage
    for failed in coverage.failed:
        message = f"{legible(failed.path)} in {folder} could not be read: {failed.reason}"
        raise Unavailable(message).with_hint("Nothing was changed: see to it, and try again.")
    entries = {key: data for key, data in captured.changes.items() if data is not None}
    return _Arrived(entries, detail=coverage.to_detail())
