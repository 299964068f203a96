"""The files plane, to change: write, link, make directories, move, delete.

A change is one transaction (`pending/writing.py`) and keeps the tree whole (`Draft`): it either
happens as asked, or raises and leaves everything as it was.

Changes to the files plane on their way to pending rows, kept free of contradictions.

A tree of files has rules that a map of keys does not: what lies in a directory needs every
name above it to be a directory, and a directory that loses its last file is still there.
A draft holds changes over a view and upholds two invariants:

1. No key that is a file or a link has keys below it.
2. A directory has an entry of its own exactly when it is empty or its mode is not the usual
   one. So equal trees are equal maps, however they came about.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import BinaryIO, Final

import msgspec

from holdfast.engine.core.paths import (
    MAX_PATH_BYTES,
    PathLike,
    ancestors,
    parent_of,
    to_bytes,
    to_key,
)
from holdfast.engine.files.reader import EPOCH, FilesReader, Opened, info_of
from holdfast.engine.journal.occurrences import deleted, written
from holdfast.engine.objects import content
from holdfast.engine.objects.stage import Stage
from holdfast.engine.pending.writing import Rows, change, change_rows, no_events
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.view import View
from holdfast.entries import Blob, Directory, Entry, Inline, Link, decode_entry, encode_entry
from holdfast.errors import (
    Busy,
    InvalidPath,
    InvalidValue,
    NotADirectory,
    NotAFile,
    PathExists,
    PathNotFound,
    TooLarge,
)
from holdfast.model.basics import Plane
from holdfast.model.events import Occurrence
from holdfast.model.files import USUAL_DIRECTORY_MODE, FileInfo
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


class Draft:
    """Uncommitted changes to files, readable as if they had been made."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[bytes, bytes | None] = {}
        # The directories above what was looked up last: there may be megabytes of them, and who
        # knows them need not make and hash them again.
        self._above: dict[bytes, list[bytes]] = {}
        # Every directory above a key that this draft put: a superset of those that have
        # children in `rows`, so that a path outside it needs no look through the rows.
        self._folders: set[bytes] = set()
        self.rows: dict[bytes, bytes | None] = {}

    def prefetch(self, keys: Collection[bytes]) -> None:
        """Looks many keys and the directories above them up at once; of one, what is below it."""
        if len(keys) == 1:
            self._view.ask_under(b"".join(keys) + b"/")
        self._above = {key: [*ancestors(key)] for key in sorted(keys)}
        # Nearly sorted as they come, which spares those of thousands of levels most comparisons.
        names = dict.fromkeys(name for key, above in self._above.items() for name in (*above, key))
        wanted = sorted(names.keys() - self._known.keys() if self._known else names)
        found = self._view.get_many(wanted)
        self._known |= {key: found.get(key) for key in wanted}

    def find(self, key: bytes) -> Entry | None:
        """Returns the entry at a path; None for a directory without an entry of its own."""
        if key in self.rows:
            data = self.rows[key]
        else:
            if key not in self._known:
                self._known[key] = self._view.get(key)
            data = self._known[key]
        return None if data is None else decode_entry(data)

    def is_directory(self, key: bytes) -> bool:
        """Says whether a path is a directory, with or without an entry of its own."""
        return key == b"" or isinstance(self.find(key), Directory) or self.has_children(key)

    def has_children(self, key: bytes) -> bool:
        """Says whether anything lies below a path."""
        return next(self.below(key), None) is not None

    def below(self, key: bytes) -> Iterator[bytes]:
        """Yields the keys below a directory, in no promised order."""
        prefix = key + b"/" if key else b""
        if not key or key in self._folders:
            live = [name for name, data in self.rows.items() if data is not None]
            yield from (name for name in live if name.startswith(prefix))
        for name, _ in self._view.under(prefix):
            if name not in self.rows:
                yield name

    def put(self, key: bytes, entry: Entry) -> None:
        """Puts a file, link or directory at a path; raises if that breaks the tree."""
        found = self.find(key)
        if isinstance(entry, Directory):
            if found is not None and not isinstance(found, Directory):
                raise NotADirectory(key, blocked_by=key)
            is_needless = entry.mode == USUAL_DIRECTORY_MODE and self.has_children(key)
        else:
            self._refuse_to_cover(key, found)
            is_needless = False
        for folder in self._above.get(key) or ancestors(key):
            self._enter(folder, key)
        self.rows[key] = None if is_needless else encode_entry(entry)

    def drop(self, key: bytes) -> None:
        """Takes one key out, and keeps the directory it lay in."""
        self.rows[key] = None
        parent = parent_of(key)
        if parent and self.find(parent) is None and not self.has_children(parent):
            self.rows[parent] = encode_entry(Directory(USUAL_DIRECTORY_MODE))

    def drop_tree(self, key: bytes) -> list[bytes]:
        """Takes a directory out with all that is in it; returns what that was."""
        gone = [*self.below(key)]
        for name in gone:
            self.rows[name] = None
        self.drop(key)
        return gone

    def _refuse_to_cover(self, key: bytes, found: Entry | None) -> None:
        if isinstance(found, Directory) or (found is None and self.has_children(key)):
            raise NotAFile(key, found="directory")
        if isinstance(found, Link):
            raise NotAFile(key, found="link")

    def _enter(self, folder: bytes, key: bytes) -> None:
        found = self.find(folder)
        if isinstance(found, Directory):
            if found.mode == USUAL_DIRECTORY_MODE:
                self.rows[folder] = None  # Invariant 2: from now on it is not empty.
        elif found is not None:
            raise NotADirectory(key, blocked_by=folder)
        self._folders.add(folder)


USUAL_FILE_MODE: Final = 0o644
MAX_MODE: Final = 0o1777
"""Permission bits and the sticky bit: set-user-id and set-group-id are never stored."""

Data = str | bytes | bytearray | memoryview | BinaryIO


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
    ) -> FileInfo:
        """Creates or replaces a file; the directories above it come about by themselves.

        Without `mode`, a file that is there keeps its own. A stream is stored as it is read.
        """
        key, made = to_key(path), list[Entry]()
        _check_mode(mode)
        mtime_ns, again = self._mtime_ns(modified_at), _Rewind(data)

        def prepare(stage: Stage) -> Callable[[View], Rows]:
            again.rewind()
            stored = self._store(stage, data)

            def compute(view: View) -> Rows:
                draft = Draft(view)
                draft.prefetch([key])
                made[:] = [_dressed(stored, draft.find(key), mode, mtime_ns)]
                draft.put(key, made[0])
                return draft.rows

            return compute

        change(
            self._handle,
            Plane.FILES,
            prepare,
            over=[key],
            told=lambda: [_written(key, made[0].size)],
        )
        return info_of(key, made[0])

    @does(WriteFiles)
    def write_many(self, wanted: WriteFiles) -> int:
        total, size, weight, batch = 0, 0, 0, dict[bytes, bytes]()
        for path, data in wanted.items:
            key, body = to_key(path), _to_bytes(data)
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
            entry = draft.find(key)
            if entry is not None and not isinstance(entry, Directory):
                gone[:] = [key]
                draft.drop(key)
                return
            if entry is None and not draft.has_children(key):
                raise PathNotFound(key)
            if not wanted.recursive and draft.has_children(key):
                raise NotAFile(key, found="directory with files in it (pass recursive=True)")
            gone[:] = draft.drop_tree(key) or [key]

        self._draft(drop, lambda: [deleted(_told(key), entries=len(gone))])
        return len(gone)

    def _write_batch(self, batch: dict[bytes, bytes]) -> None:
        mtime_ns = self._mtime_ns(None)

        def prepare(stage: Stage) -> Callable[[View], Rows]:
            stored = {key: self._store(stage, data) for key, data in batch.items()}

            def compute(view: View) -> Rows:
                draft = Draft(view)
                draft.prefetch(stored)
                for key, entry in stored.items():
                    draft.put(key, _dressed(entry, draft.find(key), None, mtime_ns))
                return draft.rows

            return compute

        def told() -> list[Occurrence]:
            return [_written(key, len(data)) for key, data in batch.items()]

        change(self._handle, Plane.FILES, prepare, over=batch, told=told)

    def _draft(
        self, edit: Callable[[Draft], None], told: Callable[[], Sequence[Occurrence]] = no_events
    ) -> None:
        def compute(view: View) -> Rows:
            draft = Draft(view)
            edit(draft)
            return draft.rows

        change_rows(self._handle, Plane.FILES, compute, told=told)

    def _store(self, stage: Stage, data: Data) -> Inline | Blob:
        most = self._handle.context.limits.file_bytes
        if not isinstance(data, str | bytes | bytearray | memoryview):
            return content.store_stream(stage, data, max_bytes=most)
        body = _to_bytes(data)
        if len(body) > most:
            message = f"a file may have {most} bytes; this one has {len(body)}"
            raise TooLarge(message)
        return content.as_file(stage, body)

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


def _to_bytes(data: str | bytes | bytearray | memoryview) -> bytes:
    if not isinstance(data, str):
        return bytes(data)
    try:
        return data.encode("utf-8")
    except UnicodeEncodeError as exc:
        message = f"the text cannot be encoded as UTF-8: {exc.reason}"
        raise InvalidValue(message) from exc


def _to_target(target: PathLike) -> bytes:
    goal = to_bytes(target)
    if not goal or b"\0" in goal or len(goal) > MAX_PATH_BYTES:
        raise InvalidPath(goal, reason="it is empty, too long, or holds a NUL byte")
    return goal
