"""Merges two trees that grew from one: takes what only they changed, reports what both did.

Promise: nobody's change is lost unseen. A key changed on one side only takes that side's
value; changed on both sides to the same value, it is agreed; anything else is a conflict,
and the caller decides.
"""

import msgspec

from holdfast.ids import ObjectId
from holdfast.tree.diff import diff
from holdfast.tree.node import NodeSource


class Conflict(msgspec.Struct, frozen=True):
    """A key that both sides changed, differently; None stands for a missing key."""

    key: bytes
    base: bytes | None
    ours: bytes | None
    theirs: bytes | None


class Merged(msgspec.Struct, frozen=True):
    """What to apply to `ours` to have both sides' changes, and what stands in the way.

    Both ascend by key. Conflicting keys are not among the changes.
    """

    changes: dict[bytes, bytes | None]
    conflicts: list[Conflict]


def merge(source: NodeSource, base: ObjectId, ours: ObjectId, theirs: ObjectId) -> Merged:
    """Returns what leads from `ours` to the merge of both, and the conflicts."""
    changes: dict[bytes, bytes | None] = {}
    conflicts: list[Conflict] = []
    if ours == theirs:
        return Merged(changes, conflicts)
    our_edits = {edit.key: edit for edit in diff(source, base, ours)}
    for edit in diff(source, base, theirs):
        our_edit = our_edits.get(edit.key)
        if our_edit is None:
            changes[edit.key] = edit.new
        elif our_edit.new != edit.new:
            conflicts.append(Conflict(edit.key, edit.old, our_edit.new, edit.new))
    return Merged(changes, conflicts)
