"""Makes the files map that holds a directory, and with it what its namespace has since.

Mostly the namespace's files are what the directory was when it was last looked at, and the map is
that one with what changed in the directory. Where somebody wrote through the namespace meanwhile,
both are joined (`joining.py`).
"""

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.engine.capturing.captured import Captured
from holdfast.engine.capturing.lastlook import LastLook
from holdfast.engine.directory.joining import IsTorn, Sides, find_left, join, nothing_torn
from holdfast.engine.objects.stage import StagedObjects
from holdfast.errors import Damaged
from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP
from holdfast.tree import Edit, NodeSource, apply, build, diff


class Filled(msgspec.Struct, frozen=True):
    """A files map that holds a directory, and what was done to its namespace's files meanwhile."""

    root: ObjectId
    nodes: dict[ObjectId, bytes]
    edits: Sequence[Edit] | None
    """What it changes; None if what was there before cannot be read."""
    own: ObjectId
    """The map that holds the directory alone."""
    gave_way: Sequence[bytes] = ()
    """What the namespace's files have and it has not: the directory's took its place."""
    torn: Sequence[bytes] = ()
    """What of the directory it has not: a crash may have left it so."""
    base: ObjectId = EMPTY_MAP
    """What the directory was when both last agreed; the empty map if nobody knows any more."""
    is_blind: bool = False
    """Whether what the namespace has could not be read: then nobody knows what of it is not here,
    and all of it is kept before this takes its place."""


def fill(
    source: StagedObjects,
    captured: Captured,
    current: ObjectId,
    *,
    namespace: int = 0,
    stood_at: ObjectId | None = None,
    is_torn: IsTorn = nothing_torn,
) -> Filled:
    """Returns the map that holds a directory, given the one that its namespace has.

    Where everything was read it is made from nothing: then all of its nodes are in hand, whatever
    became of those that are stored. `stood_at` is what both were, for who knows better than the
    last look.
    """
    last = captured.last
    is_another = 0 not in (namespace, last.namespace) and namespace != last.namespace
    own, nodes, edits = _hold(source, captured, current)
    if stood_at == current:
        return Filled(own, nodes, edits, own)
    if stood_at is None and (last.agreed == current or is_another):
        left = _left(source.with_nodes(nodes), last, current, own)
        return Filled(own, nodes, edits, own, left or (), is_blind=left is None)
    within = source.with_nodes(nodes)
    try:
        sides = _sides_of(within, captured, own, current)
        if stood_at is not None:
            sides = Sides(base=stood_at, own=own, agreed=stood_at, current=current)
        joined = join(within, sides, is_torn=is_torn)
    except Damaged:
        if not captured.is_whole:
            raise
        return Filled(own, nodes, edits, own, is_blind=True)
    applied = apply(within, own, joined.changes)
    nodes = nodes | applied.nodes
    both = source.with_nodes(nodes)
    gave_way = {*joined.gave_way, *find_left(both, sides, applied.root)}
    edits = [*diff(both, current, applied.root)]
    return Filled(applied.root, nodes, edits, own, sorted(gave_way), joined.torn, sides.base)


def _hold(
    source: StagedObjects, captured: Captured, current: ObjectId
) -> tuple[ObjectId, dict[ObjectId, bytes], Sequence[Edit] | None]:
    """Returns the map that holds a directory alone, its new nodes, and what that changes."""
    if not captured.is_whole:
        applied = apply(source, captured.last.root, captured.changes)
        if captured.last.root == current:
            return applied.root, applied.nodes, applied.edits
        return (
            applied.root,
            applied.nodes,
            [*_between(source, applied.nodes, current, applied.root)],
        )
    there = {key: entry for key, entry in captured.changes.items() if entry is not None}
    built = build(sorted(there.items()))
    try:
        edits = [*_between(source, built.nodes, current, built.root)]
    except Damaged:
        edits = None
    return built.root, built.nodes, edits


def _between(
    source: StagedObjects, nodes: dict[ObjectId, bytes], old: ObjectId, new: ObjectId
) -> Iterator[Edit]:
    return diff(source.with_nodes(nodes), old, new)


def _sides_of(source: NodeSource, captured: Captured, own: ObjectId, current: ObjectId) -> Sides:
    """Returns what a directory and its namespace's files were and are.

    Where everything was read and nobody knows any more what they were, nothing was agreed on: then
    whatever is on one side only is kept.
    """
    last = captured.last
    sides = Sides(base=last.base, own=own, agreed=last.agreed, current=current)
    if not captured.is_whole:
        return sides
    try:
        for known in (sides.base, sides.agreed):
            for _ in diff(source, known, own):
                pass
    except Damaged:
        return Sides(base=EMPTY_MAP, own=own, agreed=EMPTY_MAP, current=current)
    return sides


def _left(
    source: NodeSource, last: LastLook, current: ObjectId, own: ObjectId
) -> Sequence[bytes] | None:
    """Returns what the namespace's files have, and the directory could not take in.

    None if they cannot be read.
    """
    if current in (last.base, own):
        return ()
    sides = Sides(base=last.base, own=own, agreed=current, current=current)
    try:
        return find_left(source, sides, own)
    except Damaged:
        return None
