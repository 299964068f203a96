"""The files plane, to change: write, link, make directories, move, delete.

A change is one transaction (`pending/writing.py`) and keeps the tree whole (`Draft`): it either
happens as asked, or raises and leaves everything as it was.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import BinaryIO, Final

import msgspec

from holdfast.engine.core.paths import (
    PathLike,
    to_bytes,
    to_key,
)
from holdfast.engine.files.drafting import Draft, check_standing
from holdfast.engine.files.reader import FilesReader, Opened, info_of
from holdfast.engine.journal.occurrences import deleted, written
from holdfast.engine.objects import content
from holdfast.engine.objects.stage import Stage
from holdfast.engine.pending.inrow import has_room, most_in_row
from holdfast.engine.pending.writing import Compute, Rows, change, no_events
from holdfast.engine.planes.forms import settle_files
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.view import View
from holdfast.entries import Blob, Directory, Entry, Inline, Link
from holdfast.errors import (
    Busy,
    InvalidPath,
    InvalidValue,
    NotAFile,
    PathExists,
    PathNotFound,
    TooLarge,
)
from holdfast.instants import EPOCH
from holdfast.model.basics import Plane
from holdfast.model.events import Occurrence
from holdfast.model.files import MAX_PATH_BYTES, FileInfo, to_content
from holdfast.model.values import ABSENT
from holdfast.operations.checks import checked
from holdfast.operations.choices import Tag
from holdfast.operations.files import (
    BATCH_BYTES,
    BATCH_FILES,
    BATCH_WEIGHT,
    ChangeMode,
    DeleteFile,
    MakeDirectory,
    MakeLink,
    MoveFile,
    WriteFiles,
    weigh,
)
from holdfast.operations.operation import does

USUAL_FILE_MODE: Final = 0o644
MAX_MODE: Final = 0o1777
"""Permission bits and the sticky bit: set-user-id and set-group-id are never stored."""

Data = str | bytes | bytearray | memoryview | BinaryIO


@checked
class Files(FilesReader):
    """Files at the head of a namespace, to read and to change."""

    def __init__(self, handle: Handle, opened: Opened) -> None:
        super().__init__(opened)
        self._handle = handle

    def write(
        self,
        path: PathLike,
        data: Data,
        *,
        mode: int | None = None,
        modified_at: datetime | None = None,
        expected: Tag | None = None,
    ) -> FileInfo:
        """Creates or replaces a file; the directories above it come about by themselves.

        Without `mode`, a file that is there keeps its own. A stream is stored as it is read. With
        `expected`, only while what is there has that tag, or with `absent` while nothing is; else
        raises `NotAsExpected`.
        """
        key = to_key(path)
        made: list[Entry] = []
        _check_mode(mode)
        mtime_ns, again = self._mtime_ns(modified_at), _Rewind(data)
        most = most_in_row(self._handle)

        def prepare(stage: Stage) -> Compute:
            again.rewind()
            stored = self._store(stage, data, most)

            def compute(view: View) -> Rows:
                draft = Draft(view)
                draft.prefetch([key])
                if expected is not None:
                    draft.check(key, expected)
                placed = _placed(view, stage, stored)
                made[:] = [_dressed(placed, draft.find(key), mode, mtime_ns)]
                draft.put(key, made[0])
                return draft.rows

            return compute

        change(
            self._handle,
            Plane.FILES,
            prepare,
            over=[key] if expected is None else (),
            told=lambda: [_written(key, made[0].size)],
        )
        return info_of(key, made[0], is_tagged=True)

    @does(WriteFiles)
    def write_many(self, wanted: WriteFiles) -> int:
        if wanted.delete or wanted.expected:
            return self._write_as_expected(wanted)
        total, size, weight, batch = 0, 0, 0, dict[bytes, bytes]()
        for path, data in wanted.items:
            key, body = to_key(path), to_content(data)
            batch[key] = body
            total, size, weight = total + 1, size + len(body), weight + weigh(key)
            if len(batch) >= BATCH_FILES or size >= BATCH_BYTES or weight >= BATCH_WEIGHT:
                self._write_batch(batch)
                size, weight, batch = 0, 0, {}
        if batch:
            self._write_batch(batch)
        return total

    @does(MakeDirectory)
    def mkdir(self, wanted: MakeDirectory) -> FileInfo:
        key = to_key(wanted.path)
        _check_mode(wanted.mode)
        entry = Directory(wanted.mode)
        self._draft(lambda draft: draft.put(key, entry))
        return self.stat(wanted.path)

    @does(MakeLink)
    def symlink(self, wanted: MakeLink) -> FileInfo:
        key, goal = to_key(wanted.path), _to_target(wanted.target)
        entry = Link(goal, self._mtime_ns(None))

        def put(draft: Draft) -> None:
            if isinstance(draft.find(key), Link):
                draft.drop(key)
            draft.put(key, entry)

        self._draft(put, lambda: [_written(key, entry.size, source="link")])
        return info_of(key, entry)

    @does(ChangeMode)
    def chmod(self, wanted: ChangeMode) -> FileInfo:
        key, mode = to_key(wanted.path), wanted.mode
        _check_mode(mode)

        def put(draft: Draft) -> None:
            entry = draft.find(key)
            match entry:
                case Inline() | Blob():
                    draft.put(key, msgspec.structs.replace(entry, mode=mode))
                case _ if draft.is_directory(key):
                    draft.put(key, Directory(mode))
                case None:
                    raise PathNotFound(key)
                case _:
                    raise NotAFile(key, found="link")

        self._draft(put)
        return self.stat(wanted.path)

    @does(MoveFile)
    def move(self, wanted: MoveFile) -> FileInfo:
        old, new = to_key(wanted.source), to_key(wanted.target)
        if new == old or new.startswith(old + b"/"):
            raise InvalidPath(new, reason="it lies inside what is to be moved")
        moved = dict[bytes, Entry]()

        def move(draft: Draft) -> None:
            moved.clear()
            moved.update(_move(draft, old, new, overwrite=wanted.overwrite))

        self._draft(move, lambda: _told_of_move(old, moved))
        return self.stat(wanted.target)

    @does(DeleteFile)
    def delete(self, wanted: DeleteFile) -> int:
        key, gone = to_key(wanted.path), list[bytes]()

        def drop(draft: Draft) -> None:
            gone[:] = draft.delete(key, recursive=wanted.recursive)

        self._draft(drop, lambda: [deleted(_told(key), entries=len(gone))])
        return len(gone)

    def _write_as_expected(self, wanted: WriteFiles) -> int:
        """Writes and deletes files in one transaction, if all is as expected."""
        batch = {to_key(path): to_content(data) for path, data in wanted.items}
        expected = {to_key(path): tag for path, tag in wanted.expected}
        delete = [key for key in map(to_key, wanted.delete) if key not in batch]
        keys = {*batch, *expected, *delete}
        if (
            len(keys) > BATCH_FILES
            or sum(map(len, batch.values())) >= BATCH_BYTES
            or sum(map(weigh, keys)) >= BATCH_WEIGHT
        ):
            message = f"in one transaction there are {BATCH_FILES} files, and {BATCH_BYTES} bytes"
            raise TooLarge(f"{message}, at the most")
        self._write_batch(batch, delete=delete, expected=expected)
        return len(batch)

    def _write_batch(
        self,
        batch: dict[bytes, bytes],
        *,
        delete: Collection[bytes] = (),
        expected: Mapping[bytes, str] | None = None,
    ) -> None:
        mtime_ns, gone, is_looked_at = self._mtime_ns(None), list[bytes](), [False]
        most = most_in_row(self._handle, map(len, batch.values()))

        def prepare(stage: Stage) -> Compute:
            stored = {key: self._store(stage, data, most) for key, data in batch.items()}

            def compute(view: View) -> Rows:
                draft, is_looked_at[0] = Draft(view), True
                draft.prefetch({*stored, *delete, *(expected or ())})
                for key, tag in (expected or {}).items():
                    draft.check(key, tag)
                gone.clear()
                for key in delete:  # First: what is written may need the place of what goes.
                    with suppress(PathNotFound):
                        gone.extend(draft.delete(key, recursive=False))
                for key, entry in stored.items():
                    placed = _placed(view, stage, entry)
                    draft.put(key, _dressed(placed, draft.find(key), None, mtime_ns))
                return draft.rows

            return compute

        def occurrences() -> list[Occurrence]:
            went = [deleted(_told(key), entries=1) for key in gone]
            return went + [_written(key, len(data)) for key, data in batch.items()]

        change(
            self._handle,
            Plane.FILES,
            prepare,
            over=() if delete or expected else batch,
            creates=bool(batch),
            told=occurrences,
        )
        if not is_looked_at[0]:  # There is no such namespace, and nothing was to be written.
            for key, tag in (expected or {}).items():
                check_standing(key, tag, ABSENT)

    def _draft(
        self, edit: Callable[[Draft], None], told: Callable[[], Sequence[Occurrence]] = no_events
    ) -> None:
        is_noted = bool(self._handle.door.within())

        def prepare(stage: Stage) -> Compute:
            def compute(view: View) -> Rows:
                draft = Draft(view)
                edit(draft)
                # What tasks change is noted as maps have it, also what others had in its row.
                return settle_files(stage, draft.rows) if is_noted else draft.rows

            return compute

        change(self._handle, Plane.FILES, prepare, told=told)

    def _store(self, stage: Stage, data: Data, most_inline: int) -> Inline | Blob:
        """Returns the entry of a file: up to so many bytes inline, for its row."""
        most = self._handle.context.limits.file_bytes
        if not isinstance(data, str | bytes | bytearray | memoryview):
            return content.store_stream(stage, data, max_bytes=most, most_inline=most_inline)
        body = to_content(data)
        if len(body) > most:
            message = f"a file may have {most} bytes; this one has {len(body)}"
            raise TooLarge(message)
        return content.as_file(stage, body, most_inline=most_inline)

    def _mtime_ns(self, instant: datetime | None) -> int:
        instant = instant or self._handle.context.clock()
        if instant.tzinfo is None:
            raise InvalidValue("modified_at needs a time zone")
        mtime_ns = (instant - EPOCH) // timedelta(microseconds=1) * 1000
        if abs(mtime_ns) >= 1 << 63:
            raise InvalidValue("modified_at is not between the years 1678 and 2261")
        return mtime_ns


def _written(key: bytes, size: int, *, source: str = "write") -> Occurrence:
    return written(_told(key), size_bytes=size, source=source)


def _told_of_move(old: bytes, moved: Mapping[bytes, Entry]) -> list[Occurrence]:
    """Returns what is told of a move: what went, and every file and link where it is now."""
    came = [
        _written(key, entry.size, source="move")
        for key, entry in sorted(moved.items())
        if not isinstance(entry, Directory)
    ]
    return [deleted(_told(old), entries=len(moved)), *came]


def _told(key: bytes) -> str:
    """Returns a path as events name it: with the prefix that clients know it by."""
    return f"workspace/{key.decode('utf-8', 'replace')}"


def _move(draft: Draft, old: bytes, new: bytes, *, overwrite: bool) -> dict[bytes, Entry]:
    """Moves what is there; returns what is where now."""
    entry = draft.find(old)
    names: Sequence[bytes] = []
    if entry is None or isinstance(entry, Directory):
        names = [*draft.below(old)]
        if entry is None and not names:
            raise PathNotFound(old)
    if draft.is_directory(new) or (draft.find(new) is not None and not overwrite):
        raise PathExists(new)
    if draft.find(new) is not None:
        draft.drop(new)
    moved = {new + name[len(old) :]: found for name in names if (found := draft.find(name))}
    if entry is not None:
        moved[new] = entry
    for name in moved:
        if len(name) > MAX_PATH_BYTES:
            raise InvalidPath(name, reason="it would become too long")
    draft.drop_tree(old)
    for name in sorted(moved):
        draft.put(name, moved[name])
    return moved


def _placed(view: View, stage: Stage, stored: Inline | Blob) -> Inline | Blob:
    """Returns what is to be in the row: content that has no room there is cut."""
    if isinstance(stored, Inline) and not has_room(view, stored.size):
        return content.as_file(stage, stored.data)
    return stored


def _dressed(
    stored: Inline | Blob, found: Entry | None, mode: int | None, mtime_ns: int
) -> Inline | Blob:
    """Returns the stored content with the mode and time it shall have."""
    if mode is None:
        mode = found.mode if isinstance(found, Inline | Blob) else USUAL_FILE_MODE
    return msgspec.structs.replace(stored, mode=mode, mtime_ns=mtime_ns)


def _check_mode(mode: int | None) -> None:
    if mode is not None and not 0 <= mode <= MAX_MODE:
        message = f"mode {mode:#o} is not one of 0 to {MAX_MODE:#o}"
        raise InvalidValue(message)


class _Rewind:
    """Takes a stream back to where it was, should the write have to be made again."""

    def __init__(self, data: Data) -> None:
        is_stream = not isinstance(data, str | bytes | bytearray | memoryview)
        self._stream = data if is_stream else None
        self._start = data.tell() if is_stream and data.seekable() else None
        self._is_used = False

    def rewind(self) -> None:
        """Makes the stream readable from its start; raises `Busy` if it cannot."""
        if self._stream is not None and self._is_used:
            if self._start is None:
                raise Busy("a collection interfered, and the stream cannot be read again")
            self._stream.seek(self._start)
        self._is_used = True


def _to_target(target: PathLike) -> bytes:
    goal = to_bytes(target)
    if not goal or b"\0" in goal or len(goal) > MAX_PATH_BYTES:
        raise InvalidPath(goal, reason="it is empty, too long, or holds a NUL byte")
    return goal
