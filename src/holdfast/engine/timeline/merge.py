"""Brings what a fork changed into the namespace it came from, or the other way round.

Three-way: what both had in common when they last met, what each made of it since. Changes on
one side are taken, equal changes on both are one, different changes to the same key are a
conflict; of a session, to the same key of its state. With a conflict nothing is applied, unless
`prefer` says which side wins.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.growth import size_of
from holdfast.engine.core.limits import Limits, check_quota
from holdfast.engine.core.lineage import MERGED_ROOT, common_root
from holdfast.engine.files.fitting import find_clashes, is_directory, keep_emptied, settle
from holdfast.engine.objects.stage import Withdrawn
from holdfast.engine.pending.fold import Folded, fold, lacking_at
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions.merging import merge_session
from holdfast.engine.sessions.terms import keep_terms
from holdfast.engine.timeline.diff import collect_changes, iter_changes, timeless
from holdfast.engine.timeline.head import Move, advance, replacing
from holdfast.engine.timeline.restore import present
from holdfast.entries import decode_entry
from holdfast.errors import MergeConflict
from holdfast.ids import ObjectId
from holdfast.model.basics import Head, Kind, Plane, Size
from holdfast.model.changes import Changes, MergeResult
from holdfast.operations.snapshots import Note
from holdfast.operations.timeline import Prefer
from holdfast.packs import ObjectKind
from holdfast.tree import Conflict, NodeSource, apply, merge


class MergedRoot(msgspec.Struct, frozen=True, kw_only=True):
    """The root that a merge leads to, staged, and how much it holds."""

    root: ObjectId
    size: Size
    detail: Mapping[str, object] = msgspec.field(default_factory=dict[str, object])
    """What a snapshot of it says of how it came about."""

    def with_later_terms(
        self, transaction: Transaction, handle: Handle, folded: Folded
    ) -> "MergedRoot":
        """Returns the same without a term that who only adds would shorten."""
        goal = folded.source.get_root(self.root)
        kept, detail = keep_terms(
            transaction, handle, folded.stage, folded.source, shown=folded.root, goal=goal
        )
        if kept is goal:
            return self
        root = folded.stage.add(kept.encode(), ObjectKind.NODE)
        return msgspec.structs.replace(self, root=root, detail=detail)


def merge_from(handle: Handle, other: Handle, *, prefer: Prefer | None = None) -> MergeResult:
    """Merges another namespace into this one; one of the two must be a fork of the other."""

    def plan(transaction: Transaction, folded: Folded) -> Move[Changes]:
        theirs = fold(transaction, other, other.get_head(transaction), folded.stage)
        base = common_root(transaction, folded.head, theirs.head)
        merged = merge_roots(
            folded, base=base, theirs=theirs.root_id, prefer=prefer, limits=handle.context.limits
        ).with_later_terms(transaction, handle, folded)
        goal = folded.source.get_root(merged.root)
        found = iter_changes(folded.source, folded.root, goal)
        brought = present(handle, transaction, folded, found)
        changes = collect_changes(brought, limit=None, counts=True)
        grown = Size(0, merged.size.bytes - folded.size.bytes)
        check_quota(folded.head, grown)
        marks = replacing(
            handle,
            transaction,
            folded,
            kind=Kind.MERGE,
            root=merged.root,
            size=merged.size,
            reason=f"before merging {other.name}",
            note=Note(reason=f"merged {other.name}"),
            detail={
                "merged": other.name,
                "merged_id": theirs.head.namespace_id,
                MERGED_ROOT: theirs.root_id.hex(),
                **merged.detail,
            },
            lacking=lacking_at(folded)
            .joined(lacking_at(theirs))
            .beyond(folded.source, goal.plane(Plane.FILES)),
            changes=changes,
        )

        def check(writing: Transaction, _head: Head) -> None:
            # Until this commits they may not change: their rows keep the content alive that
            # was just merged.
            now = writing.lock_head(theirs.head.namespace_id)
            if now is None or _moment(now) != _moment(theirs.head):
                raise Withdrawn(f"{other.name!r} changed while it was merged")

        return Move(marks=marks, position=marks[-1].id, result=changes, exact=True, also=check)

    done, changes = advance(handle, plan)
    return MergeResult(snapshot=done[-1], changes=changes)


def merge_roots(
    folded: Folded, *, base: ObjectId, theirs: ObjectId, prefer: Prefer | None, limits: Limits
) -> MergedRoot:
    """Merges `theirs` into the folded head, plane by plane; raises `MergeConflict`."""
    source = folded.source
    base_root, their_root = source.get_root(base), source.get_root(theirs)
    roots: dict[str, bytes] = {}
    conflicts: list[tuple[str, bytes]] = []
    size = folded.size
    for plane in Plane:
        if not their_root.holds(plane):
            # It is older than the plane, and says nothing of it.
            continue
        ours = folded.root.plane(plane)
        merged = merge(source, base_root.plane(plane), ours, their_root.plane(plane))
        changes, differing = dict(merged.changes), [*filter(_differs, merged.conflicts)]
        if plane is Plane.SESSIONS:
            joined = _join_sessions(folded, differing, limits)
            changes |= joined
            differing = [conflict for conflict in differing if conflict.key not in joined]
        if prefer == "theirs":
            changes |= {conflict.key: conflict.theirs for conflict in differing}
        elif prefer is None:
            conflicts += [(plane.value, conflict.key) for conflict in differing]
        if plane is Plane.FILES:
            clashes = find_clashes(source, ours, changes)
            if prefer is None:
                conflicts += [(plane.value, key) for key in clashes]
            elif prefer == "ours":
                changes = without_clashes(changes, clashes)
            changes = _keeping_directories(source, ours, their_root.plane(plane), changes)
            changes = settle(source, ours, changes)
        applied = apply(source, ours, changes)
        folded.stage.add_nodes(applied.nodes)
        roots[plane.value] = applied.root
        size += size_of(applied.edits)
    if conflicts:
        raise MergeConflict(sorted(set(conflicts)))
    root = folded.root.replacing(**roots)
    return MergedRoot(root=folded.stage.add(root.encode(), ObjectKind.NODE), size=size)


def _join_sessions(
    folded: Folded, conflicts: Sequence[Conflict], limits: Limits
) -> dict[bytes, bytes]:
    """Returns the sessions that can hold what both sides did to them."""
    joined: dict[bytes, bytes] = {}
    for conflict in conflicts:
        entry = merge_session(folded.stage, folded.source, conflict, max_bytes=limits.state_bytes)
        if entry is not None:
            joined[conflict.key] = entry
    return joined


def _moment(head: Head) -> tuple[int, int, datetime | None]:
    return head.generation, head.sequence, head.deleted_at


def _differs(conflict: Conflict) -> bool:
    """Says whether the two sides differ in more than the time at which each wrote the same."""
    if conflict.ours is None or conflict.theirs is None:
        return True
    return timeless(decode_entry(conflict.ours)) != timeless(decode_entry(conflict.theirs))


def without_clashes(
    changes: dict[bytes, bytes | None], clashes: list[bytes]
) -> dict[bytes, bytes | None]:
    """Returns the changes that do not stand in the way of what is ours."""
    return {
        key: entry
        for key, entry in changes.items()
        if not any(
            key == clash or key.startswith(clash + b"/") or clash.startswith(key + b"/")
            for clash in clashes
        )
    }


def _keeping_directories(
    source: NodeSource, ours: ObjectId, theirs: ObjectId, changes: dict[bytes, bytes | None]
) -> dict[bytes, bytes | None]:
    """Returns the changes, so that a directory that both sides have stays one.

    Each side may have deleted a part of what was in it; neither has deleted the directory.
    """
    return keep_emptied(
        source, ours, changes, stays=lambda folder: is_directory(source, theirs, folder)
    )
