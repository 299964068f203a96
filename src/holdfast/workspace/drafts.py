"""Folders of a directory as they are now, until their files are read.

A scan makes them (`scan.py`), and what is captured of them becomes rows of the index.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast.workspace.statindex import (
    UNSURE,
    Folder,
    Row,
    StatIndex,
    settled,
    unsure,
)

Identity = tuple[int, int]
"""Device and inode: what stays when a name changes."""


class Omitted(NamedTuple):
    """Something in a folder that is not captured; an empty name means the folder's content."""

    name: bytes
    kind: str
    """`skipped`, `excluded` or `failed`."""
    reason: str


class Draft:
    """A folder as it is now, until its files are read."""

    __slots__ = ("folders", "omitted", "path", "rows", "state", "unsure", "wanted")

    def __init__(self, path: bytes, state: os.stat_result, *, listed_at_ns: int | None) -> None:
        self.path = path
        # Without a moment of listing it is never sure: looked at again each time.
        ctime_ns = (
            UNSURE if listed_at_ns is None else settled(state.st_ctime_ns, read_at_ns=listed_at_ns)
        )
        self.state = (state.st_mode, state.st_mtime_ns, ctime_ns, state.st_ino, state.st_dev)
        self.rows: dict[bytes, Row] = {}
        self.folders: set[bytes] = set()
        self.wanted: set[bytes] = set()
        self.unsure: set[bytes] = set()
        """Of what is wanted, what looks as it did when it was last read, and was unsure then."""
        self.omitted: list[Omitted] = []

    @classmethod
    def of(cls, folder: Folder) -> "Draft":
        """Returns a folder that is known, to change some of its rows."""
        draft = cls.__new__(cls)
        draft.path = folder.path
        draft.state = (folder.mode, folder.mtime_ns, folder.ctime_ns, folder.ino, folder.dev)
        draft.rows = {row.name: row for row in folder.rows}
        draft.folders, draft.omitted = set(folder.folders), []
        draft.wanted, draft.unsure = set(), set()
        return draft

    def doubt(self) -> None:
        """Makes the next scan list this folder again."""
        mode, mtime_ns, _, ino, dev = self.state
        self.state = (mode, mtime_ns, UNSURE, ino, dev)

    def want(self, row: Row, before: Row | None) -> None:
        """Asks for something to be read; `before` is what was known of it."""
        self.wanted.add(row.name)
        if before == row._replace(ctime_ns=unsure(row.ctime_ns)):
            self.unsure.add(row.name)

    def want_surely(self, row: Row) -> None:
        """Asks for something to be read, however it looks."""
        self.wanted.add(row.name)
        self.unsure.discard(row.name)

    def key(self, name: bytes) -> bytes:
        """Returns the path of something in this folder."""
        return self.path + b"/" + name if self.path else name

    @property
    def mode(self) -> int:
        """The folder's own mode."""
        return self.state[0]

    @property
    def identity(self) -> Identity:
        """The folder itself, whatever its name is."""
        return self.state[4], self.state[3]

    def finish(self) -> Folder:
        """Returns the folder as the index shall know it."""
        rows = tuple(self.rows[name] for name in sorted(self.rows))
        return Folder(self.path, *self.state, rows, tuple(sorted(self.folders)))


def row_of(name: bytes, state: os.stat_result) -> Row:
    """Returns what is to be known of something that is no folder."""
    return Row(
        name,
        state.st_mode,
        state.st_nlink,
        state.st_size,
        state.st_mtime_ns,
        state.st_ctime_ns,
        state.st_ino,
        state.st_dev,
    )


def is_content(mode: int) -> bool:
    """Says whether something is captured: a file or a link."""
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def find_lost(
    index: StatIndex, drafts: Mapping[bytes, Draft], gone: Iterable[bytes]
) -> dict[Identity, bytes]:
    """Returns what was known, is not there, and is nowhere else in what was looked at."""
    lost: dict[Identity, bytes] = {}
    for path in gone:
        for folder in index.iter_folders(path):
            lost[folder.dev, folder.ino] = folder.path
            lost |= {(row.dev, row.ino): folder.path + b"/" + row.name for row in folder.rows}
    for path, draft in drafts.items():
        known = index.find(path)
        for row in known.rows if known else ():
            if row.name not in draft.rows:
                lost[row.dev, row.ino] = draft.key(row.name)
    for draft in drafts.values():
        lost.pop(draft.identity, None)
        for row in draft.rows.values():
            lost.pop((row.dev, row.ino), None)
    return lost


def find_split(
    index: StatIndex, drafts: Mapping[bytes, Draft], gone: Iterable[bytes]
) -> set[Identity]:
    """Returns the files with several names of which one is new, has changed, or is no more."""
    split: set[Identity] = set()
    for path in gone:
        for folder in index.iter_folders(path):
            split |= {(row.dev, row.ino) for row in folder.rows if has_names(row)}
    for path, draft in drafts.items():
        rows = (draft.rows[name] for name in draft.wanted - draft.unsure)
        split |= {(row.dev, row.ino) for row in rows if has_names(row)}
        known = index.find(path)
        for row in known.rows if known else ():
            if has_names(row) and not _is_same(row, draft.rows.get(row.name)):
                split.add((row.dev, row.ino))
    return split


def has_names(row: Row) -> bool:
    """Says whether it is a file that has several names."""
    return row.nlink > 1 and stat.S_ISREG(row.mode)


def _is_same(row: Row, other: Row | None) -> bool:
    return other is not None and (row.dev, row.ino) == (other.dev, other.ino)
