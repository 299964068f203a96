"""Turns what has changed in a directory into changes of the files map.

A scan says which names to read (`holdfast.workspace.scan`); here they are read, stored, and made
entries. The result is relative to the map that the index stands for: what has to be put and
taken out, the new index, and the coverage. Nothing is decided about snapshots (`directory.py`).

A file is believed only if nobody could have been writing to it while it was read. What was changed
a moment ago is read once more; what somebody has open for writing, or never holds still, is
captured as it is, and named as *in motion* until it was read at rest. Programs keep files open for
ever: while one looks as it did, it is read again within a budget only.

Reading goes folder by folder in path order, so that neighbours share blocks in a pack. Packing
runs beside it in threads of its own (`objects/stage.py`).
"""

import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import Enum
from io import FileIO
from typing import Final, NamedTuple

import msgspec

from holdfast.engine.capturing.captured import Captured
from holdfast.engine.capturing.lastlook import LastLook
from holdfast.engine.core.coverage import Omissions, summarise
from holdfast.engine.core.limits import Limits
from holdfast.engine.objects import content
from holdfast.engine.objects.content import Sink
from holdfast.entries import (
    Blob,
    Directory,
    Entry,
    Inline,
    Link,
    encode_entry,
    storable,
    with_twin,
)
from holdfast.errors import TooLarge
from holdfast.model.files import PERMISSIONS, USUAL_DIRECTORY_MODE
from holdfast.progress import Progress, Reckoning
from holdfast.workspace.descent import Descent
from holdfast.workspace.drafts import Draft, Identity, Omitted, is_content, row_of
from holdfast.workspace.openings import Openings
from holdfast.workspace.reading import (
    OPEN,
    TORN,
    Reading,
    Unreadable,
    Vanished,
    look_at_rest,
    read_all,
    read_link,
    read_still,
)
from holdfast.workspace.resting import Rest, Resting, tick_s
from holdfast.workspace.scan import Scan
from holdfast.workspace.statindex import (
    UNSURE,
    Folder,
    Row,
    is_unsure,
    settled,
    unsure,
)

STREAM_BYTES: Final = 4 << 20
"""Files up to this size are read at once; larger ones never lie in memory whole."""

LOOKS: Final = 5
"""Times that a name is looked at that is something else each time."""

BETWEEN_S: Final = (0.002, 0.004, 0.006, 0.008, 0.01, 0.01)
"""Between two readings of a file, and at least a tick of the clock that stamps: a write of a few
megabytes gets on in that time, and a file that is written every few milliseconds may hold still
for as long."""

LIVELY_NS: Final = 1_000_000_000
"""A file that is open for writing and was written in the last second is waited for, as above."""

AGAIN_BYTES: Final = 32 << 20
"""How much is read again, at most, of what looks as it did and cannot be proven yet."""

UNREAD: Final = "it was written when it was last read, and has not been read since"


class Rereading(Enum):
    """What of the files that are unsure, and look as they did, is read again."""

    ALL = "all"
    """Before something takes their place: what they hold must be in a snapshot."""
    SOME = "some"
    """What can be proven now, and of the rest as much as the budget allows."""
    NOT_IN_MOTION = "not in motion"
    """The same, but for what is in motion: that is named unread."""
    NONE = "none"
    """They were read a moment ago, by the same look: that stands."""


class Capture:
    """One reading of what a scan found."""

    def __init__(
        self,
        root_fd: int,
        known: LastLook,
        sink: Sink,
        limits: Limits,
        progress: Progress,
        *,
        reads_twice: bool = True,
        rereading: Rereading = Rereading.SOME,
        openings: Openings | None = None,
    ) -> None:
        """Without `reads_twice`, for what was just written here, and is only compared.

        In a watched directory `openings` are told what was found at rest.
        """
        self._reads_twice = reads_twice
        self._rereading = rereading
        self._again_bytes = AGAIN_BYTES
        self._openings = openings
        self._resting = Resting() if openings is None else Resting(openings.listen)
        self._root_fd = root_fd
        self._known = known
        self._sink = sink
        self._limits = limits
        self._progress = progress
        self._reckoning = Reckoning(progress, 0)
        self._changes: dict[bytes, bytes | None] = {}
        self._twins: dict[Identity, dict[bytes, _Name]] = {}
        self._fresh: list[tuple[Draft, bytes]] = []
        self._moving = dict(known.moving)
        self._due: dict[Identity, bool] = {}
        self._missed: dict[Identity, bytes] = {}

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
        moving = self._still_moving(scan)
        coverage = summarise(omitted, moving, captured=files, captured_bytes=size)
        missed = {**scan.missed, **self._missed}
        return Captured(
            self._known,
            self._changes,
            folders,
            omitted,
            moving,
            rules,
            coverage,
            missed,
            scan.is_disturbed or bool(missed),
        )

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
        wanted = ((draft, name) for draft in scan.drafts.values() for name in draft.wanted)
        total = sum(draft.rows[name].size for draft, name in wanted if name in draft.rows)
        self._reckoning = Reckoning(self._progress, total)
        with Descent(self._root_fd) as descent:
            for path in sorted(scan.drafts):
                draft = scan.drafts[path]
                self._take_out(draft)
                if draft.wanted:
                    self._read_folder(descent, draft)
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
            self._missed[draft.identity] = draft.path
            for name in draft.wanted:
                self._fail(draft, name, exc.strerror or str(exc))
            return
        for name in sorted(draft.wanted):
            row, is_unsure_still = draft.rows[name], name in draft.unsure
            if is_unsure_still and self._rereading is Rereading.NONE:
                draft.rows[name] = row._replace(ctime_ns=unsure(row.ctime_ns))
            elif not is_unsure_still or self._is_due(draft, name, fd):
                self._read_name(draft, name, fd)
            else:
                draft.rows[name] = row._replace(ctime_ns=unsure(row.ctime_ns))
                self._moving.setdefault(draft.key(name), UNREAD)

    def _is_due(self, draft: Draft, name: bytes, fd: int) -> bool:
        """Says whether a file that looks as it did, and is unsure, is read again now.

        For all names of a file alike: read without the others, one would look like the only.
        """
        row = draft.rows[name]
        due = self._due.get((row.dev, row.ino))
        if due is None:
            due = self._due[row.dev, row.ino] = self._is_worth_reading(draft.key(name), row, fd)
        return due

    def _is_worth_reading(self, key: bytes, row: Row, fd: int) -> bool:
        if self._rereading is Rereading.ALL or not stat.S_ISREG(row.mode):
            return True
        if key not in self._known.moving and row.size <= STREAM_BYTES:
            return True  # of a moment ago: there may be many, but not for long
        if self._rereading is Rereading.NOT_IN_MOTION and key in self._known.moving:
            return False
        try:
            rest = look_at_rest(key.rpartition(b"/")[2], fd, resting=self._resting)
        except (Vanished, Unreadable):
            return True  # which says so
        has_left = rest is not Rest.REFUSED and self._known.moving.get(key) == OPEN
        if has_left or rest is Rest.PROVEN:
            return True
        is_in_budget = row.size <= self._again_bytes
        self._again_bytes -= row.size if is_in_budget else 0
        return is_in_budget

    def _read_name(self, draft: Draft, name: bytes, fd: int) -> None:
        before = draft.rows[name]
        try:
            entry = self._read_one(draft, name, fd)
        except Vanished:
            self._missed[before.dev, before.ino] = draft.key(name)
            draft.rows.pop(name, None)
            draft.doubt()
            self._changes[draft.key(name)] = None
            self._moving.pop(draft.key(name), None)
        except Unreadable as exc:
            self._fail(draft, name, str(exc))
        else:
            self._changes[draft.key(name)] = encode_entry(entry)
            if draft.rows[name].ino != before.ino:
                # What was listed may be elsewhere: its folder has to be listed again.
                self._missed[before.dev, before.ino] = draft.key(name)
                draft.doubt()

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
        row = row_of(name, state)
        draft.rows[name] = row._replace(ctime_ns=settled(row.ctime_ns, read_at_ns=read_at_ns))
        self._moving.pop(draft.key(name), None)
        return Link(target, storable(state.st_mtime_ns))

    def _read_file(self, draft: Draft, name: bytes, fd: int) -> Entry:
        reading = read_still(name, fd, self._store, resting=self._resting)
        state, key = reading.state, draft.key(name)
        entry = msgspec.structs.replace(
            reading.value,
            mode=state.st_mode & PERMISSIONS,
            mtime_ns=storable(state.st_mtime_ns),
        )
        draft.rows[name] = row_of(name, state)._replace(ctime_ns=reading.ctime_ns)
        self._moving.pop(key, None)
        if self._openings is not None and reading.heard is not None:
            self._openings.settle(key, reading.heard)
        if reading.motion:
            self._moving[key] = reading.motion
        if is_unsure(reading.ctime_ns) and (not reading.motion or _is_lively(reading)):
            self._fresh.append((draft, name))
        if state.st_nlink > 1:
            same = self._twins.setdefault((state.st_dev, state.st_ino), {})
            same[key] = _Name(key, entry, draft, name)
        return entry

    def _read_again(self) -> None:
        """Reads files once more that were changed a moment before, until what they hold is proven.

        Where that cannot be, what is the same twice has to do; it stays unsure. What is another
        each time, or open for writing to the end, is in motion.
        """
        touched = {draft.path: draft for draft, _ in self._fresh}
        for pause_s in BETWEEN_S:
            fresh, self._fresh = self._fresh, []
            if not fresh:
                break
            time.sleep(max(pause_s, tick_s()))
            before = {draft.key(name): self._changes[draft.key(name)] for draft, name in fresh}
            with Descent(self._root_fd) as descent:
                for draft, name in fresh:
                    try:
                        fd = descent.open(draft.path)
                    except OSError as exc:
                        self._missed[draft.identity] = draft.path
                        self._fail(draft, name, exc.strerror or str(exc))
                        continue
                    self._read_name(draft, name, fd)
            self._fresh = [
                (draft, name)
                for draft, name in self._fresh
                if (key := draft.key(name)) in self._moving or self._changes[key] != before[key]
            ]
        for draft, name in self._fresh:
            self._moving.setdefault(draft.key(name), TORN)
        for draft in touched.values():
            # The last file of a folder may be gone, or have failed, since it was first read.
            self._put_folder(draft)

    def _store(self, fd: int, state: os.stat_result) -> Inline | Blob:
        most = self._limits.file_bytes
        if state.st_size > most:
            message = f"it has {state.st_size} bytes, and {most} is the most"
            raise Unreadable(message)
        if state.st_size <= STREAM_BYTES:
            self._reckoning.add(state.st_size)
            return content.as_file(self._sink, read_all(fd, state.st_size))
        with FileIO(fd, closefd=False) as stream:
            try:
                counted = self._reckoning.counting(stream)
                return content.store_stream(self._sink, counted, max_bytes=most)
            except TooLarge as exc:
                raise Unreadable(str(exc)) from exc

    def _fail(self, draft: Draft, name: bytes, reason: str) -> None:
        """Leaves a file out that should have been captured; it is tried again each time."""
        row = draft.rows[name]
        draft.rows[name] = row._replace(ctime_ns=UNSURE)
        draft.omitted.append(Omitted(name, "failed", reason))
        self._changes[draft.key(name)] = None
        self._moving.pop(draft.key(name), None)
        draft.doubt()

    def _still_moving(self, scan: Scan) -> dict[bytes, str]:
        """Returns what was in motion, is there still, and is not proven yet, with the reason."""
        moving, unsure_in = dict[bytes, str](), dict[bytes, set[bytes]]()
        for key in sorted(self._moving):
            folder, _, name = key.rpartition(b"/")
            if folder not in unsure_in:
                unsure_in[folder] = self._unsure_in(scan, folder)
            if name in unsure_in[folder]:
                moving[key] = self._moving[key]
        return moving

    def _unsure_in(self, scan: Scan, folder: bytes) -> set[bytes]:
        if _is_in(folder, scan.gone):
            return set()
        draft = scan.drafts.get(folder)
        known = None if draft else self._known.index.find(folder)
        rows = draft.rows.values() if draft else known.rows if known else ()
        return {row.name for row in rows if is_unsure(row.ctime_ns)}

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
        for file, same in self._twins.items():
            names = [name for name in same.values() if name.file == file]
            names = [name for name in names if self._changes.get(name.key) is not None]
            if not names:
                continue
            first = min(names, key=lambda name: name.key)
            if len(names) > 1 and all(name.entry == first.entry for name in names):
                for name in names:
                    self._changes[name.key] = encode_entry(with_twin(first.entry, first.key))
            if any(is_unsure(name.row.ctime_ns) for name in names):
                # All of them or none: read without the others, one would look like the only.
                for name in names:
                    row = name.row
                    name.draft.rows[name.name] = row._replace(ctime_ns=unsure(row.ctime_ns))


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

    @property
    def file(self) -> Identity | None:
        """What was last read under this name, if anything was."""
        row = self.draft.rows.get(self.name)
        return None if row is None else (row.dev, row.ino)


def _is_lively(reading: Reading[Inline | Blob]) -> bool:
    """Says whether a file that is in motion may be at rest in a moment."""
    state = reading.state
    is_small = reading.motion == OPEN and state.st_size <= STREAM_BYTES
    return is_small and state.st_ctime_ns + LIVELY_NS > time.time_ns()


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
