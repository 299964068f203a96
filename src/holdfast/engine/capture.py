"""Turns what has changed in a directory into changes of the files map.

A scan says which names to read (`holdfast.workspace.scan`); here they are read, stored, and made
entries. The result is relative to the map that the index stands for: what has to be put and
taken out, the new index, and the coverage. Nothing is decided about snapshots (`directory.py`).

Reading goes folder by folder in path order, so that neighbours share blocks in a pack. Packing
runs beside it in threads of its own (`stage.py`).
"""

import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from typing import Final, NamedTuple

import msgspec

from holdfast.engine import content
from holdfast.engine.collect import Progress
from holdfast.engine.content import Sink
from holdfast.engine.coverage import Coverage, Omissions, summarise
from holdfast.engine.files import USUAL_DIRECTORY_MODE
from holdfast.engine.limits import Limits
from holdfast.entries import Blob, Directory, Entry, Inline, Link, encode_entry, with_twin
from holdfast.errors import TooLarge
from holdfast.ids import ObjectId
from holdfast.model import EMPTY_MAP
from holdfast.workspace.descent import Descent
from holdfast.workspace.reading import (
    Unreadable,
    Vanished,
    read_all,
    read_link,
    read_still,
)
from holdfast.workspace.scan import Draft, Omitted, Scan, is_content, row_of
from holdfast.workspace.statindex import UNSURE, Folder, Row, StatIndex, settled

STREAM_BYTES: Final = 4 << 20
"""Files up to this size are read at once; larger ones never lie in memory whole."""

LOOKS: Final = 5
"""Times that a name is looked at that is something else each time."""

BETWEEN_S: Final = (0.002, 0.004, 0.006, 0.008, 0.01, 0.01)
"""Between two readings of a file: a write of a few megabytes gets on in that time, and a file
that is written every few milliseconds may hold still for as long."""

PERMISSIONS: Final = 0o1777
"""Set-user-id and set-group-id are never stored."""


class _Meta(msgspec.Struct, array_like=True, frozen=True):
    """What is kept with the index."""

    root: bytes
    rules: bytes
    omitted: dict[bytes, list[tuple[bytes, str, str]]]
    lost: list[str] = []
    former: bytes = b""


class Known(msgspec.Struct, frozen=True):
    """What is known of a directory: its files' states, and the map that holds them."""

    index: StatIndex
    root: ObjectId
    rules: bytes
    """Stands for the rules by which it was scanned."""
    omitted: Omissions
    lost: tuple[str, ...] = ()
    """Packs that were lost when all was read: what lay in them was stored anew, as far as it was
    here."""
    former: bytes = b""
    """The map that the index stood for before it was forgotten."""

    @classmethod
    def of(cls, index: StatIndex | None) -> "Known":
        """Returns what an index stands for; nothing, if there is none that can be read."""
        if index is None or not index.meta:
            return cls(StatIndex.empty(), EMPTY_MAP, b"", {})
        try:
            meta = msgspec.msgpack.decode(index.meta, type=_Meta)
        except msgspec.DecodeError:
            return cls(StatIndex.empty(), EMPTY_MAP, b"", {})
        omitted = {
            path: [Omitted(*omission) for omission in found] for path, found in meta.omitted.items()
        }
        return cls(index, ObjectId(meta.root), meta.rules, omitted, tuple(meta.lost), meta.former)

    def forgotten(self, lost: Sequence[str] | None = None) -> "Known":
        """Returns what makes the next look read every byte, as if nothing were known.

        `lost` are packs that are lost, where somebody looked.
        """
        kept = self.lost if lost is None else tuple(lost)
        former = self.former if self.root == EMPTY_MAP else self.root
        meta = msgspec.msgpack.encode((EMPTY_MAP, b"", {}, kept, former))
        index = StatIndex.empty().replacing({}, meta=meta)
        return Known(index, EMPTY_MAP, b"", {}, kept, former)

    def replacing(
        self,
        folders: Mapping[bytes, Folder | None],
        *,
        root: ObjectId,
        rules: bytes,
        omitted: Omissions,
    ) -> "Known":
        """Returns the same with some folders, and what they stand for, changed."""
        if not folders and (root, rules, omitted) == (self.root, self.rules, self.omitted):
            return self
        plain = {path: [tuple(o) for o in found] for path, found in omitted.items() if found}
        meta = msgspec.msgpack.encode((root, rules, plain, self.lost, b""))
        index = self.index.replacing(folders, meta=meta)
        return Known(index, root, rules, omitted, self.lost)


class Captured(msgspec.Struct, frozen=True):
    """A directory as it is now, relative to what was known."""

    known: Known
    changes: Mapping[bytes, bytes | None]
    folders: Mapping[bytes, Folder | None]
    omitted: Omissions
    rules: bytes
    coverage: Coverage

    @property
    def is_whole(self) -> bool:
        """Says whether everything was read: the changes are all that the directory holds."""
        return self.known.index.find(b"") is None

    def settle(self, root: ObjectId) -> Known:
        """Returns what is known once a map with that root holds these changes."""
        return self.known.replacing(self.folders, root=root, rules=self.rules, omitted=self.omitted)


class Capture:
    """One reading of what a scan found."""

    def __init__(
        self,
        root_fd: int,
        known: Known,
        sink: Sink,
        limits: Limits,
        progress: Progress,
        *,
        reads_twice: bool = True,
    ) -> None:
        """Without `reads_twice`, for what was just written here, and is only compared."""
        self._reads_twice = reads_twice
        self._root_fd = root_fd
        self._known = known
        self._sink = sink
        self._limits = limits
        self._progress = progress
        self._changes: dict[bytes, bytes | None] = {}
        self._twins: dict[tuple[int, int], dict[bytes, _Name]] = {}
        self._fresh: list[tuple[Draft, bytes]] = []
        self._states: dict[bytes, tuple[int, int, int, int]] = {}

    def take(self, scan: Scan, *, rules: bytes) -> Captured:
        """Reads what has to be read; raises `TooLarge` if the directory is over its budget."""
        files, size = self._measure(scan)
        for path in scan.gone:
            self._drop_tree(path)
        self._read(scan)
        if self._reads_twice:
            self._read_again()
        self._join_twins()
        folders: dict[bytes, Folder | None] = dict.fromkeys(scan.gone)
        omitted = {
            path: found
            for path, found in self._known.omitted.items()
            if path not in scan.relisted and not _is_in(path, scan.gone)
        }
        for path, draft in scan.drafts.items():
            folders[path] = draft.finish()
            if draft.omitted:
                omitted[path] = [*omitted.get(path, ()), *draft.omitted]
        files, size = _plus(files, size, self._failed(scan, omitted), -1)
        coverage = summarise(omitted, captured=files, captured_bytes=size)
        return Captured(self._known, self._changes, folders, omitted, rules, coverage)

    def _measure(self, scan: Scan) -> tuple[int, int]:
        """Returns how many files and bytes there are; raises if they are too many."""
        files, size = self._known.index.totals()
        for path in scan.gone:
            for folder in self._known.index.iter_folders(path):
                files, size = _plus(files, size, folder.rows, -1)
        for path, draft in scan.drafts.items():
            before = self._known.index.find(path)
            if before is not None:
                files, size = _plus(files, size, before.rows, -1)
            files, size = _plus(files, size, draft.rows.values(), 1)
        limits = self._limits
        if files > limits.workspace_files or size > limits.workspace_bytes:
            message = (
                f"the directory has {files} files with {size} bytes, and the budget is "
                f"{limits.workspace_files} files with {limits.workspace_bytes} bytes: "
                "leave some out with .holdfastignore, or raise the limits"
            )
            raise TooLarge(message)
        return files, size

    def _read(self, scan: Scan) -> None:
        total = sum(len(draft.wanted) for draft in scan.drafts.values())
        done = 0
        with Descent(self._root_fd) as descent:
            for path in sorted(scan.drafts):
                draft = scan.drafts[path]
                self._take_out(draft)
                if draft.wanted:
                    self._read_folder(descent, draft)
                    done += len(draft.wanted)
                    self._progress("reading", done, total)
                self._put_folder(draft)

    def _take_out(self, draft: Draft) -> None:
        """Takes out what was captured of a folder and is no more."""
        before = self._known.index.find(draft.path)
        if before is None:
            return
        kept = {name for name, row in draft.rows.items() if is_content(row.mode)}
        for row in before.rows:
            if row.name not in kept:
                self._changes.setdefault(draft.key(row.name))

    def _read_folder(self, descent: Descent, draft: Draft) -> None:
        try:
            fd = descent.open(draft.path)
        except OSError as exc:
            for name in draft.wanted:
                self._fail(draft, name, exc.strerror or str(exc))
            return
        for name in sorted(draft.wanted):
            self._read_name(draft, name, fd)

    def _read_name(self, draft: Draft, name: bytes, fd: int) -> None:
        try:
            entry = self._read_one(draft, name, fd)
        except Vanished:
            draft.rows.pop(name, None)
            draft.doubt()
            self._changes[draft.key(name)] = None
        except Unreadable as exc:
            self._fail(draft, name, str(exc))
        else:
            self._changes[draft.key(name)] = encode_entry(entry)

    def _read_one(self, draft: Draft, name: bytes, fd: int) -> Entry:
        """Returns the entry of what is there under a name; it may just have become a link.

        Raises `Vanished` if nothing is.
        """
        mode = draft.rows[name].mode
        for _ in range(LOOKS):
            with suppress(Vanished):
                if stat.S_ISLNK(mode):
                    return self._read_link(draft, name, fd)
                if stat.S_ISREG(mode):
                    return self._read_file(draft, name, fd)
            mode = _mode_of(name, fd)
        raise Unreadable("it was something else each time it was looked at")

    def _read_link(self, draft: Draft, name: bytes, fd: int) -> Entry:
        read_at_ns = time.time_ns()
        target, state = read_link(name, fd)
        self._note(draft, name, state, read_at_ns)
        return Link(target, state.st_mtime_ns)

    def _read_file(self, draft: Draft, name: bytes, fd: int) -> Entry:
        read_at_ns = time.time_ns()
        stored, state = read_still(name, fd, self._store)
        entry = msgspec.structs.replace(
            stored, mode=state.st_mode & PERMISSIONS, mtime_ns=state.st_mtime_ns
        )
        self._note(draft, name, state, read_at_ns)
        if draft.rows[name].ctime_ns == UNSURE:
            self._fresh.append((draft, name))
            self._states[draft.key(name)] = _state_of(state)
        if state.st_nlink > 1:
            same = self._twins.setdefault((state.st_dev, state.st_ino), {})
            same[draft.key(name)] = _Name(draft.key(name), entry, draft, name)
        return entry

    def _note(self, draft: Draft, name: bytes, state: os.stat_result, read_at_ns: int) -> None:
        row = row_of(name, state)
        draft.rows[name] = row._replace(ctime_ns=settled(row.ctime_ns, read_at_ns=read_at_ns))

    def _read_again(self) -> None:
        """Reads files a second time that were written a moment before the first.

        A write is stamped when it begins: while it goes on, the file's times do not move, and
        what was read may be half of it. What is the same twice was not being written.
        """
        touched = {draft.path: draft for draft, _ in self._fresh}
        for pause_s in BETWEEN_S:
            fresh, self._fresh = self._fresh, []
            if not fresh:
                break
            time.sleep(pause_s)
            before = {draft.key(name): self._changes[draft.key(name)] for draft, name in fresh}
            with Descent(self._root_fd) as descent:
                for draft, name in fresh:
                    try:
                        fd = descent.open(draft.path)
                    except OSError as exc:
                        self._fail(draft, name, exc.strerror or str(exc))
                        continue
                    if not self._is_still(draft, name, fd):
                        self._read_name(draft, name, fd)
            # Also those whose time is further back by now: a long write may still go on.
            self._fresh = [
                (draft, name)
                for draft, name in fresh
                if self._changes[draft.key(name)] not in (None, before[draft.key(name)])
            ]
        for draft, name in self._fresh:
            self._fail(draft, name, "it changed each time it was read")
        for draft in touched.values():
            # The last file of a folder may be gone, or have failed, since it was first read.
            self._put_folder(draft)

    def _is_still(self, draft: Draft, name: bytes, fd: int) -> bool:
        """Says whether a large file is as it was when it was read: its state has to do.

        Reading it took longer than a write goes on, and a second time would double the cost.
        """
        row = draft.rows.get(name)
        if row is None or row.size <= STREAM_BYTES:
            return False
        try:
            state = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            return False
        return _state_of(state) == self._states.get(draft.key(name))

    def _store(self, fd: int, state: os.stat_result) -> Inline | Blob:
        most = self._limits.file_bytes
        if state.st_size > most:
            message = f"it has {state.st_size} bytes, and {most} is the most"
            raise Unreadable(message)
        if state.st_size <= STREAM_BYTES:
            return content.as_file(self._sink, read_all(fd, state.st_size))
        with FileIO(fd, closefd=False) as stream:
            try:
                return content.store_stream(self._sink, stream, max_bytes=most)
            except TooLarge as exc:
                raise Unreadable(str(exc)) from exc

    def _fail(self, draft: Draft, name: bytes, reason: str) -> None:
        """Leaves a file out that should have been captured; it is tried again each time."""
        row = draft.rows[name]
        draft.rows[name] = row._replace(ctime_ns=UNSURE)
        draft.omitted.append(Omitted(name, "failed", reason))
        self._changes[draft.key(name)] = None
        draft.doubt()

    def _failed(self, scan: Scan, omitted: Omissions) -> Iterator[Row]:
        """Yields the rows that are known and not captured."""
        for path, omissions in omitted.items():
            names = {omission.name for omission in omissions if omission.kind == "failed"}
            if names:
                draft, known = scan.drafts.get(path), self._known.index.find(path)
                rows = draft.rows.values() if draft else known.rows if known else ()
                yield from (row for row in rows if row.name in names)

    def _put_folder(self, draft: Draft) -> None:
        """Gives a folder an entry of its own exactly if it is empty, or has a mode of its own."""
        if not draft.path:
            return
        failed = {omission.name for omission in draft.omitted if omission.kind == "failed"}
        is_filled = bool(draft.folders) or any(
            is_content(row.mode) and row.name not in failed for row in draft.rows.values()
        )
        mode = draft.mode & PERMISSIONS
        is_needed = not is_filled or mode != USUAL_DIRECTORY_MODE
        self._changes[draft.path] = encode_entry(Directory(mode)) if is_needed else None

    def _drop_tree(self, path: bytes) -> None:
        for folder in self._known.index.iter_folders(path):
            self._changes.setdefault(folder.path)
            for row in folder.rows:
                self._changes.setdefault(folder.path + b"/" + row.name)

    def _join_twins(self) -> None:
        """Lets the names of one file say which of them is the first."""
        for same in self._twins.values():
            names = [name for name in same.values() if name.name in name.draft.rows]
            names = [name for name in names if self._changes.get(name.key) is not None]
            if not names:
                continue
            first = min(names, key=lambda name: name.key)
            if len(names) > 1 and all(name.entry == first.entry for name in names):
                for name in names:
                    self._changes[name.key] = encode_entry(with_twin(first.entry, first.key))
            if any(name.row.ctime_ns == UNSURE for name in names):
                # All of them or none: read without the others, one would look like the only.
                for name in names:
                    name.draft.rows[name.name] = name.row._replace(ctime_ns=UNSURE)


class _Name(NamedTuple):
    """One of the names of a file that has several."""

    key: bytes
    entry: Inline | Blob
    draft: Draft
    name: bytes

    @property
    def row(self) -> Row:
        """What is to be known under this name."""
        return self.draft.rows[self.name]


def _state_of(state: os.stat_result) -> tuple[int, int, int, int]:
    return state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def _mode_of(name: bytes, fd: int) -> int:
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
    except FileNotFoundError as exc:
        raise Vanished from exc
    except OSError as exc:
        raise Unreadable(exc.strerror or str(exc)) from exc


def _plus(files: int, size: int, rows: Iterable[Row], sign: int) -> tuple[int, int]:
    for row in rows:
        if is_content(row.mode):
            files += sign
            size += sign * row.size if stat.S_ISREG(row.mode) else 0
    return files, size


def _is_in(path: bytes, folders: Iterable[bytes]) -> bool:
    return any(path == folder or path.startswith(folder + b"/") for folder in folders)
