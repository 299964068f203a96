"""Puts right what a crash in the middle of a restore has left in a directory.

The journal says how far it came. A restore that is not on the timeline is taken back: the
directory becomes what it was, and what was found is kept as a snapshot before; what it never
touched is somebody's work, and stays. So it is wherever the timeline has gone meanwhile: what was
written through the namespace comes in, and wins over what the restore had left. One that is on
the timeline is whole, unless the machine was restarted since: then what the kernel had not yet
written is lost, files that look as they should may hold other bytes, and the last steps may not
have happened. Those are done again; all else that differs is somebody's work, and stays.

It may die as well, and is then done again: the journal stays until all is right.
"""

from collections.abc import Set as AbstractSet
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from holdfast.engine.core.lineage import ABOVE_ALL, FOUND, Stored, is_leftover
from holdfast.engine.core.paths import ancestors, to_text
from holdfast.engine.directory.move import MOST_BEHIND, Attached
from holdfast.engine.directory.present import Glance
from holdfast.engine.directory.since import Since, find_since
from holdfast.engine.directory.writer import Follower, list_steps
from holdfast.engine.timeline import restore as restoring
from holdfast.engine.timeline.diff import entries_of, timeless
from holdfast.engine.timeline.restore import folded_head
from holdfast.engine.timeline.selection import only, only_files
from holdfast.entries import Blob, Directory, Entry, Inline, Link
from holdfast.errors import (
    Busy,
    DriftFound,
    HoldfastError,
    NotFound,
    StorageFull,
    Unavailable,
)
from holdfast.fetching import fetched
from holdfast.ids import SnapshotId
from holdfast.model.basics import Plane, SnapshotInfo
from holdfast.operations.snapshots import Note
from holdfast.tree import diff
from holdfast.workspace.journal import (
    SETTLED_S,
    Record,
    is_settled,
    litter_pattern,
    was_restarted,
)
from holdfast.workspace.steps import has_same_content

BACK: Final = Note(reason="took back an interrupted restore")


def recover(attached: Attached) -> str | None:
    """Puts right what the journal tells of; returns a sentence about it, or None."""
    for _ in range(MOST_BEHIND):
        try:
            return _recover(attached)
        except DriftFound as exc:
            # Somebody wrote through the namespace meanwhile: that is kept with all that is found.
            if exc.cause != "behind":
                raise
    message = f"{attached.handle.name} is written to all the time"
    raise Busy(message)


def _recover(attached: Attached) -> str | None:
    record = attached.directory.journal.find()
    if record is None or not record.is_of_restore:
        return None  # What was being brought in is brought in anew (`agreeing.py`).
    if record.state == "applied" or _is_on_timeline(attached, record.mark):
        return _look_again(attached, record)
    return _take_back(attached, record)


def _take_back(attached: Attached, record: Record) -> str | None:
    """Brings the directory back to what it was before a restore that did not get through.

    And on to what its namespace has by now: whatever was done to that, the restore did not do.
    """
    directory = attached.directory
    with attached.handle.context.catalog.read() as transaction:
        directory.catch_up(transaction, attached.handle.get_head(transaction))
    if not _is_half_way(attached, record):
        # It was put right, and captured or led since: what is in it now is ordinary drift.
        directory.journal.clear()
        return None
    if was_restarted(record):
        directory.forget_index()
    _take_out(attached, record)
    # What was found is kept first, and what the namespace has before that. What was undone before
    # stays to be redone, and undo passes over what was found.
    litter = litter_pattern(record)
    found = attached.keep_drift(FOUND, keeps_redo=True, litter=litter, is_alone=True)
    # One who was at it before may have kept it already, and come no further.
    found = found or _found_at(attached)
    now, since = _get_shown(attached, record), Since()
    if attached.files_of(now) == directory.last.root:
        directory.journal.clear()
    else:
        since = _find_since(attached, record, now)
        try:
            _lead_back(attached, record, now, since)
        except (Unavailable, StorageFull) as exc:
            if found is None or not exc.paths or directory.journal.find() is not None:
                raise
            return _given_up(exc, found)
    left = "" if found is None else f" What it had left is in {found.id}: undo passes over it."
    return f"An interrupted restore was taken back.{left}{since.sentences(now.id)}"


def _find_since(attached: Attached, record: Record, now: SnapshotInfo) -> Since:
    """Returns what was found that the restore does not explain, as far as anybody can tell."""
    source, goal = attached.source(), attached.files_of(now)
    found, back = attached.directory.last.root, record.back or now.id
    try:
        before = attached.files_of(attached.namespace.get_snapshot(back))
        since = find_since(source, before=before, goal=record.goal, found=found, now=goal)
    except NotFound:
        # Forgotten since: all that is there counts as the restore's, and is in what was found.
        since = Since(written={edit.key for edit in diff(source, found, goal)})
    steps = [step for step in list_steps(source, found, goal) if step.key in since.written]
    # What no snapshot holds the restore did not touch, and nothing takes its place now.
    in_the_way = Follower(attached.directory).find_obstacles(steps)
    return msgspec.structs.replace(since, gave_way=[*since.gave_way, *in_the_way])


def _lead_back(attached: Attached, record: Record, now: SnapshotInfo, since: Since) -> None:
    """Leads the directory to what its namespace has, but for what somebody did in it since."""
    back = SnapshotId(record.back) if record.back else now.id
    # What the directory was, and when, is what it was before all of this.
    follower = Follower(attached.directory, back=back, goal=record.goal, stood=record.stood)
    # What was found is kept; all else here is what the restore itself has left.
    follower.gives_up = True
    follower.leave([to_text(key) for key in (*since.apart, *since.gave_way)])
    # The other planes are in the catalog, and never were half-way.
    attached.move(
        lambda handle, _: restoring.restore(
            handle, now, selection=only(Plane.FILES), note=BACK, keeps_redo=True
        ),
        follower,
    )


def _is_half_way(attached: Attached, record: Record) -> bool:
    """Says whether the directory is still what the restore has left, and perhaps changed since.

    So it is wherever the timeline has gone meanwhile, until the directory is captured or led again.
    """
    stands = attached.directory.last.snapshot
    if stands in ("", record.stood) or _stands_there(attached, record):
        return True
    return _find_leftover(attached, record) is not None


def _stands_there(attached: Attached, record: Record) -> bool:
    """Says whether the head is where the restore began, or on what an earlier recovery found."""
    at = attached.namespace.get_snapshot("@")
    with suppress(NotFound):
        # Recoveries may have been interrupted, too: each has kept what it found.
        while at.id != record.back and is_leftover(at) and at.parent is not None:
            at = attached.namespace.get_snapshot(at.parent)
    return record.back in ("", at.id)


def _find_leftover(attached: Attached, record: Record) -> SnapshotInfo | None:
    """Returns what a recovery of the same restore has kept, and come no further."""
    stands = attached.directory.last.snapshot
    if stands in ("", record.stood):
        return None
    with suppress(NotFound):
        found = attached.namespace.get_snapshot(stands)
        return found if is_leftover(found) else None
    return None


def _take_out(attached: Attached, record: Record) -> None:
    """Takes a mixture out of what the namespace has, where somebody went on from it.

    A recovery that was interrupted had kept it on the timeline, and others have written since.
    """
    left = _find_leftover(attached, record)
    if left is None:
        return
    before, mixed = _get_shown(attached, record, below=left.number), attached.files_of(left)
    with folded_head(attached.handle) as (_, folded):
        now = folded.root.plane(Plane.FILES)
        if folded.head.generation == left.number and now == mixed:
            return
        changed = {edit.key for edit in diff(folded.source, mixed, now)}
        steps = diff(folded.source, mixed, attached.files_of(before))
        keys = [edit.key for edit in steps if edit.key not in changed]
    if keys:
        chosen = only_files(keys)
        restoring.restore(attached.handle, before, selection=chosen, note=BACK, keeps_redo=True)


def _get_shown(attached: Attached, record: Record, *, below: int = ABOVE_ALL) -> SnapshotInfo:
    """Returns the newest snapshot but for mixtures of this restore: what the head has without."""
    with attached.handle.context.catalog.read() as transaction:
        snapshots = Stored(transaction, attached.handle.get_head(transaction).namespace_id)
        at = snapshots.find_below(below)
        while at is not None and is_leftover(at) and at.id != record.back:
            at = snapshots.find_below(at.number)
    return at or attached.namespace.get_snapshot("@")


def _given_up(exc: HoldfastError, found: SnapshotInfo) -> str:
    """Returns what is said where the directory does not let a restore be taken back.

    All that is there is in a snapshot, on which the timeline stands: whoever goes on from there
    can, and nobody has to wait until the directory lets it.
    """
    return (
        f"An interrupted restore could not be taken back: {exc}. What it had left is there, and in "
        f"{found.id}; undo goes to what was there before."
    )


def _found_at(attached: Attached) -> SnapshotInfo | None:
    """Returns the snapshot that the timeline stands on, if it is what a recovery came upon."""
    at = attached.namespace.get_snapshot("@")
    return at if is_leftover(at) else None


def _look_again(attached: Attached, record: Record) -> str | None:
    """Puts right what a power cut took of a restore that was complete."""
    directory = attached.directory
    if not was_restarted(record):
        if record.state != "applied":
            directory.journal.applied()
        elif is_settled(record):
            directory.journal.clear()
        return None
    with attached.handle.context.catalog.read() as transaction:
        directory.catch_up(transaction, attached.handle.get_head(transaction))
    directory.forget_index()
    done = _done(attached, record)
    found = _differing(attached, record, done.good)
    lost = [key for key, old, new in found if _is_lost(attached, done, key, old, new)]
    if not lost:
        directory.journal.clear()
        return None
    note = Note(reason="put right what a power cut took")
    good, selection = done.good, only_files(lost)
    attached.lead(
        lambda handle, _: restoring.restore(handle, good, selection=selection, note=note),
        # What leads away from it is what the power cut did: no map says what that was.
        Follower(directory, back=good.id, goal="", stood=good.id),
        reason=FOUND,
    )
    return f"A power cut had damaged {len(lost)} files; they were put right."


class _Done(NamedTuple):
    """A restore that was complete."""

    good: SnapshotInfo
    """What the directory was."""
    at: float
    """When its last step was done."""
    related: AbstractSet[bytes] = frozenset()
    """What it changed, and the folders above; nothing, if the timeline has gone on since."""


def _done(attached: Attached, record: Record) -> _Done:
    head = attached.namespace.get_snapshot("@")
    try:
        good = attached.namespace.get_snapshot(record.mark)
        back = attached.namespace.get_snapshot(record.back)
    except NotFound:
        return _Done(head, record.at)
    # That all is done the journal says unsynced: a power cut leaves the one that says when it
    # began. The snapshot is made when the last step was done.
    at = record.at if record.state == "applied" else good.created_at.timestamp()
    # An undo or redo stands on what it went to.
    stands_there = head.id in (good.id, good.target)
    if not stands_there and not (is_leftover(head) and head.parent in (good.id, good.target)):
        return _Done(head, at)
    steps = diff(attached.source(), attached.files_of(back), attached.files_of(good))
    return _Done(good, at, {name for step in steps for name in (step.key, *ancestors(step.key))})


@fetched
def _differing(
    attached: Attached, record: Record, good: SnapshotInfo
) -> list[tuple[bytes, Entry | None, Entry | None]]:
    """Returns what is not as a snapshot has it: the path, what that has, and what is there.

    Where only the time differs, too: a diff would not show it.
    """
    glance = Glance(attached.directory, litter=litter_pattern(record), only_names=True)
    with folded_head(glance.at(attached.handle)) as (_, folded):
        source = folded.source
        maps = source.get_root(good.root).plane(Plane.FILES), folded.root.plane(Plane.FILES)
        edits = diff(source, *maps)
        return [(edit.key, *entries_of(source, edit, maps)) for edit in edits]


def _is_lost(
    attached: Attached, done: _Done, key: bytes, old: Entry | None, new: Entry | None
) -> bool:
    """Says whether a path is what a power cut has left of what was there."""
    path = attached.directory.path / to_text(key)
    is_left = _is_torn(old, new) or (key in done.related and _is_undone(path, done.at, old, new))
    return is_left and not _is_later(path, done.at)


def _is_undone(path: Path, at: float, old: Entry | None, new: Entry | None) -> bool:
    """Says whether a power cut took back a step of what the restore changed.

    What is there then is no later than it: an old file or none, a folder that is there still, a
    file that was written and has no time yet.
    """
    if old == new:
        return False  # a folder that has got an entry
    if old is not None and new is not None and timeless(old) == timeless(new):
        # Whoever sets a time has moved the time of change, which nobody can set.
        return _changed_at(path) <= at
    if isinstance(new, Inline | Blob | Link):
        return new.mtime_ns <= at * 1e9
    return new is None or isinstance(new, Directory)


def _is_torn(old: Entry | None, new: Entry | None) -> bool:
    """Says whether a file has the time that the map says, and other bytes."""
    if not isinstance(old, Inline | Blob) or not isinstance(new, Inline | Blob):
        return False
    return old.mtime_ns == new.mtime_ns and not has_same_content(old, new)


def _changed_at(path: Path) -> float:
    """Returns when something was changed last; if nobody can say, after all else."""
    try:
        return path.lstat().st_ctime
    except OSError:
        return inf


def _is_later(path: Path, at: float) -> bool:
    """Says whether something happened to a name when the restore was on the disk already."""
    try:
        return path.parent.lstat().st_mtime > at + SETTLED_S
    except OSError:
        return False


def _is_on_timeline(attached: Attached, snapshot_id: str) -> bool:
    with attached.handle.context.catalog.read() as transaction:
        head = attached.handle.find_head(transaction)
        return head is not None and (
            transaction.find_snapshot(head.namespace_id, SnapshotId(snapshot_id)) is not None
        )
