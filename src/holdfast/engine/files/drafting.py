"""Changes to the files plane on their way to pending rows, kept free of contradictions.

A tree of files has rules that a map of keys does not: what lies in a directory needs every
name above it to be a directory, and a directory that loses its last file is still there.
A draft holds changes over a view and upholds two invariants:

1. No key that is a file or a link has keys below it.
2. A directory has an entry of its own exactly when it is empty or its mode is not the usual
   one. So equal trees are equal maps, however they came about.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator
from typing import Final

from holdfast.engine.core.paths import ancestors, parent_of
from holdfast.engine.files.reader import kind_of, tag_of
from holdfast.engine.planes.view import View
from holdfast.entries import Blob, Directory, Entry, Inline, Link, decode_entry, encode_entry
from holdfast.errors import NotADirectory, NotAFile, NotAsExpected, PathNotFound, shorten
from holdfast.model.files import USUAL_DIRECTORY_MODE
from holdfast.model.values import ABSENT

DEEP: Final = 256
"""Of so many directories above a path, most are not looked up: their names together would have
64 KB at the least, and 4 MB for the deepest path."""

_SLASH: Final = re.compile(rb"/")


class Draft:
    """Uncommitted changes to files, readable as if they had been made."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[bytes, bytes | None] = {}
        # The directories above what was looked up last: who knows them need not make them again.
        self._above: dict[bytes, list[bytes]] = {}
        # Every directory above a key that this draft put: a superset of those that have
        # children in `rows`, so that a path outside it needs no look through the rows.
        self._folders: set[bytes] = set()
        self._deep: list[bytes] = []
        """What this draft put so deep that the directories above it are not among those."""
        self.rows: dict[bytes, bytes | None] = {}

    def prefetch(self, keys: Collection[bytes]) -> None:
        """Looks many keys and the directories above them up at once; of one, what is below it."""
        if len(keys) == 1:
            self._view.ask_under(b"".join(keys) + b"/")
        self._above = {key: [] if _is_deep(key) else [*ancestors(key)] for key in keys}
        names = {name for key, above in self._above.items() for name in (*above, key)}
        wanted = sorted(names - self._known.keys())
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
        if not key or key in self._folders or any(put.startswith(prefix) for put in self._deep):
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
        if _is_deep(key):
            folders = self._decisive(key)
            self._deep.append(key)
        else:
            folders = self._above.get(key) or ancestors(key)
        for folder in folders:
            self._enter(folder, key)
            self._folders.add(folder)
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

    def delete(self, key: bytes, *, recursive: bool) -> list[bytes]:
        """Takes out what is at a path; returns what that was, or raises `PathNotFound`.

        A directory has to be empty, unless all that is in it goes, too.
        """
        entry = self.find(key)
        if entry is not None and not isinstance(entry, Directory):
            self.drop(key)
            return [key]
        has_children = self.has_children(key)
        if entry is None and not has_children:
            raise PathNotFound(key)
        if not recursive and has_children:
            raise NotAFile(key, found="directory with files in it (pass recursive=True)")
        return self.drop_tree(key) or [key]

    def check(self, key: bytes, expected: str) -> None:
        """Raises `NotAsExpected` unless a file with this tag is there, or `absent` is true."""
        check_standing(key, expected, self._standing(key))

    def _standing(self, key: bytes) -> str:
        entry = self.find(key)
        if isinstance(entry, Inline | Blob):
            return tag_of(entry)
        if entry is not None:
            return kind_of(entry)
        return kind_of(Directory(0)) if self.has_children(key) else ABSENT

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

    def _decisive(self, key: bytes) -> list[bytes]:
        """Returns those of the directories above a path that may be in its way, or change with it.

        What lies below one lies below all above it: the outermost with nothing below it is the only
        one that may be a file or an empty directory, but for what this draft has changed.
        """
        ends = [match.start() for match in _SLASH.finditer(key)]
        at = bisect_left(ends, 1, key=lambda end: not self._is_filled(key[: end + 1]))
        changed = [row for row in self.rows if key.startswith(row + b"/")]
        return [*(key[:end] for end in ends[at : at + 1]), *changed]

    def _is_filled(self, prefix: bytes) -> bool:
        return self._view.first_under(prefix) is not None


def check_standing(key: bytes, expected: str, actual: str) -> None:
    """Raises `NotAsExpected` if something else is at a path."""
    if actual != expected:
        raise NotAsExpected(shorten(key), expected=expected, actual=actual)


def _is_deep(key: bytes) -> bool:
    return key.count(b"/") >= DEEP
