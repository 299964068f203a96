"""Brings an earlier moment back, and loses nothing doing so.

What was there becomes a snapshot first (if no snapshot holds it yet), then the head moves to
the chosen state: one transaction, constant time, all planes or none. The answer says what
changed, how to get back, and that what is now stored is what was asked for.
"""

import fnmatch
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from holdfast.catalog.transaction import Transaction
from holdfast.engine.advance import (
    Folded,
    Move,
    Note,
    advance,
    fold,
    lacking_at,
    nothing_more,
    replacing,
)
from holdfast.engine.attached import Attached
from holdfast.engine.content import content_refs
from holdfast.engine.coverage import Lacking, lacking_in
from holdfast.engine.diff import collect_changes, iter_changes, to_change
from holdfast.engine.growth import size_of
from holdfast.engine.handle import Handle, looking_at
from holdfast.engine.limits import check_limit
from holdfast.engine.objects import Objects
from holdfast.engine.paths import PathLike, to_bytes, to_folder, to_text
from holdfast.engine.sessions.reviving import revive
from holdfast.engine.settle import is_directory, keep_emptied, settle
from holdfast.engine.stage import Stage
from holdfast.entries import Blob
from holdfast.errors import Damaged, InvalidValue, ObjectMissing, PackDamaged
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model import EMPTY_MAP, Head, Kind, Plane, Root, Size, SnapshotInfo
from holdfast.model_changes import Change, Changes, Restored
from holdfast.packs import ObjectKind
from holdfast.tree import apply, count, diff

SHOWN: Final = 1000
"""Changes that an answer lists unless more are asked for: it stays constant in time."""


BATCH: Final = 1000
"""Objects that are looked for together."""

MAX_PATTERNS: Final = 1000
MAX_PATTERN_BYTES: Final = 1 << 16
"""Among the paths of one selection: every file is held against each; measured, a file takes up to
a tenth of a millisecond."""


Check = Callable[[Iterable[Change]], Iterator[Change]]


@dataclass(frozen=True, slots=True)
class _Aim:
    """Where a restore leads: the root, its size, what changes on the way."""

    root: ObjectId
    size: Size
    changes: Changes
    files: int | None = None


def restore(
    handle: Handle,
    target: SnapshotInfo,
    *,
    planes: Sequence[Plane] | None = None,
    paths: Sequence[PathLike] | None = None,
    dry_run: bool = False,
    limit: int | None = SHOWN,
    note: Note | None = None,
    expected: SnapshotId | None = None,
    keeps_redo: bool = False,
    also: Callable[[Transaction, Head, SnapshotId], None] = nothing_more,
) -> Restored:
    """Brings a snapshot back: all of it, some planes, or the files that match some paths.

    `keeps_redo` leaves the way forward open: nothing is changed by going back to what was.
    `also` is done in the same transaction, with the id of the snapshot that shows the result.
    """
    check_limit(limit)
    check_selection(planes, paths)
    chosen = tuple(Plane) if planes is None else tuple(planes)
    chosen = chosen if paths is None else (Plane.FILES,)
    selects = None if paths is None else path_filter(paths)
    lacking = lacking_in(target, selects) if Plane.FILES in chosen else Lacking()
    shown: list[_Aim] = []

    def plan(transaction: Transaction, folded: Folded) -> Move:
        goal = goal_of(handle, transaction, folded, target, planes=chosen)
        check = partial(present, handle, transaction, folded)
        shown[:] = [aim := _aim(folded, goal, chosen, selects, limit=limit, check=check)]
        marks = replacing(
            handle,
            transaction,
            folded,
            kind=Kind.RESTORE,
            root=aim.root,
            size=aim.size,
            reason=f"before restoring {target.id}",
            target=target.id,
            note=note,
            detail=_detail(planes, paths),
            lacking=lacking.joined(_staying(lacking_at(transaction, folded), chosen, selects)),
        )
        shows = marks[-1].id
        return Move(
            marks=marks,
            position=shows,
            redo=folded.head.redo if keeps_redo else (),
            needs=[target.id],
            exact=True,
            also=lambda transaction, head: also(transaction, head, shows),
        )

    if dry_run:
        with looking_at(handle, target), folded_head(handle) as (transaction, folded):
            plan(transaction, folded)
        return _answer(target, None, shown[0], None, lacking=lacking)
    with looking_at(handle, target):
        done = advance(handle, plan, expected=expected)
    safety_id = done[0].id if len(done) > 1 else None
    is_proven = prove(handle, done[-1])
    return _answer(target, done[-1], shown[0], safety_id, lacking=lacking, verified=is_proven)


@contextmanager
def folded_head(handle: Handle) -> Generator[tuple[Transaction, Folded]]:
    """Opens the head with what is pending folded in, to look at; nothing is stored."""
    context = handle.context
    stage = Stage(context, handle.tenant_id, only_shown=True)
    with stage, context.catalog.read() as transaction:
        head = handle.head_or_empty(transaction)
        folded = fold(transaction, handle, head, stage)
        yield transaction, folded if handle.attached is None else _shown(handle.attached, folded)


def _shown(attached: Attached, folded: Folded) -> Folded:
    """Returns the head with what is in the attached directory now."""
    root, more = attached.show(folded.stage, folded.source, folded.root)
    if root == folded.root:
        return folded
    root_id = folded.stage.add(root.encode(), ObjectKind.NODE)
    return replace(folded, root=root, root_id=root_id, size=folded.size + more, is_dirty=True)


def prove(handle: Handle, snapshot: SnapshotInfo) -> bool:
    """Reads back what was committed, past every cache, and says whether it is what was meant.

    The row on the timeline, the head, the root object and the top of each map: all of them are
    found by their names and hash to them.
    """
    context = handle.context
    with context.catalog.read() as transaction:
        row = transaction.find_snapshot(snapshot.namespace_id, snapshot.id)
        head = transaction.find_head_by_id(snapshot.namespace_id)
        if row is None or head is None or row.root != snapshot.root:
            return False
        if head.generation == snapshot.number and head.root != snapshot.root:
            return False
        objects = Objects(context.without_caches(), handle.tenant_id, transaction)
        try:
            root = objects.get_root(row.root)
            tops = [root.plane(plane) for plane in Plane if root.plane(plane) != EMPTY_MAP]
            objects.get_nodes(tops)
        except Damaged:
            return False
    return True


def path_filter(paths: Sequence[PathLike]) -> Callable[[bytes], bool]:
    """Returns a test for keys: equal to a path, below it, or matching it as a glob.

    Raises `InvalidValue` for more patterns than are held against every file in bounded time.
    """
    names = {to_folder(path) for path in paths}
    if b"" in names:
        return lambda _name: True
    # Also where it looks like a pattern: `[id].tsx` is a file that somebody may mean.
    patterns = sorted(name for name in names if any(char in name for char in b"*?["))
    if len(patterns) > MAX_PATTERNS or sum(map(len, patterns)) > MAX_PATTERN_BYTES:
        message = f"{len(patterns)} patterns are too many to hold every file against: "
        raise InvalidValue(f"{message}{MAX_PATTERNS} with {MAX_PATTERN_BYTES} bytes at the most")
    # `fnmatch` makes expressions whose time grows with the name alone: its stars never come back.
    regex = "|".join(fnmatch.translate(pattern.decode("latin-1")) for pattern in patterns)
    matches = re.compile(regex.encode("latin-1")).match if patterns else None

    def selects(key: bytes) -> bool:
        if matches is not None and matches(key):
            return True
        end = len(key)
        while end > 0:
            if key[:end] in names:
                return True
            end = key.rfind(b"/", 0, end)
        return False

    return selects


def check_selection(planes: Sequence[Plane] | None, paths: Sequence[PathLike] | None) -> None:
    """Raises `InvalidValue` for a selection of planes and paths that makes no sense."""
    if isinstance(paths, str):
        raise InvalidValue("paths is a list of paths, not one: each letter would be a path")
    if paths is not None and planes is not None and list(planes) != [Plane.FILES]:
        raise InvalidValue("paths select files: leave planes out, or name files alone")
    if (planes is not None and not planes) or (paths is not None and not paths):
        raise InvalidValue("nothing is selected: name at least one plane or path")


def goal_of(
    handle: Handle,
    transaction: Transaction,
    folded: Folded,
    target: SnapshotInfo,
    *,
    planes: Sequence[Plane] = tuple(Plane),
) -> SnapshotInfo:
    """Returns a snapshot as it comes back: with a root in which its sessions are alive."""
    if Plane.SESSIONS not in planes:
        return target
    goal = folded.source.get_root(target.root)
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
    if revived is goal:
        return target
    return replace(target, root=folded.stage.add(revived.encode(), ObjectKind.NODE))


def _aim(
    folded: Folded,
    target: SnapshotInfo,
    planes: Sequence[Plane],
    selects: Callable[[bytes], bool] | None,
    *,
    limit: int | None,
    check: Check,
) -> _Aim:
    """Returns the root to move to, its size, and what changes on the way."""
    goal = folded.source.get_root(target.root)
    if selects is not None:
        return _aim_at_paths(folded, goal, selects, limit, check)
    found = iter_changes(folded.source, folded.root, goal, planes=planes)
    changes = collect_changes(check(found), limit=limit, counts=True)
    files = count(folded.source, goal.plane(Plane.FILES)) if Plane.FILES in planes else None
    if set(planes) == set(Plane):
        return _Aim(target.root, target.size, changes, files)
    root = folded.root.replacing(**{plane.value: goal.plane(plane) for plane in planes})
    size = folded.size
    for plane in planes:
        size += size_of([*diff(folded.source, folded.root.plane(plane), goal.plane(plane))])
    return _Aim(folded.stage.add(root.encode(), ObjectKind.NODE), size, changes, files)


def _aim_at_paths(
    folded: Folded,
    goal: Root,
    selects: Callable[[bytes], bool],
    limit: int | None,
    check: Check,
) -> _Aim:
    old = folded.root.plane(Plane.FILES)
    edits = [e for e in diff(folded.source, old, goal.plane(Plane.FILES)) if selects(e.key)]

    def stays(folder: bytes) -> bool:
        return not selects(folder) or is_directory(folded.source, goal.plane(Plane.FILES), folder)

    wanted = {edit.key: edit.new for edit in edits}
    wanted = keep_emptied(folded.source, old, wanted, stays=stays)
    wanted = settle(folded.source, old, wanted)
    applied = apply(folded.source, old, wanted)
    folded.stage.add_nodes(applied.nodes)
    root = folded.root.replacing(files=applied.root)
    found = (to_change(Plane.FILES, edit) for edit in applied.edits)
    brought = check(each for each in found if each)
    changes = collect_changes(brought, limit=limit, counts=True)
    size = folded.size + size_of(applied.edits)
    return _Aim(folded.stage.add(root.encode(), ObjectKind.NODE), size, changes)


def present(
    handle: Handle, transaction: Transaction, folded: Folded, found: Iterable[Change]
) -> Iterator[Change]:
    """Yields changes; raises at the latest behind the last if what they bring back is not there.

    All of them have to be asked for before anything is changed.
    """
    wanted: list[ObjectId] = []
    for change in found:
        if isinstance(change.new, Blob):
            wanted += [object_id for object_id, _ in content_refs(folded.source, change.new)]
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
    for pack, end in ends.items():
        if handle.context.blobs.size(pack) < end:
            raise PackDamaged(pack, reason="it is shorter than what it should hold")


def _staying(
    lacking: Lacking, planes: Sequence[Plane], selects: Callable[[bytes], bool] | None
) -> Lacking:
    """Returns what the head lacks of the files that a restore leaves as they are."""
    if Plane.FILES not in planes:
        return lacking
    return Lacking() if selects is None else lacking.only(lambda key: not selects(key))


def _detail(planes: Sequence[Plane] | None, paths: Sequence[PathLike] | None) -> dict[str, object]:
    detail: dict[str, object] = {}
    if planes is not None:
        detail["planes"] = [plane.value for plane in planes]
    if paths is not None:
        detail["paths"] = [to_text(to_bytes(path)) for path in paths]
    return detail


def _answer(
    target: SnapshotInfo,
    snapshot: SnapshotInfo | None,
    aim: _Aim,
    safety_id: SnapshotId | None,
    *,
    lacking: Lacking,
    verified: bool = False,
) -> Restored:
    return Restored(
        target=target.id,
        snapshot=snapshot,
        safety_id=safety_id,
        root=aim.root if snapshot is None else snapshot.root,
        changes=aim.changes,
        files=aim.files,
        verified=verified,
        uncaptured=lacking.uncaptured,
        is_partial=lacking.is_partial,
        in_motion=lacking.in_motion,
        dry_run=snapshot is None,
    )
