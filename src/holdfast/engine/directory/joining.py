"""Joins what was done in a directory with what was done to its namespace's files meanwhile.

Two hands work on one set of files: programs in the directory, which ask nobody, and callers of the
namespace. Each side is compared with what it was when both last agreed. What one side alone
changed is taken, whichever it was. Where both changed the same path, differently:

- what was written wins over what was removed: a removal loses nothing by being done again;
- of two that were written, the directory's wins. A program has it open, or a person looks at it,
  and neither can be asked; the namespace's version *gives way*, and is on the timeline.

What an interrupted writer of ours may have torn is no side's work: there the namespace's wins.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from holdfast.engine.files.fitting import NOTHING, find_clashes, is_directory, keep_emptied, settle
from holdfast.engine.timeline.diff import timeless
from holdfast.engine.timeline.merge import without_clashes
from holdfast.entries import decode_entry
from holdfast.ids import ObjectId
from holdfast.tree import NodeSource, diff, get_many

IsTorn = Callable[[bytes, bytes, bytes | None], bool]
"""Says whether a path in the directory, with this entry, may be what a crash of ours has left.

The last is the entry that the namespace's files have there.
"""


def nothing_torn(_key: bytes, _entry: bytes, _theirs: bytes | None, /) -> bool:
    """Says that all that is in a directory is somebody's."""
    return False


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """What each side was when both last agreed, and what it is now: files maps."""

    base: ObjectId
    """What the directory was."""
    own: ObjectId
    """What it is."""
    agreed: ObjectId
    """What the namespace's files were."""
    current: ObjectId
    """What they are."""


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """What makes the directory's map hold both sides, and what had to give way for that."""

    changes: Mapping[bytes, bytes | None]
    gave_way: Sequence[bytes]
    """Paths at which the directory's version stays, and the namespace had another."""
    torn: Sequence[bytes] = ()
    """Paths at which the namespace's version takes the place of what a crash may have left."""


def join(source: NodeSource, sides: Sides, *, is_torn: IsTorn = nothing_torn) -> Joined:
    """Returns what leads from the directory as it is to what holds both sides' changes."""
    theirs = {edit.key: edit for edit in diff(source, sides.agreed, sides.current)}
    ours = {edit.key: edit.new for edit in diff(source, sides.base, sides.own)}
    now = get_many(source, sides.own, sorted(theirs))
    wanted, gave_way, torn = dict[bytes, bytes | None](), list[bytes](), list[bytes]()
    for key, edit in theirs.items():
        mine = now.get(key)
        if mine == edit.new:
            continue
        if key not in ours or mine is None:
            wanted[key] = edit.new
        elif is_torn(key, mine, edit.new):
            wanted[key] = edit.new
            torn.append(key)
        elif {mine, edit.old, edit.new} <= {*NOTHING} or _is_alike(mine, edit.new):
            continue  # A directory that somebody fills or empties; the same at another time.
        else:
            gave_way.append(key)
    clashes = find_clashes(source, sides.own, wanted)
    fitting = without_clashes(wanted, clashes)
    gave_way += [key for key in wanted.keys() - fitting.keys() if wanted[key] is not None]
    kept = keep_emptied(
        source,
        sides.own,
        fitting,
        stays=lambda folder: is_directory(source, sides.current, folder),
    )
    changes = settle(source, sides.own, kept)
    return Joined(changes=changes, gave_way=sorted(gave_way), torn=torn)


def find_left(source: NodeSource, sides: Sides, shown: ObjectId) -> list[bytes]:
    """Returns what the namespace's files have, and what takes their place has not.

    Not what was simply removed or changed in the directory after both had agreed on it: what the
    directory never took in.
    """
    differing = {edit.key for edit in diff(source, sides.base, sides.current)}
    return [
        edit.key
        for edit in diff(source, shown, sides.current)
        if edit.key in differing
        and edit.new is not None
        and edit.new not in NOTHING
        and not (edit.old is not None and _is_alike(edit.old, edit.new))
    ]


def find_common(source: NodeSource, own: ObjectId, current: ObjectId) -> dict[bytes, bytes | None]:
    """Returns what leads from the namespace's files to what both have, as the directory has it.

    What only one of them has, or each another version of, is not in that.
    """
    changes = dict[bytes, bytes | None]()
    for edit in diff(source, current, own):
        if edit.old is not None:
            changes[edit.key] = edit.new if _is_alike(edit.old, edit.new) else None
    return changes


def _is_alike(one: bytes, other: bytes | None) -> bool:
    """Says whether two entries differ in no more than their time of modification."""
    return other is not None and timeless(decode_entry(one)) == timeless(decode_entry(other))
