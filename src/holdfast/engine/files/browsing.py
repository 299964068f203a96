"""Lists a directory as people read it: directories first, then by name, down to some depth.

One moment is shown, however deep the listing goes. It ends at a number of entries, and looks at
no more than it needs for them: what lies in a directory that is passed by is leapt over.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from holdfast.engine.core.paths import PathLike, to_folder, to_key
from holdfast.engine.files.reader import (
    FilesReader,
    Times,
    by_path,
    check_folder,
    children_of,
    find_entry,
    get_file,
    info_of,
)
from holdfast.engine.objects import content
from holdfast.engine.planes.view import View
from holdfast.entries import Blob, Directory, Entry, Inline
from holdfast.model.files import FileInfo

Child = tuple[bytes, Entry]


@dataclass(slots=True)
class Listing:
    """What was found; `truncated` if there is more."""

    entries: list[FileInfo]
    truncated: bool = False


def browse(files: FilesReader, folder: PathLike, *, most: int, levels: int = 1) -> Listing:
    """Lists a directory, and what lies in those below it; raises `PathNotFound`.

    A directory comes before what lies in it. At most so many entries are listed, and so many
    levels of directories.
    """
    key = to_folder(folder)
    with files.opened() as view:
        check_folder(view, key)
        browsing = _Browsing(view, most, levels)
        browsing.enter(key + b"/" if key else b"", 1)
    return browsing.listing


def count_files(files: FilesReader) -> int:
    """Returns how many files and links there are: what a listing of everything would show."""
    with files.opened() as view:
        return view.count_files()


class _Browsing:
    """A listing on its way."""

    def __init__(self, view: View, most: int, levels: int) -> None:
        self.listing = Listing([])
        self._view, self._most, self._levels = view, most, levels
        self._times = Times(view)

    def enter(self, folder: bytes, level: int) -> bool:
        """Lists what lies in a directory; False once there is no more room."""
        folders, others = self._children(folder)
        for path, entry in folders:
            if not (self._add(path, entry) and self._descend(path, level)):
                return False
        return all(self._add(path, entry) for path, entry in others)

    def _descend(self, path: bytes, level: int) -> bool:
        if level < self._levels:
            return self.enter(path + b"/", level + 1)
        if self._levels > 1 and self._view.first_under(path + b"/") is not None:
            self.listing.truncated = True
        return True

    def _add(self, path: bytes, entry: Entry) -> bool:
        if len(self.listing.entries) == self._most:
            self.listing.truncated = True
            return False
        self.listing.entries.append(self._times.dated(path, info_of(path, entry)))
        return True

    def _children(self, folder: bytes) -> tuple[list[Child], list[Child]]:
        """Returns directories and the rest, each by name, of each one more than there is room."""
        most = self._most - len(self.listing.entries) + 1
        others: list[Child] = []

        def folders() -> Iterator[tuple[bytes, bytes, Entry]]:
            for key, path, entry in children_of(self._view, folder):
                if isinstance(entry, Directory):
                    yield key, path, entry
                elif len(others) < most:
                    # Names of files come in their order; only directories may stand elsewhere.
                    others.append((path, entry))

        return list(islice(by_path(folders()), most)), others


def find_short(files: FilesReader, path: str, *, most: int) -> tuple[FileInfo, bytes] | None:
    """Returns a file of so many bytes at the most; None for anything else, or for nothing.

    In little time, for who has none: to say what else is there may take a walk.
    """
    key = to_key(path)
    with files.opened() as view:
        entry = find_entry(view, key)
        if not isinstance(entry, Inline | Blob) or entry.size > most:
            return None
        return info_of(key, entry), content.read(view.objects, entry)


def read_short(files: FilesReader, path: str, *, most: int) -> tuple[FileInfo, bytes | None]:
    """Returns what is known about a file, and its content if that has so many bytes at the most."""
    key = to_key(path)
    with files.opened() as view:
        entry = get_file(view, key)
        info = info_of(key, entry)
        return info, content.read(view.objects, entry) if info.size_bytes <= most else None
