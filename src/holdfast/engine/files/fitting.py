"""Makes changes to the files plane that come from another map fit into this one.

Each change is sound where it comes from, and may contradict what is there where it goes to: a
file on one side where the other has a directory. `find_clashes` names such paths for a merge
to report; `settle` lets the changes win over what is in their way; `keep_emptied` keeps
directories that nobody deleted, `keep_needed` those in which something stays. They leave
directories' own entries in the form that `editing.py` describes.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from holdfast.engine.core.paths import ancestors, parent_of
from holdfast.entries import Directory, decode_entry, encode_entry
from holdfast.errors import NotADirectory
from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP
from holdfast.model.files import USUAL_DIRECTORY_MODE
from holdfast.operations.files import weigh
from holdfast.tree import NodeSource, get_many, iterate, prefix_stop

Wanted = Mapping[bytes, bytes | None]

NOTHING: Final = (None, encode_entry(Directory(USUAL_DIRECTORY_MODE)))
"""Entries that say no more of a path than that there may be an empty directory."""

MOST_WEIGHT: Final = 64 << 20
"""Of the names of directories that are looked at together."""


def find_clashes(source: NodeSource, root: ObjectId, changes: Wanted) -> list[bytes]:
    """Returns what is in the way of these changes: files above them, entries below them."""
    puts = [key for key, entry in changes.items() if entry is not None]
    clashes = set[bytes]()
    for folders in _folders_above(puts):
        result = _overlaid(source, root, folders, changes)
        clashes.update(folder for folder, entry in result.items() if not _is_directory(entry))
    for key in puts:
        if not _is_directory(changes[key]):
            clashes.update(live_below(source, root, key, changes))
    return sorted(clashes)


def check_tree(source: NodeSource, root: ObjectId, edits: Wanted) -> None:
    """Raises if these edits of a map would leave something below a file or a link."""
    puts = sorted(
        (key.replace(b"/", b"\0"), key, entry) for key, entry in edits.items() if entry is not None
    )
    # With the lowest byte of all for a slash, what lies below a name comes right behind it.
    for (name, key, entry), (after, below, _) in pairwise(puts):
        if after.startswith(name + b"\0") and not isinstance(decode_entry(entry), Directory):
            raise NotADirectory(below, blocked_by=key)
    if root == EMPTY_MAP:
        return
    for clash in find_clashes(source, root, edits):
        raise NotADirectory(clash, blocked_by=clash)


def settle(source: NodeSource, root: ObjectId, changes: Wanted) -> dict[bytes, bytes | None]:
    """Returns the changes, with what is in their way taken out."""
    settled = {**changes, **dict.fromkeys(find_clashes(source, root, changes))}
    usual = encode_entry(Directory(USUAL_DIRECTORY_MODE))
    puts = sorted(key for key, entry in settled.items() if entry is not None)
    for folders in _folders_above(puts):
        for folder, entry in _overlaid(source, root, folders, settled).items():
            if entry == usual:
                settled[folder] = None
    return {
        key: None
        if entry == usual and (_has_below(puts, key) or has_live_below(source, root, key, settled))
        else entry
        for key, entry in settled.items()
    }


def keep_emptied(
    source: NodeSource, root: ObjectId, changes: Wanted, *, stays: Callable[[bytes], bool]
) -> dict[bytes, bytes | None]:
    """Returns the changes, and an entry for each directory that they empty and that stays.

    Where a directory goes with what was in it, the same is asked of the one above.
    """
    kept, emptied = dict(changes), set[bytes]()
    gone = [key for key, entry in changes.items() if entry is None]
    own = get_many(source, root, gone)
    # A directory that loses its own entry may be empty without it.
    for start in {key if _is_directory(own.get(key)) else parent_of(key) for key in gone}:
        folder = start
        while folder and not stays(folder):
            folder = parent_of(folder)
        emptied.add(folder)
    for folder in emptied - {b""} - _overlaid(source, root, emptied, changes).keys():
        if not has_live_below(source, root, folder, changes):
            kept[folder] = encode_entry(Directory(USUAL_DIRECTORY_MODE))
    return kept


def keep_needed(
    source: NodeSource, root: ObjectId, changes: Wanted, *, goal: ObjectId
) -> dict[bytes, bytes | None]:
    """Returns the changes, less those that delete a directory in which something stays.

    Where the goal has the directory, too, it loses only what is special about it, and may.
    """
    own = get_many(source, root, [key for key, entry in changes.items() if entry is None])
    needed = {
        key
        for key, entry in own.items()
        if _is_directory(entry)
        and has_live_below(source, root, key, changes)
        and not is_directory(source, goal, key)
    }
    return {key: entry for key, entry in changes.items() if key not in needed}


def is_directory(source: NodeSource, root: ObjectId, key: bytes) -> bool:
    """Says whether a path is a directory, with or without an entry of its own."""
    if has_live_below(source, root, key, {}):
        return True
    return _is_directory(get_many(source, root, [key]).get(key))


def live_below(source: NodeSource, root: ObjectId, key: bytes, changes: Wanted) -> Iterator[bytes]:
    """Yields the stored keys below a path that these changes leave there."""
    prefix = key + b"/"
    for name, _ in iterate(source, root, start=prefix, stop=prefix_stop(prefix)):
        if changes.get(name, b"") is not None:
            yield name


def has_live_below(source: NodeSource, root: ObjectId, key: bytes, changes: Wanted) -> bool:
    """Says whether these changes leave something stored below a path."""
    return next(live_below(source, root, key, changes), None) is not None


def _folders_above(puts: Sequence[bytes]) -> Iterator[set[bytes]]:
    """Yields the directories above these paths, some at a time: all names may be gigabytes."""
    folders, weight = set[bytes](), 0
    for key in puts:
        folders.update(ancestors(key))
        weight += weigh(key)
        if weight >= MOST_WEIGHT:
            yield folders
            folders, weight = set[bytes](), 0
    yield folders


def _has_below(puts: Sequence[bytes], folder: bytes) -> bool:
    """Says whether one of these paths, which are in order, lies below a directory."""
    prefix = folder + b"/"
    at = bisect_left(puts, prefix)
    return at < len(puts) and puts[at].startswith(prefix)


def _overlaid(
    source: NodeSource, root: ObjectId, keys: set[bytes], changes: Wanted
) -> dict[bytes, bytes]:
    """Returns the entries that these keys would have after the changes."""
    stored = get_many(source, root, sorted(keys - changes.keys()))
    changed = {key: entry for key in keys if (entry := changes.get(key)) is not None}
    return stored | changed


def _is_directory(entry: bytes | None) -> bool:
    return entry is not None and isinstance(decode_entry(entry), Directory)
