"""Puts right what a crash in the middle of a restore has left in a directory.

The journal says how far it came. A restore that is not on the timeline is taken back: the
directory becomes what it was, and what was found is kept as a snapshot before; what it never
touched is somebody's work, and stays. One that is on the timeline is whole, unless
the machine was restarted since: then what the kernel had not yet written is lost, files that look
as they should may hold other bytes, and the last steps may not have happened. Those are done
again; all else that differs is somebody's work, and stays.

It may die as well, and is then done again: the journal stays until all is right.

What somebody did to a directory after a restore of it was interrupted.

Whatever the restore was not about to change, it did not change: that is somebody's work. Of the
files that it was about to change, one that is neither as it was nor as it was to be is either
half-written or edited since; nobody can tell which.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from holdfast.engine.core.lineage import FOUND, is_leftover
from holdfast.engine.core.paths import ancestors, to_text
from holdfast.engine.directory.move import MOST_BEHIND, Attached
from holdfast.engine.directory.present import Glance
from holdfast.engine.directory.writer import Follower
from holdfast.engine.files.fitting import live_below
from holdfast.engine.timeline import restore as restoring
from holdfast.engine.timeline.diff import entries_of, timeless
from holdfast.engine.timeline.restore import folded_head
from holdfast.engine.timeline.selection import only, only_files
from holdfast.entries import Blob, Directory, Entry, Inline, Link, decode_entry
from holdfast.errors import Busy, Damaged, DriftFound, NotFound
from holdfast.fetching import fetched
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import Plane, SnapshotInfo
from holdfast.operations.snapshots import Note
from holdfast.tree import NodeSource, diff, get_many
from holdfast.workspace.journal import (
    SETTLED_S,
    Record,
    is_settled,
    litter_pattern,
    was_restarted,
)
from holdfast.workspace.steps import has_same_content


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
    """Brings the directory back to what it was before a restore that did not get through."""
    directory = attached.directory
    before = _before(attached, record)
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
    found = attached.keep_drift(
        FOUND,
        keeps_redo=True,
        litter=litter_pattern(record),
        # Whatever the last look that was saved knows: there they agreed when it began.
        stood_at=attached.files_of(attached.namespace.get_snapshot("@")),
    )
    # One who was at it before may have kept it already, and come no further.
    found = found or _found_at(attached)
    since = Since()
    if attached.files_of(before) == directory.last.root:
        directory.journal.clear()
    else:
        since = find_since(
            attached.source(),
            before=attached.files_of(before),
            goal=record.goal,
            found=directory.last.root,
        )
        follower.leave([to_text(key) for key in since.apart])
        note = Note(reason="took back an interrupted restore")
        # The other planes are in the catalog, and never were half-way.
        attached.move(
            lambda handle, _: restoring.restore(
                handle, before, selection=only(Plane.FILES), note=note, keeps_redo=True
            ),
            follower,
        )
    left = "" if found is None else f" What it had left is in {found.id}: undo passes over it."
    return f"An interrupted restore was taken back.{left}{since.sentences()}"


def _found_at(attached: Attached) -> SnapshotInfo | None:
    """Returns the snapshot that the timeline stands on, if it is what a recovery came upon."""
    at = attached.namespace.get_snapshot("@")
    return at if is_leftover(at) else None


def _before(attached: Attached, record: Record) -> SnapshotInfo | None:
    """Returns what the directory was before the restore that the journal tells of.

    None if the head no longer stands there, nor on what an earlier recovery has found.
    """
    at = attached.namespace.get_snapshot("@")
    if not record.back:
        return at
    with suppress(NotFound):
        # Recoveries may have been interrupted, too: each has kept what it found.
        while at.id != record.back and is_leftover(at) and at.parent is not None:
            at = attached.namespace.get_snapshot(at.parent)
    return at if at.id == record.back else None


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
        Follower(directory, back=good.id, goal=""),
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


NAMED: Final = 5
"""Paths that a sentence names."""


class Since(msgspec.Struct, frozen=True):
    """What was found that the restore does not explain."""

    apart: Sequence[bytes] = ()
    """Paths that it never touched, and that can stay as they are."""
    replaced: Sequence[bytes] = ()
    """Paths that have to make way for what was there before."""

    def sentences(self) -> str:
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
