"""What leads from one moment to another, whole: enough to do it again somewhere else.

A text comes as a unified diff, anything else as its bytes before and after, as long as they fit
into a budget: a patch is made in memory, and whoever asks for one may have changed a disk image.
What went from one path to another unchanged is one rename, but for what came out of a `.git` or
went into one: nobody takes both of its halves. What became something of another kind
(a file, then a link) is a removal and an addition, as other programs have it.

Not here: how a patch is written (`cli/patches.py`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from holdfast.engine.core.linediff import Unify
from holdfast.engine.objects import content
from holdfast.engine.sessions.state import StateSource
from holdfast.engine.timeline.diff import text_diff
from holdfast.entries import Blob, Directory, Entry, Inline, Link
from holdfast.git.names import is_refused
from holdfast.model.basics import Plane
from holdfast.model.changes import Change, Patch

MAX_CONTENT_BYTES: Final = 16 << 20
"""Of one file, before and after together: more of it is not in a patch."""

MAX_PATCH_BYTES: Final = 64 << 20
"""Of all files that are no text."""


def make_patches(
    source: StateSource, changes: Iterable[Change], *, context_lines: int, unify: Unify
) -> list[Patch]:
    """Returns what does all of some changes again, in their order."""
    found = [part for change in changes for part in _parts(change)]
    renamed = _find_renamed(found)
    gone = {old.key for old in renamed.values()}
    patches, budget = list[Patch](), MAX_PATCH_BYTES
    for change in found:
        old = renamed.get(change.key) if change.plane is Plane.FILES else None
        if old is not None and change.change == "added":
            moved = replace(change, old=old.old)
            patches.append(Patch(change=moved, text="", renamed_from=old.name))
        elif change.plane is not Plane.FILES or change.key not in gone:
            text = text_diff(source, change, context_lines=context_lines, unify=unify)
            made = _with_content(source, change, text, most=min(budget, MAX_CONTENT_BYTES))
            budget -= len(made.before or b"") + len(made.after or b"")
            patches.append(made)
    return patches


def _parts(change: Change) -> Iterator[Change]:
    """Yields a change, or the two that it is if something of another kind came about."""
    old, new = change.old, change.new
    if old is None or new is None or change.plane is not Plane.FILES or _kind(old) == _kind(new):
        yield change
        return
    yield replace(change, change="removed", new=None, new_bytes=None)
    yield replace(change, change="added", old=None, old_bytes=None)


def _kind(entry: Entry) -> str:
    if isinstance(entry, Link):
        return "link"
    return "directory" if isinstance(entry, Directory) else "file"


def _find_renamed(changes: Sequence[Change]) -> dict[bytes, Change]:
    """Returns files that are at another path than before: by the new key, what was removed.

    Each of those that were removed is found once. One of the same name goes first.
    """
    files = [change for change in changes if change.plane is Plane.FILES]
    parts = Counter(change.key for change in files)
    gone: dict[object, dict[bytes, Change]] = {}
    come = list[Change]()
    for change in files:
        what = _content_of(change)
        # What became something of another kind is not to be found elsewhere.
        if what is None or parts[change.key] > 1:
            continue
        if change.new is None:
            gone.setdefault(what, {})[change.key] = change
        elif change.old is None:
            come.append(change)
    return dict(_pairs(come, gone))


def _pairs(
    come: list[Change], gone: dict[object, dict[bytes, Change]]
) -> Iterator[tuple[bytes, Change]]:
    by_name = {
        (what, _name(each.key)): each.key for what, many in gone.items() for each in many.values()
    }
    left = list[Change]()
    for change in come:
        what = _content_of(change)
        same = by_name.pop((what, _name(change.key)), None)
        if same is None:
            left.append(change)
        else:
            yield change.key, gone[what].pop(same)
    for change in left:
        if those := gone.get(_content_of(change)):
            yield change.key, those.pop(next(iter(those)))


def _name(key: bytes) -> bytes:
    return key.rpartition(b"/")[2]


def _content_of(change: Change) -> object:
    """Returns what tells a file's content from others; None for an empty one, or for no file."""
    entry, is_of_git = change.old or change.new, is_refused(change.key)
    if isinstance(entry, Inline):
        return (entry.data, is_of_git) if entry.data else None
    return (entry.size, entry.depth, entry.refs, is_of_git) if isinstance(entry, Blob) else None


def _with_content(source: StateSource, change: Change, text: str, *, most: int) -> Patch:
    """Returns a change with its content, if there is no diff of it and it is not too much."""
    sides = (change.old, change.new)
    files = [each for each in sides if isinstance(each, Inline | Blob)]
    is_all_there = change.plane is not Plane.FILES or text == "" or "\n+++ b/" in text
    if is_all_there or not files or sum(each.size for each in files) > most:
        return Patch(change=change, text=text)
    before, after = (
        content.read(source, each) if isinstance(each, Inline | Blob) else b"" for each in sides
    )
    return Patch(change=change, text=text, before=before, after=after)
