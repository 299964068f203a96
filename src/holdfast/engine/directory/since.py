"""What somebody did to a directory after a restore of it was interrupted.

Whatever the restore was not about to change, it did not change: that is somebody's work. Of the
files that it was about to change, one that is neither as it was nor as it was to be is either
half-written or edited since; nobody can tell which.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Final

import msgspec

from holdfast.engine.core.paths import ancestors, to_text
from holdfast.engine.files.fitting import live_below
from holdfast.entries import Blob, Directory, Entry, Inline, decode_entry
from holdfast.errors import Damaged
from holdfast.ids import ObjectId, SnapshotId
from holdfast.tree import NodeSource, diff, get_many
from holdfast.workspace.steps import has_same_content

NAMED: Final = 5
"""Paths that a sentence names."""


class Since(msgspec.Struct, frozen=True):
    """What was found that the restore does not explain."""

    apart: Sequence[bytes] = ()
    """Paths that it never touched, and that can stay as they are."""
    replaced: Sequence[bytes] = ()
    """Paths that have to make way for what was there before, or was written since."""
    gave_way: Sequence[bytes] = ()
    """Paths that stay as they are, and of which the namespace has got another version meanwhile."""
    written: AbstractSet[bytes] = frozenset()
    """What was written through the namespace, where the restore was to change nothing."""

    def sentences(self, now: SnapshotId) -> str:
        """Returns sentences for people; empty if there is nothing to tell.

        `now` is the snapshot that has what gave way.
        """
        told = f" What was changed since stays: {_named(self.apart)}." if self.apart else ""
        if self.replaced:
            told += f" What had become of {_named(self.replaced)} is in that snapshot alone."
        if self.gave_way:
            told += f" What was written to the namespace's {_named(self.gave_way)} is in {now}."
        return told


def find_since(
    source: NodeSource, *, before: ObjectId, goal: str, found: ObjectId, now: ObjectId
) -> Since:
    """Returns what leads from a half-way state to what was found, as far as that is known.

    The restore was to lead from the map `before` towards `goal`. If that one cannot be read, all
    that is there counts as the restore's. `now` is what the namespace has, and what takes its
    place: what was written there since wins over what was only removed here.
    """
    written = {edit.key: edit.new for edit in diff(source, before, now)}
    touched = _find_touched(source, before, goal)
    if touched is None:
        return Since(written=written.keys())
    around = {folder for key in (*touched, *written) for folder in ancestors(key)}
    apart, replaced = dict[bytes, Entry | None](), list[bytes]()
    for edit in diff(source, found, before):
        key, entry = edit.key, None if edit.old is None else decode_entry(edit.old)
        if any(folder in apart for folder in ancestors(key)):
            continue
        if entry is None:
            if not (key in touched or key in written or key in around):
                apart[key] = None
        elif key in touched or key in around:
            if not _is_alike(entry, touched.get(key)):
                replaced.append(key)
        elif _is_in_the_way(source, now, key, entry):
            replaced.append(key)
        else:
            apart[key] = entry
    gave_way = [
        key
        for key, entry in apart.items()
        if entry is not None and written.get(key) and not _is_alike(entry, written[key])
    ]
    return Since([*apart], replaced, gave_way, written.keys() - touched.keys())


def _find_touched(
    source: NodeSource, before: ObjectId, goal: str
) -> Mapping[bytes, bytes | None] | None:
    """Returns what a restore was to change, and into what; None if that is not known any more."""
    if goal:
        with suppress(Damaged):
            steps = diff(source, before, ObjectId(bytes.fromhex(goal)))
            return {edit.key: edit.new for edit in steps}
    return None


def _is_alike(entry: Entry, data: bytes | None) -> bool:
    """Says whether an entry is what was to be put, whatever its time and mode."""
    wanted = None if data is None else decode_entry(data)
    if isinstance(entry, Inline | Blob) and isinstance(wanted, Inline | Blob):
        return has_same_content(entry, wanted)
    return isinstance(entry, Directory) or type(entry) is type(wanted)


def _is_in_the_way(source: NodeSource, now: ObjectId, key: bytes, entry: Entry) -> bool:
    """Says whether something cannot be beside what is to be there: a file and a folder."""
    above = get_many(source, now, list(ancestors(key)))
    if any(not isinstance(decode_entry(data), Directory) for data in above.values()):
        return True
    return not isinstance(entry, Directory) and any(live_below(source, now, key, {}))


def _named(keys: Sequence[bytes]) -> str:
    names = ", ".join(to_text(key) for key in keys[:NAMED])
    return names if len(keys) <= NAMED else f"{names} and {len(keys) - NAMED:,} more"
