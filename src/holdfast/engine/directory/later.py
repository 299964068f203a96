"""What somebody did to a directory after a restore of it was interrupted.

Whatever the restore was not about to change, it did not change: that is somebody's work. Of the
files that it was about to change, one that is neither as it was nor as it was to be is either
half-written or edited since; nobody can tell which.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.engine.core.paths import ancestors, to_text
from holdfast.engine.files.fitting import live_below
from holdfast.entries import Blob, Directory, Entry, Inline, decode_entry
from holdfast.errors import Damaged
from holdfast.ids import ObjectId
from holdfast.tree import NodeSource, diff, get_many
from holdfast.workspace.steps import has_same_content

NAMED: Final = 5
"""Paths that a sentence names."""


class Since(msgspec.Struct, frozen=True):
    """What was found that the restore does not explain."""

    apart: Sequence[bytes] = ()
    """Paths that it never touched, and that can stay as they are."""
    replaced: Sequence[bytes] = ()
    """Paths that have to make way for what was there before."""

    def told(self) -> str:
        """Returns sentences for people; empty if there is nothing to tell."""
        apart = f" What was changed since stays: {_named(self.apart)}." if self.apart else ""
        if not self.replaced:
            return apart
        return f"{apart} What had become of {_named(self.replaced)} is in that snapshot alone."


def find_since(source: NodeSource, *, before: ObjectId, goal: str, found: ObjectId) -> Since:
    """Returns what leads from a half-way state to what was found, as far as that is known.

    The restore was to lead from the map `before` towards `goal`. If that one cannot be read, all
    that is there counts as the restore's.
    """
    if not goal:
        return Since()
    try:
        steps = diff(source, before, ObjectId(bytes.fromhex(goal)))
        touched = {edit.key: edit.new for edit in steps}
    except Damaged:
        return Since()
    folders = {folder for key in touched for folder in ancestors(key)}
    apart, replaced = dict[bytes, None](), list[bytes]()
    for edit in diff(source, found, before):
        entry = None if edit.old is None else decode_entry(edit.old)
        if edit.key in touched:
            if entry is not None and not _is_alike(entry, touched[edit.key]):
                replaced.append(edit.key)
        elif edit.key in folders:
            if entry is not None and not isinstance(entry, Directory):
                replaced.append(edit.key)
        elif any(folder in apart for folder in ancestors(edit.key)):
            continue
        elif entry is not None and _is_in_the_way(source, before, edit.key, entry):
            replaced.append(edit.key)
        else:
            apart[edit.key] = None
    return Since(list(apart), replaced)


def _is_alike(entry: Entry, data: bytes | None) -> bool:
    """Says whether an entry is what was to be put, whatever its time and mode."""
    wanted = None if data is None else decode_entry(data)
    if isinstance(entry, Inline | Blob) and isinstance(wanted, Inline | Blob):
        return has_same_content(entry, wanted)
    return isinstance(entry, Directory) or type(entry) is type(wanted)


def _is_in_the_way(source: NodeSource, before: ObjectId, key: bytes, entry: Entry) -> bool:
    """Says whether something cannot be beside what was there before: a file and a folder."""
    above = get_many(source, before, list(ancestors(key)))
    if any(not isinstance(decode_entry(data), Directory) for data in above.values()):
        return True
    return not isinstance(entry, Directory) and any(live_below(source, before, key, {}))


def _named(keys: Sequence[bytes]) -> str:
    names = ", ".join(to_text(key) for key in keys[:NAMED])
    return names if len(keys) <= NAMED else f"{names} and {len(keys) - NAMED:,} more"
