"""Puts right what a crash in the middle of a restore has left in a directory.

The journal says how far it came. A restore that is not on the timeline is taken back: the
directory becomes what it was, and what was found is kept as a snapshot before; what it never
touched is somebody's work, and stays (`since.py`). One that is on the timeline is whole, unless
the machine was restarted since: then what the kernel had not yet written is lost, files that look
as they should may hold other bytes, and the last steps may not have happened. Those are done
again; all else that differs is somebody's work, and stays.

It may die as well, and is then done again: the journal stays until all is right.
"""

from collections.abc import Callable
from contextlib import suppress

from holdfast.engine import restore as restoring
from holdfast.engine.advance import Note
from holdfast.engine.follower import Follower
from holdfast.engine.lineage import FOUND, is_found
from holdfast.engine.mover import Mover
from holdfast.engine.namespace import Namespace
from holdfast.engine.paths import ancestors, to_text
from holdfast.engine.selection import only, only_files
from holdfast.engine.since import Since, find_since
from holdfast.entries import Blob, Directory, Inline, Link
from holdfast.errors import NotFound
from holdfast.ids import SnapshotId
from holdfast.model import Plane, SnapshotInfo
from holdfast.model_changes import Change
from holdfast.workspace.journal import (
    SETTLED_S,
    Record,
    is_settled,
    litter_pattern,
    was_restarted,
)
from holdfast.workspace.steps import has_same_content


def recover(mover: Mover) -> str | None:
    """Puts right what the journal tells of; returns a sentence about it, or None."""
    record = mover.directory.journal.find()
    if record is None:
        return None
    if record.state == "applied" or _is_on_timeline(mover, record.mark):
        return _look_again(mover, record)
    return _take_back(mover, record)


def _take_back(mover: Mover, record: Record) -> str | None:
    """Brings the directory back to what it was before a restore that did not get through."""
    directory = mover.directory
    before = _before(mover, record)
    if before is None:
        # The timeline has gone on since: what is in the directory is ordinary drift.
        directory.journal.clear()
        return None
    if was_restarted(record):
        directory.forget_index()
    follower = Follower(directory, back=before.id, goal=record.goal)
    # What was found is kept first; all else here is what the restore itself has left.
    follower.gives_up = True
    # What was undone before stays to be redone, and undo passes over what was found.
    found = mover.keep_drift(FOUND, follower, keeps_redo=True, litter=litter_pattern(record))
    # One who was at it before may have kept it already, and come no further.
    found = found or _found_at(mover)
    since = Since()
    if mover.files_of(before) == directory.known.root:
        directory.journal.clear()
    else:
        since = find_since(
            mover.source(),
            before=mover.files_of(before),
            goal=record.goal,
            found=directory.known.root,
        )
        follower.leave([to_text(key) for key in since.apart])
        note = Note(reason="took back an interrupted restore")
        # The other planes are in the catalog, and never were half-way.
        mover.act(
            lambda handle: restoring.restore(
                handle, before, selection=only(Plane.FILES), note=note, keeps_redo=True
            ),
            follower,
        )
    left = "" if found is None else f" What it had left is in {found.id}: undo passes over it."
    return f"An interrupted restore was taken back.{left}{since.told()}"


def _found_at(mover: Mover) -> SnapshotInfo | None:
    """Returns the snapshot that the timeline stands on, if it is what a recovery came upon."""
    at = mover.namespace.get_snapshot("@")
    return at if is_found(at) else None


def _before(mover: Mover, record: Record) -> SnapshotInfo | None:
    """Returns what the directory was before the restore that the journal tells of.

    None if the head no longer stands there, nor on what an earlier recovery has found.
    """
    at = mover.namespace.get_snapshot("@")
    if not record.back:
        return at
    with suppress(NotFound):
        # Recoveries may have been interrupted, too: each has kept what it found.
        while at.id != record.back and is_found(at) and at.parent is not None:
            at = mover.namespace.get_snapshot(at.parent)
    return at if at.id == record.back else None


def _look_again(mover: Mover, record: Record) -> str | None:
    """Puts right what a power cut took of a restore that was complete."""
    directory = mover.directory
    if not was_restarted(record):
        if record.state != "applied":
            directory.journal.applied()
        elif is_settled(record):
            directory.journal.clear()
        return None
    directory.forget_index()
    good, is_undone = _good(mover, record)
    showing = Follower(directory, litter=litter_pattern(record), only_names=True)
    changes = Namespace(mover.attached(showing)).diff(good, planes=[Plane.FILES])
    lost = [
        change.key
        for change in changes
        if (_is_torn(change) or is_undone(change)) and not _is_later(mover, change, record)
    ]
    if not lost:
        directory.journal.clear()
        return None
    note = Note(reason="put right what a power cut took")
    mover.move(
        lambda handle, _: restoring.restore(handle, good, selection=only_files(lost), note=note),
        # What leads away from it is what the power cut did: no map says what that was.
        Follower(directory, back=good.id, goal=""),
        reason=FOUND,
    )
    return f"A power cut had damaged {len(lost)} files; they were put right."


def _good(mover: Mover, record: Record) -> tuple[SnapshotInfo, Callable[[Change], bool]]:
    """Returns what the directory was, and a test for steps that a power cut took back.

    Those concern what the restore changed, and are no later than it: an old file or none, a
    folder that is there still, a file that was patched and has no time yet.
    """
    head = mover.namespace.get_snapshot("@")
    try:
        good = mover.namespace.get_snapshot(record.mark)
        back = mover.namespace.get_snapshot(record.back)
    except NotFound:
        return head, lambda _change: False
    # An undo or redo stands on what it went to.
    stands_there = head.id in (good.id, good.target)
    if not stands_there and not (is_found(head) and head.parent in (good.id, good.target)):
        return head, lambda _change: False
    steps = [change.key for change in mover.namespace.diff(back, good, planes=[Plane.FILES])]
    related = {*steps, *(folder for key in steps for folder in ancestors(key))}

    def is_undone(change: Change) -> bool:
        new = change.new
        if change.key not in related:
            return False
        if isinstance(new, Inline | Blob | Link):
            return new.mtime_ns <= record.at * 1e9
        return new is None or isinstance(new, Directory)

    return good, is_undone


def _is_torn(change: Change) -> bool:
    """Says whether a file has the time that the map says, and other bytes."""
    old, new = change.old, change.new
    if not isinstance(old, Inline | Blob) or not isinstance(new, Inline | Blob):
        return False
    return old.mtime_ns == new.mtime_ns and not has_same_content(old, new)


def _is_later(mover: Mover, change: Change, record: Record) -> bool:
    """Says whether something happened to a name when the restore was on the disk already."""
    try:
        state = (mover.directory.path / change.name).parent.lstat()
    except OSError:
        return False
    return state.st_mtime > record.at + SETTLED_S


def _is_on_timeline(mover: Mover, snapshot_id: str) -> bool:
    with mover.handle.context.catalog.read() as transaction:
        head = mover.handle.find_head(transaction)
        return head is not None and (
            transaction.find_snapshot(head.namespace_id, SnapshotId(snapshot_id)) is not None
        )
