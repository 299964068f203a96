"""The files plane, to read: any moment of a namespace, its head or a snapshot.

Paths are checked before anything else (`core/paths.py`); links are data and never followed.
Changing files is `editing.py`.
"""

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timedelta
from functools import cached_property
from heapq import heappop, heappush
from itertools import islice
from operator import itemgetter
from typing import Final

import msgspec

from holdfast.display import Part
from holdfast.engine.core.limits import check_limit
from holdfast.engine.core.paths import PathLike, to_bytes, to_folder, to_key, to_text
from holdfast.engine.objects import content
from holdfast.engine.planes.view import View
from holdfast.entries import (
    Blob,
    Directory,
    Entry,
    Inline,
    Link,
    Memory,
    Session,
    Submap,
    decode_entry,
)
from holdfast.errors import NotADirectory, NotAFile, PathNotFound
from holdfast.fetching import fetched
from holdfast.instants import EPOCH
from holdfast.model.files import USUAL_DIRECTORY_MODE, FileInfo, Findings, as_text
from holdfast.operations.checks import checked
from holdfast.operations.files import GlobFiles, ListFiles, SearchFiles, StatFile, check_part
from holdfast.operations.operation import does
from holdfast.tree import prefix_stop

MOST_LOOKED_AT: Final = 10_000
"""Entries that a listing looks at to say how old directories are: some 20 ms."""

_BEFORE_SLASH: Final = re.compile(rb"[\x00-.]")

Opened = Callable[[], AbstractContextManager[View]]
"""Opens the plane as it is at the moment that a reader stands for."""


@checked
class FilesReader(Part):
    """Files at one moment."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened

    @contextmanager
    def still(self) -> Generator["FilesReader"]:
        """Opens the files as they are now: what is asked inside the block is of one moment."""
        with self.opened() as view:
            yield FilesReader(lambda: nullcontext(view))

    @fetched
    def read(self, path: PathLike, *, start: int = 0, length: int | None = None) -> bytes:
        """Returns a file's content, or so many bytes of it from an offset on.

        What lies before them is not read; where the file ends sooner, there are fewer.
        """
        key, part = to_key(path), check_part(start, length)
        with self.opened() as view:
            entry = get_file(view, key)
            if part is None:
                return content.read(view.objects, entry)
            return _first(content.stream_from(view.objects, entry, start), length)

    def read_text(self, path: PathLike, *, encoding: str = "utf-8") -> str:
        """Returns a file's content as text, with its line ends as they are."""
        return as_text(self.read(path), encoding)

    def stream(self, path: PathLike) -> Iterator[bytes]:
        """Returns a file's content piece by piece, as it was when the call was made."""
        key = to_key(path)
        with self.opened() as view:
            entry, objects = get_file(view, key), view.objects.unbound()
        return content.stream(objects, entry)

    @does(StatFile)
    @fetched
    def stat(self, wanted: StatFile) -> FileInfo:
        key = to_key(wanted.path)
        with self.opened() as view:
            info = _find_info(view, key)
            if info is None:
                raise PathNotFound(key)
            return Times(view).dated(key, info)

    @fetched
    def exists(self, path: PathLike) -> bool:
        """Says whether there is a file, link or directory at a path."""
        key = to_key(path)
        with self.opened() as view:
            return _find_info(view, key) is not None

    @fetched
    def readlink(self, path: PathLike) -> str:
        """Returns where a link points, which may be nowhere."""
        key = to_key(path)
        with self.opened() as view:
            entry = find_entry(view, key)
        if entry is None:
            raise PathNotFound(key)
        if not isinstance(entry, Link):
            raise NotAFile(key, found=f"{kind_of(entry)}, not a link,")
        return to_text(entry.target)

    @does(GlobFiles)
    @fetched
    def glob(self, wanted: GlobFiles) -> list[FileInfo]:
        from holdfast.engine.files.searching import glob  # noqa: PLC0415 - most never search

        with self.opened() as view:
            return glob(view, wanted)

    @does(SearchFiles)
    def grep(self, wanted: SearchFiles) -> Findings:
        from holdfast.engine.files.searching import search  # noqa: PLC0415 - as above

        return search(self.opened, wanted)

    @does(ListFiles)
    @fetched
    def list(self, wanted: ListFiles) -> list[FileInfo]:
        check_limit(wanted.limit)
        folder, beginning = _listed_place(wanted.path, wanted.prefix)
        behind = None if wanted.after is None else to_bytes(wanted.after)
        with self.opened() as view:
            check_folder(view, folder)
            inside, times = folder + b"/" if folder else b"", Times(view)
            read = _all_below if wanted.recursive else _children
            found = islice(read(view, inside, beginning, behind), wanted.limit)
            return [times.dated(key, info_of(key, entry)) for key, entry in found]


def _first(pieces: Iterator[bytes], length: int | None) -> bytes:
    """Returns so many bytes of what comes in pieces, and asks for no more."""
    parts, left = list[bytes](), length
    while left is None or left > 0:
        piece = next(pieces, None)
        if piece is None:
            break
        parts.append(piece if left is None else piece[:left])
        left = None if left is None else left - len(parts[-1])
    return b"".join(parts)


def _all_below(
    view: View, inside: bytes, beginning: bytes, behind: bytes | None
) -> Iterator[tuple[bytes, Entry]]:
    first = inside + beginning
    start = first if behind is None else max(first, behind + b"\0")
    for key, data in view.iterate(start, prefix_stop(first)):
        yield key, decode_entry(data)


def _children(
    view: View, inside: bytes, beginning: bytes, behind: bytes | None
) -> Iterator[tuple[bytes, Entry]]:
    found = by_path(children_of(view, inside, beginning, start=behind or b""))
    # What lies in a directory comes behind names that stand behind the directory's own.
    return (each for each in found if behind is None or each[0] > behind)


def _listed_place(path: PathLike, prefix: PathLike) -> tuple[bytes, bytes]:
    """Returns the directory that a listing is of, and what names there begin with."""
    folder, beginning = to_folder(path), to_bytes(prefix)
    if b"/" in beginning:
        inner, _, beginning = beginning.rpartition(b"/")
        folder = to_folder(folder + b"/" + inner if folder else inner)
    return folder, beginning


def find_entry(view: View, key: bytes) -> Entry | None:
    """Returns the entry at a path; None for a directory without one of its own."""
    data = view.get(key)
    return None if data is None else decode_entry(data)


def get_file(view: View, key: bytes) -> Inline | Blob:
    """Returns the entry of a file; raises if there is none, or something else."""
    entry = find_entry(view, key)
    if isinstance(entry, Inline | Blob):
        return entry
    if entry is not None:
        raise NotAFile(key, found=kind_of(entry))
    if view.first_under(key + b"/") is not None:
        raise NotAFile(key, found="directory")
    raise PathNotFound(key)


def kind_of(entry: Entry) -> str:
    """Returns the word for what an entry is."""
    match entry:
        case Inline() | Blob():
            return "file"
        case Link():
            return "link"
        case Directory():
            return "directory"
        case Submap():
            return "map"
        case Session():
            return "session"
        case Memory():
            return "memory"


def info_of(key: bytes, entry: Entry, *, is_tagged: bool = False) -> FileInfo:
    """Returns what an entry tells about its path; of a file its tag, if that is wanted."""
    path, kind = to_text(key), kind_of(entry)
    match entry:
        case Inline() | Blob():
            at, tag = _instant(entry.mtime_ns), tag_of(entry) if is_tagged else None
            return FileInfo(path, kind, entry.size, entry.mode, at, tag=tag)
        case Link():
            at, target = _instant(entry.mtime_ns), to_text(entry.target)
            return FileInfo(path, kind, entry.size, 0o777, at, target)
        case Directory():
            return FileInfo(path, kind, 0, entry.mode, None)
        case Submap() | Session() | Memory():
            return FileInfo(path, kind, entry.size, 0, None)


def tag_of(entry: Inline | Blob) -> str:
    """Returns a name for the content of a file: other content has another."""
    return content.tag_of(entry, content.FILES)


class Times:
    """When directories were last modified: each is as new as the newest of what lies in it.

    An empty one, of which nothing more is known, is as old as the namespace. No more than
    `MOST_LOOKED_AT` entries are looked at for one listing: of a very large directory those that
    come first count.
    """

    def __init__(self, view: View) -> None:
        self._view, self._left = view, MOST_LOOKED_AT
        self._newest = dict[bytes, int]()
        """By directory: of what was looked at, which is done once for those below, too."""

    def dated(self, key: bytes, info: FileInfo) -> FileInfo:
        """Returns what is known about a path, with a time also if it is a directory."""
        if info.kind != "directory":
            return info
        if key not in self._newest:
            self._look(key)
        newest = self._newest.get(key)
        at = self._begun if newest is None else _instant(newest)
        return msgspec.structs.replace(info, modified_at=at)

    def _look(self, folder: bytes) -> None:
        for key, data in islice(self._view.under(folder + b"/"), self._left):
            self._left -= 1
            entry = decode_entry(data)
            if not isinstance(entry, Inline | Blob | Link):
                continue
            above = key
            while len(above := above[: above.rfind(b"/")]) >= len(folder):
                self._newest[above] = max(entry.mtime_ns, self._newest.get(above, entry.mtime_ns))

    @cached_property
    def _begun(self) -> datetime:
        return self._view.begun() or EPOCH


def _find_info(view: View, key: bytes) -> FileInfo | None:
    entry = find_entry(view, key)
    if entry is not None:
        return info_of(key, entry, is_tagged=True)
    if view.first_under(key + b"/") is not None:
        return info_of(key, Directory(USUAL_DIRECTORY_MODE))
    return None


def check_folder(view: View, folder: bytes) -> None:
    """Raises unless there is such a directory; the root always is."""
    if not folder:
        return
    info = _find_info(view, folder)
    if info is None:
        raise PathNotFound(folder)
    if info.kind != "directory":
        error = NotADirectory(folder, blocked_by=folder)
        raise error.with_hint("Name a directory; what a link leads to has a name of its own.")


def children_of(
    view: View, folder: bytes, beginning: bytes = b"", *, start: bytes = b""
) -> Iterator[tuple[bytes, bytes, Entry]]:
    """Yields keys in order, and the child that each belongs to: its path, what it is.

    Of the keys from `start` on, which may be in the middle of what lies in a child.
    """
    stop = prefix_stop(folder + beginning)
    found = view.iterate(max(folder + beginning, start), stop)
    # Directories whose own entry has been seen: `a`, then `a-b`, then what lies in `a/`.
    listed: set[bytes] = set()
    while (item := next(found, None)) is not None:
        key, data = item
        name, slash, _ = key[len(folder) :].partition(b"/")
        child = folder + name
        if slash:
            if child not in listed:
                yield key, child, Directory(USUAL_DIRECTORY_MODE)
            # Leaps over all that lies in the directory: its keys end where '/' + 1 begins.
            found = view.iterate(child + b"0", stop)
        else:
            entry = decode_entry(data)
            if isinstance(entry, Directory):
                listed.add(child)
            yield key, child, entry


def by_path(children: Iterator[tuple[bytes, bytes, Entry]]) -> Iterator[tuple[bytes, Entry]]:
    """Yields children in the order of their paths; they come in the order of keys.

    There `a-b` and `a.txt` stand before what lies in `a/`: such names wait until it is clear
    whether there is a directory that goes before them.
    """
    waiting: list[tuple[bytes, bytes, Entry]] = []
    for key, path, entry in children:
        first = _BEFORE_SLASH.search(path, path.rfind(b"/") + 2)
        heappush(waiting, (path, path[: first.start()] + b"/" if first else b"", entry))
        while waiting and waiting[0][1] <= key:
            yield itemgetter(0, 2)(heappop(waiting))
    yield from map(itemgetter(0, 2), sorted(waiting, key=itemgetter(0)))


def _instant(mtime_ns: int) -> datetime:
    return EPOCH + timedelta(microseconds=mtime_ns // 1000)
