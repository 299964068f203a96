"""Brings an earlier moment back, and loses nothing doing so.

What was there becomes a snapshot first (if no snapshot holds it yet), then the head moves to
the chosen state: one transaction, constant time, all planes or none. The answer says what
changed, how to get back, and that what is now stored is what was asked for.
"""

from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.coverage import LACKS_NOTHING, Lacking, lacking_in
from holdfast.engine.core.growth import size_of
from holdfast.engine.core.limits import check_limit
from holdfast.engine.core.paths import legible, to_text
from holdfast.engine.files.fitting import (
    Wanted,
    find_clashes,
    is_directory,
    keep_emptied,
    keep_needed,
    settle,
)
from holdfast.engine.objects.content import content_refs
from holdfast.engine.objects.reader import Objects
from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.engine.objects.trust import check_long_enough, look_ahead
from holdfast.engine.pending.fold import Folded, fold, lacking_at
from holdfast.engine.planes.attached import Shows
from holdfast.engine.planes.handle import Handle, as_it_is, looking_at
from holdfast.engine.sessions.reviving import revive
from holdfast.engine.sessions.terms import keep_terms
from holdfast.engine.timeline.diff import collect_changes, entry_name, iter_changes, to_changes
from holdfast.engine.timeline.expecting import ANYTHING, Expected
from holdfast.engine.timeline.head import Move, Plan, advance, replacing
from holdfast.engine.timeline.selection import EVERYTHING, Selection, Selects, is_pattern
from holdfast.entries import blobs_of
from holdfast.errors import Damaged, InTheWay, NameNotFound, ObjectMissing
from holdfast.fetching import anew
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import EMPTY_MAP, UNSTORED_ROOTS, Kind, Plane, Root, Size, SnapshotInfo
from holdfast.model.changes import Change, Changes, Restored
from holdfast.operations.choices import SHOWN
from holdfast.operations.snapshots import Note
from holdfast.packs import ObjectKind
from holdfast.tree import Edit, apply, count, diff, get_many, iterate

_FROM_ROOT: Final = "Paths and patterns begin at the root, wherever you are."

BATCH: Final = 1000
"""Objects that are looked for together."""

_NEVER_STORED: Final = {*UNSTORED_ROOTS, EMPTY_MAP}

Check = Callable[[Iterable[Change]], Iterator[Change]]


class _Aim(msgspec.Struct, frozen=True):
    """Where a restore leads: the root, its size, what changes on the way."""

    root: ObjectId
    size: Size
    changes: Changes
    target: SnapshotId
    old_root: ObjectId
    files: int | None = None
    lacking: Lacking = LACKS_NOTHING
    left_alone: Sequence[Plane] = ()


def restore(
    handle: Handle,
    target: SnapshotInfo | SnapshotId,
    *,
    selection: Selection = EVERYTHING,
    dry_run: bool = False,
    limit: int | None = SHOWN,
    note: Note | None = None,
    expected: Expected = ANYTHING,
    keeps_redo: bool = False,
) -> Restored:
    """Brings a snapshot back: all of it, or what is selected.

    By its id, it is looked up beside the head. `keeps_redo` leaves the way forward open: nothing is
    changed by going back to what was.
    """
    check_limit(limit)
    selects = selection.on(Plane.FILES)

    def plan(transaction: Transaction, folded: Folded) -> Move[_Aim]:
        transaction.ahead(Transaction.is_heard)
        if isinstance(target, str):
            now = handle.get_snapshot(transaction, folded.head, target)
        else:
            now = as_it_is(transaction, target)
        lacking = lacking_in(now, selects)
        goal = goal_of(handle, transaction, folded, now, parts=selection.parts)
        check = partial(present, handle, transaction, folded)
        aim = _aim(folded, goal.snapshot, selection, limit=limit, check=check)
        left = left_alone(folded, now, selection.parts)
        marks = replacing(
            handle,
            transaction,
            folded,
            kind=Kind.RESTORE,
            root=aim.root,
            size=aim.size,
            reason=f"before restoring {now.id}",
            target=now.id,
            note=note,
            detail={**selection.detail, **goal.detail},
            lacking=lacking.joined(lacking_at(folded).only(lambda k: not selects(k))),
            changes=aim.changes,
        )
        return Move(
            marks=marks,
            position=marks[-1].id,
            redo=folded.head.redo if keeps_redo else (),
            result=replace(aim, lacking=lacking, left_alone=left),
            needs=[now.id],
            exact=True,
        )

    with looking_at(handle, target):
        if dry_run:
            look_ahead(handle.context, handle.tenant_id)
            return _answer(None, anew(partial(_looked, handle, plan)), None)
        done, aim = advance(handle, plan, expected=expected)
    safety_id = done[0].id if len(done) > 1 else None
    is_proven = prove(handle, done[-1])
    return _answer(done[-1], aim, safety_id, verified=is_proven)


def _looked(handle: Handle, plan: Plan[_Aim]) -> _Aim:
    """Returns where a plan would lead."""
    with folded_head(handle) as (transaction, folded):
        return plan(transaction, folded).result


@contextmanager
def folded_head(handle: Handle) -> Generator[tuple[Transaction, Folded]]:
    """Opens the head with what is pending folded in, to look at; nothing is stored."""
    context = handle.context
    stage = Stage(context, handle.tenant_id, only_shown=True)
    with stage, context.catalog.read() as transaction:
        head = handle.head_or_empty(transaction)
        folded = fold(transaction, handle, head, stage)
        yield transaction, folded if handle.shows is None else _shown(handle.shows, folded)


@contextmanager
def folded_apart(handle: Handle) -> Generator[Folded]:
    """Opens the same, to be looked at for long: no transaction is open meanwhile."""
    context = handle.context
    with Stage(context, handle.tenant_id, only_shown=True) as stage:

        def look() -> Folded:
            with context.catalog.read() as transaction:
                folded = fold(transaction, handle, handle.get_head(transaction), stage)
                at = folded.at()
                folded = replace(folded, at=lambda: at)
                return folded if handle.shows is None else _shown(handle.shows, folded)

        folded = anew(look, again=stage.begin_again)
        yield replace(folded, source=folded.source.unbound())


def _shown(shows: Shows, folded: Folded) -> Folded:
    """Returns the head with what is in the attached directory now."""
    root, more = shows(folded.stage, folded.source, folded.root)
    if root == folded.root:
        return folded
    root_id = folded.stage.add(root.encode(), ObjectKind.NODE)
    return replace(folded, root=root, root_id=root_id, size=folded.size + more, is_changed=True)


def prove(handle: Handle, snapshot: SnapshotInfo) -> bool:
    """Reads back what was committed, past every cache, and says whether it is what was meant.

    The row on the timeline, the head, the root object and the top of each map: all of them are
    found by their names and hash to them.
    """
    is_remote = handle.context.blobs.is_remote
    if is_remote and not _is_stored(handle.objects, snapshot.root):
        return False
    with handle.context.catalog.read() as transaction:
        transaction.ahead(Transaction.find_snapshot, snapshot.namespace_id, snapshot.id)
        transaction.ahead(Transaction.find_head_by_id, snapshot.namespace_id)
        if not is_remote and not _is_stored(handle.objects_in(transaction), snapshot.root):
            return False
        row = transaction.find_snapshot(snapshot.namespace_id, snapshot.id)
        head = transaction.find_head_by_id(snapshot.namespace_id)
    if row is None or head is None or row.root != snapshot.root:
        return False
    return head.generation != snapshot.number or head.root == snapshot.root


def _is_stored(objects: Objects, root_id: ObjectId) -> bool:
    """Says whether a root object and the top of each map can be read from where they are."""
    try:
        root = objects.get_root(root_id)
        named = (root_id, *map(root.plane, Plane))
        objects.check_stored([each for each in named if each not in _NEVER_STORED])
    except Damaged:
        return False
    return True


class Goal(NamedTuple):
    """A snapshot as it comes back, and what the one that it becomes says of that."""

    snapshot: SnapshotInfo
    detail: Mapping[str, object]


def goal_of(
    handle: Handle,
    transaction: Transaction,
    folded: Folded,
    target: SnapshotInfo,
    *,
    parts: Mapping[Plane, Selects | None] = EVERYTHING.parts,
) -> Goal:
    """Returns a snapshot as it comes back: with a root in which its sessions are alive.

    Of a plane that is younger than the snapshot it has what there is now.
    """
    root = folded.source.get_root(target.root)
    goal, size = completed(folded, root, target.size)
    if goal is not root:
        target = replace(target, root=folded.stage.add(goal.encode(), ObjectKind.NODE), size=size)
    if Plane.SESSIONS not in parts:
        return Goal(target, {})
    revived = revive(
        transaction,
        handle,
        folded.stage,
        folded.source,
        head=folded.head,
        shown=folded.root,
        goal=goal,
        then=target.created_at,
    )
    lasting, detail = keep_terms(
        transaction,
        handle,
        folded.stage,
        folded.source,
        shown=folded.root,
        goal=revived,
        selects=parts[Plane.SESSIONS],
    )
    if lasting is not goal:
        target = replace(target, root=folded.stage.add(lasting.encode(), ObjectKind.NODE))
    return Goal(target, detail)


def left_alone(
    folded: Folded, target: SnapshotInfo, planes: Collection[Plane] = tuple(Plane)
) -> list[Plane]:
    """Returns which planes are younger than a snapshot, so that it says nothing of them."""
    root = folded.source.get_root(target.root)
    return [plane for plane in planes if not root.holds(plane)]


def completed(folded: Folded, root: Root, size: Size) -> tuple[Root, Size]:
    """Returns a root with what there is now of a plane that is younger than it, and its size."""
    if root.holds(Plane.MEMORIES):
        return root, size
    now = folded.root.plane(Plane.MEMORIES)
    held = size_of(Edit(key, None, data) for key, data in iterate(folded.source, now))
    return root.replacing(memories=now), size + held


def _aim(
    folded: Folded,
    target: SnapshotInfo,
    selection: Selection,
    *,
    limit: int | None,
    check: Check,
) -> _Aim:
    """Returns the root to move to, its size, and what changes on the way."""
    source, goal = folded.source, folded.source.get_root(target.root)
    _check_found(folded, goal, selection)
    has_all_files = selection.parts.get(Plane.FILES, ...) is None
    files = count(source, goal.plane(Plane.FILES)) if has_all_files else None
    if selection.is_everything:
        found = iter_changes(source, folded.root, goal)
        changes = collect_changes(check(found), limit=limit, counts=True)
        return _Aim(target.root, target.size, changes, target.id, folded.root_id, files)
    root, size, found = folded.root, folded.size, list[Iterator[Change]]()
    for plane in selection.parts:
        moved, edits = _moved(folded, goal, plane, selection)
        found.append(to_changes(source, plane, edits, (root.plane(plane), moved)))
        root, size = root.replacing(**{plane.value: moved}), size + size_of(edits)
    changes = collect_changes(check(chain(*found)), limit=limit, counts=True)
    root_id = folded.stage.add(root.encode(), ObjectKind.NODE)
    return _Aim(root_id, size, changes, target.id, folded.root_id, files)


def _moved(
    folded: Folded, goal: Root, plane: Plane, selection: Selection
) -> tuple[ObjectId, Sequence[Edit]]:
    """Returns a plane's map with what is selected of it brought back, and what that changes."""
    source, old, new = folded.source, folded.root.plane(plane), goal.plane(plane)
    edits = diff(source, old, new)
    selects = selection.parts[plane]
    if selects is None:
        return new, [*edits]
    wanted = {edit.key: edit.new for edit in edits if selects(edit.key)}
    if plane is Plane.FILES:
        wanted = _fitting(source, old, new, wanted, selection)
    applied = apply(source, old, wanted)
    folded.stage.add_nodes(applied.nodes)
    return applied.root, applied.edits


def _fitting(
    source: StagedObjects, old: ObjectId, new: ObjectId, wanted: Wanted, selection: Selection
) -> Wanted:
    """Returns changes of some files as they fit with those that stay."""
    selects = selection.on(Plane.FILES)
    if selection.is_literal:
        in_the_way = [key for key in find_clashes(source, old, wanted) if not selects(key)]
        if in_the_way:
            raise InTheWay([legible(to_text(key)) for key in in_the_way])

    def stays(folder: bytes) -> bool:
        return not selects(folder) or is_directory(source, new, folder)

    wanted = keep_needed(source, old, wanted, goal=new)
    return settle(source, old, keep_emptied(source, old, wanted, stays=stays))


def _check_found(folded: Folded, goal: Root, selection: Selection) -> None:
    """Raises `NameNotFound` for names and paths that mean nothing, neither now nor then."""
    _check_sought(folded, goal, selection)
    missing: list[str] = []
    for plane, keys in selection.named.items():
        maps = (folded.root.plane(plane), goal.plane(plane))
        left = sorted(keys)
        for root in maps:
            found = get_many(folded.source, root, left)
            left = [key for key in left if key not in found]
        if plane is Plane.FILES:
            left = [k for k in left if not any(is_directory(folded.source, m, k) for m in maps)]
        missing += [legible(entry_name(plane, key)) for key in left]
    if missing:
        raise NameNotFound(missing)


def _check_sought(folded: Folded, goal: Root, selection: Selection) -> None:
    if selection.is_literal:
        return  # Paths are not all that was asked for.
    source, sought, selects = folded.source, selection.sought, selection.on(Plane.FILES)
    maps = (folded.root.plane(Plane.FILES), goal.plane(Plane.FILES))
    if not sought or b"" in sought or any(get_many(source, files, sought) for files in maps):
        return
    if any(is_directory(source, files, key) for files in maps for key in sought):
        return
    every = (key for files in maps for key, _ in iterate(source, files))
    if not (any(map(is_pattern, sought)) and any(map(selects, every))):
        raise NameNotFound([legible(to_text(key)) for key in sorted(sought)]).with_hint(_FROM_ROOT)


def present(
    handle: Handle, transaction: Transaction, folded: Folded, found: Iterable[Change]
) -> Iterator[Change]:
    """Yields changes; raises at the latest behind the last if what they bring back is not there.

    All of them have to be asked for before anything is changed.
    """
    wanted: list[ObjectId] = []
    for change in found:
        for blob in blobs_of(change.new):
            refs = content_refs(folded.source, blob)
            wanted += [object_id for object_id, _ in refs if not folded.stage.holds(object_id)]
        if len(wanted) >= BATCH:
            _check_present(handle, transaction, wanted)
            wanted.clear()
        yield change
    _check_present(handle, transaction, wanted)


def _check_present(handle: Handle, transaction: Transaction, wanted: Sequence[ObjectId]) -> None:
    located = transaction.locate(handle.tenant_id, list(dict.fromkeys(wanted)))
    ends: dict[str, int] = {}
    for object_id in wanted:
        if object_id not in located:
            raise ObjectMissing(object_id)
        found = located[object_id]
        if found.block is None:
            end = found.placement.block_offset + found.placement.block_size
            ends[found.pack] = max(end, ends.get(found.pack, 0))
    check_long_enough(handle.context, handle.tenant_id, ends)


def _answer(
    snapshot: SnapshotInfo | None,
    aim: _Aim,
    safety_id: SnapshotId | None,
    *,
    verified: bool = False,
) -> Restored:
    lacking = aim.lacking
    return Restored(
        target=aim.target,
        snapshot=snapshot,
        safety_id=safety_id,
        root=aim.root if snapshot is None else snapshot.root,
        old_root=aim.old_root,
        changes=aim.changes,
        files=aim.files,
        verified=verified,
        uncaptured=lacking.uncaptured,
        is_partial=lacking.is_partial,
        in_motion=lacking.in_motion,
        dry_run=snapshot is None,
        left_alone=aim.left_alone,
    )
