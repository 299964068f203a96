"""Brings into a directory what was written through its namespace, before anybody looks at it.

Whoever writes through the namespace does not know of a directory, which may be on another machine
or closed. So it is the directory that catches up: each time somebody takes hold of it, what was
done to the namespace's files since it last did is written into it, unless the same path was changed
in the directory as well (`joining.py`).

1. Read: what the namespace's files are, pending changes included. If they are what the directory
   last took in, that is all.
2. Look: what was changed in the directory since is somebody's work, and is never written over.
3. Store: the maps of both sides, so that the next one knows what they were. No snapshot is taken:
   what is pending stays pending, and what was changed in the directory is as unkept as before.
4. Journal, then write. What cannot be written (the rules leave it out, something that is in no
   snapshot is in its way) stays out: the next snapshot has what the directory has, and names it.
5. Know: what was written is read again by the next look, as whatever has just changed.

If 4 fails, what was written is taken back. A crash in it leaves the journal. Whoever comes next
finds files that are neither what they were nor what they were to be: those may be half-written.
They are kept as a snapshot, and written again. A crash before it leaves nothing, and one after it
files that both sides have alike.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from holdfast.engine.capturing.capture import Rereading
from holdfast.engine.capturing.captured import Captured
from holdfast.engine.capturing.lastlook import LastLook
from holdfast.engine.core.paths import legible, to_text
from holdfast.engine.directory.directory import Directory
from holdfast.engine.directory.filling import Filled, fill
from holdfast.engine.directory.joining import IsTorn, find_common, nothing_torn
from holdfast.engine.directory.snapshot import keep
from holdfast.engine.directory.writer import Follower, list_only_in_old, list_steps
from holdfast.engine.files.retrieval import MapGoal, Retrieval, Weighing
from holdfast.engine.objects.content import InMemory
from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.engine.planes import missing
from holdfast.engine.planes.forms import settle_files
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.unit import carry_out
from holdfast.engine.timeline.diff import collect_changes, iter_changes
from holdfast.entries import Blob, Entry, Inline, Link, decode_entry
from holdfast.errors import Busy, Damaged, HoldfastError, TooLarge, Unavailable
from holdfast.errors.system import from_system
from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP, Head, Kind, Plane, Root
from holdfast.model.changes import Changes
from holdfast.operations.choices import SHOWN
from holdfast.operations.snapshots import Note
from holdfast.progress import no_progress
from holdfast.tree import Applied, apply, get_many
from holdfast.workspace.descent import Descent
from holdfast.workspace.drafts import Draft, row_of
from holdfast.workspace.journal import (
    Record,
    is_settled,
    litter_of,
    litter_pattern,
    mark_of,
    was_restarted,
)
from holdfast.workspace.statindex import Folder, unsure
from holdfast.workspace.steps import Drifted, Step, above, is_file, split_key
from holdfast.workspace.writing import Writer

ROUNDS: Final = 3
"""Times that a directory is looked at which changes while something is brought into it."""

WAY_BACK: Final = (
    "To go back without taking in what was written through the namespace, restore the namespace "
    "itself, in process or over HTTP: the directory follows when it is looked at next."
)

INTERRUPTED: Final = "took in what was written through the namespace, after an interruption"


class Agreed(msgspec.Struct, frozen=True, kw_only=True):
    """What a directory took in of what was done to its namespace's files."""

    brought: Changes
    """What was written into the directory."""
    gave_way: Sequence[str] = ()
    """Paths at which the directory's own stays: it was changed there as well, or could not be
    written. The next snapshot of the directory keeps the namespace's version first, and says so."""
    failed: str | None = None
    """Why nothing could be written; what is shown of the directory is as if it had been."""


class _Theirs(msgspec.Struct, frozen=True):
    """What a namespace's files are at one moment."""

    head: Head
    root: ObjectId
    nodes: dict[ObjectId, bytes]
    chunks: InMemory
    """What of them lies in rows, and in no pack yet."""


def agree(handle: Handle, directory: Directory) -> Agreed | None:
    """Brings a directory to where its namespace's files are; None if there was nothing to do."""
    for tried in range(ROUNDS):
        try:
            return _agree(handle, directory)
        except Damaged:
            if directory.is_sound or len(directory.last.index) == 0:
                # Whoever takes a snapshot finds out what there is; nobody can say what was to be.
                _give_up_interrupted(directory)
                return None
            directory.forget_index()
        except Drifted as exc:
            if tried == ROUNDS - 1:
                message = f"{directory.path} keeps changing: {to_text(exc.key)}"
                raise Busy(message) from exc
        except OSError as exc:
            failed = from_system(exc, f"{directory.path} could not be written to")
            raise failed.with_hint(f"Let it be written to, and try again. {WAY_BACK}") from exc
    return None


def _agree(handle: Handle, directory: Directory) -> Agreed | None:
    theirs = _read(handle, directory)
    is_torn = _settle_interrupted(directory)
    if theirs is None:
        directory.forget_all()  # There is no timeline any more with which something was agreed on.
        return None
    if is_torn is not None:
        # What is neither the one nor the other is kept, before it is written over: from then on it
        # is what the directory was, and whoever fails below need not keep it again.
        _keep_torn(handle, directory, is_torn)
        directory.save()
        directory.journal.clear()
        theirs = _read(handle, directory) or theirs
    if theirs.root == directory.last.agreed:
        return None
    captured = directory.look(Weighing(), rereading=Rereading.ALL)
    source = StagedObjects(handle.objects, held=theirs.chunks.objects).with_nodes(theirs.nodes)
    filled = fill(source, captured, theirs.root, namespace=theirs.head.namespace_id)
    if filled.is_blind:
        return None  # Nothing of it came in, and none of it was agreed on.
    look = _Look(captured, filled, theirs)
    return _Bringing(handle, directory, source.with_nodes(filled.nodes), look).carry_out()


def _read(handle: Handle, directory: Directory) -> _Theirs | None:
    """Returns a namespace's files as they are now; None if there is no such namespace."""
    with handle.context.catalog.read() as transaction:
        head = handle.find_head(transaction)
        if head is None:
            return None
        directory.catch_up(transaction, head)
        source = StagedObjects(handle.objects_in(transaction))
        files = source.get_root(head.root).plane(Plane.FILES)
        if transaction.count_pending(head.namespace_id) == 0:
            return _Theirs(head, files, {}, InMemory())
        pending = transaction.all_pending(head.namespace_id)
        missing.check_all(transaction, head, pending)
        changes = {key: entry for plane, key, entry in pending if plane is Plane.FILES}
        chunks = InMemory()
        applied = apply(source, files, settle_files(chunks, changes))
        return _Theirs(head, applied.root, applied.nodes, chunks)


def _settle_interrupted(directory: Directory) -> IsTorn | None:
    """Returns what of a directory may be torn, if somebody died who brought something in."""
    record = directory.journal.find()
    if record is None or record.is_of_restore:
        return None
    left = {*record.left}
    if was_restarted(record):
        directory.forget_to(record.back, record.goal)
        if record.is_cut:
            return nothing_torn
        return lambda key, mine, theirs: mark_of(key) not in left and _is_lost(record, mine, theirs)
    if record.state == "bringing":
        last = directory.last
        if (last.base.hex(), last.agreed.hex()) != (record.back, record.goal):
            # What was saved of it is older: by that, all that was done since would be torn.
            directory.forget_to(record.back, record.goal)
        if record.is_cut:
            # Nobody knows which: better that the namespace's gives way where it could be written.
            return nothing_torn
        return lambda key, _mine, _theirs: mark_of(key) not in left
    if is_settled(record):
        directory.journal.clear()
    return None


def _give_up_interrupted(directory: Directory) -> None:
    record = directory.journal.find()
    if record is not None and not record.is_of_restore:
        directory.journal.clear()


def _is_lost(record: Record, mine: bytes, theirs: bytes | None) -> bool:
    """Says whether a file may be what a power cut has left: by its time."""
    found, wanted = (None if data is None else decode_entry(data) for data in (mine, theirs))
    if not isinstance(found, Inline | Blob | Link):
        return True
    has_time = isinstance(wanted, Inline | Blob | Link) and wanted.mtime_ns == found.mtime_ns
    return has_time or found.mtime_ns <= record.at * 1e9


def _keep_torn(handle: Handle, directory: Directory, is_torn: IsTorn) -> None:
    record = directory.journal.find()
    keep(
        handle,
        directory,
        Note(reason=INTERRUPTED),
        kind=Kind.SAFETY,
        only_if_changed=True,
        keeps_redo=True,
        litter=None if record is None else litter_pattern(record),
        rereading=Rereading.ALL,
        is_torn=is_torn,
        progress=no_progress,
    )


class _Look(NamedTuple):
    """Both sides at one moment, and what holds both."""

    captured: Captured
    filled: Filled
    theirs: _Theirs


class _Bringing:
    """One writing of what a directory lacks of its namespace's files."""

    def __init__(
        self, handle: Handle, directory: Directory, source: StagedObjects, look: _Look
    ) -> None:
        self._handle, self._directory, self._source = handle, directory, source
        self._captured, self._filled, self._theirs = look
        self._last = self._captured.last
        self._seen = self._captured.settle(self._filled.own).index
        """What everything looked like a moment ago: nothing else is written over."""

    def carry_out(self) -> Agreed:
        """Writes it; raises `Drifted` or an `OSError`, with the directory as it was."""
        wanted = [*list_steps(self._source, self._filled.own, self._filled.root)]
        steps = self._choose(wanted)
        chosen = {step.key for step in steps}
        entries = self._entries(chosen)
        applied = self._agree_on(entries)
        self._check_budget(steps)
        self._store(applied.nodes)
        if steps:
            self._write(steps, applied.nodes)
        self._learn(steps, applied.root)
        left = {*self._filled.gave_way, *(step.key for step in wanted if step.key not in chosen)}
        return Agreed(
            brought=self._changes(applied.nodes, entries),
            gave_way=[legible(to_text(key)) for key in sorted(left)],
        )

    def _choose(self, wanted: Sequence[Step]) -> list[Step]:
        """Returns the steps that can be taken without losing anything."""
        directory, rules = self._directory, self._directory.rules()
        follower = Follower(directory)
        in_the_way = {*follower.find_obstacles(wanted, self._seen)}
        chosen = [
            step
            for step in wanted
            if not follower.is_spared(step.key, step.new, rules)
            and not rules.excludes_within(step.key)
            and not _is_below(step.key, in_the_way)
        ]
        try:
            self._source.check_stored(list_only_in_old(self._source, chosen))
        except Damaged:
            # What is in the directory alone stays there, whatever the namespace has.
            chosen = [step for step in chosen if step.old is None or self._is_stored(step)]
        return chosen

    def _check_budget(self, steps: Sequence[Step]) -> None:
        """Raises `TooLarge` if the directory could not be captured with all of it."""
        limits, coverage = self._directory.context.limits, self._captured.coverage
        files, size = coverage.captured, coverage.captured_bytes
        for step in steps:
            files += is_file(step.new) - is_file(step.old)
            size += _bytes_of(step.new) - _bytes_of(step.old)
        if files > limits.workspace_files or size > limits.workspace_bytes:
            message = (
                f"with what the namespace has, the directory would have {files} files with {size} "
                f"bytes, and the budget is {limits.workspace_files} files with "
                f"{limits.workspace_bytes} bytes"
            )
            raise TooLarge(message).with_hint(WAY_BACK)

    def _is_stored(self, step: Step) -> bool:
        with suppress(Damaged):
            self._source.check_stored(list_only_in_old(self._source, [step]))
            return True
        return False

    def _entries(self, chosen: set[bytes]) -> dict[bytes, bytes | None]:
        """Returns what becomes of the paths that are written."""
        found = get_many(self._source, self._filled.root, sorted(chosen))
        return {key: found.get(key) for key in chosen}

    def _agree_on(self, entries: Mapping[bytes, bytes | None]) -> Applied:
        """Returns the map from which the directory's own changes are told from now on.

        What it was before, with what is written now: what was changed in the directory is as
        unkept as it was. If nobody knows what it was, that is what both sides have.
        """
        source, filled = self._source, self._filled
        if not self._captured.is_whole or filled.base != EMPTY_MAP:
            return apply(source, filled.base, entries)
        became = apply(source, filled.own, entries)
        within, theirs = source.with_nodes(became.nodes), self._theirs.root
        return apply(within, theirs, find_common(within, became.root, theirs))

    def _store(self, nodes: Mapping[ObjectId, bytes]) -> None:
        """Stores the maps by which the next look knows what was agreed on; nothing names them.

        With them goes the content that lies in rows: where there is a map, there is what it names.
        Should a collection take them, all is read anew, and nothing counts as agreed on.
        """
        fresh = {**self._theirs.nodes, **nodes}
        if not fresh:
            return

        def write(stage: Stage) -> None:
            stage.add_nodes(fresh)
            for data, kind in self._theirs.chunks.objects.values():
                stage.add(data, kind)
            stage.seal()
            with self._handle.context.work() as transaction:
                self._handle.lock(transaction)
                stage.record(transaction)

        carry_out(self._handle, write)

    def _write(self, steps: Sequence[Step], nodes: dict[ObjectId, bytes]) -> None:
        directory = self._directory
        source = self._source.with_nodes(nodes)
        litter = litter_of(self._handle.context.ids.snapshot())
        directory.journal.begin_bringing(
            litter=litter,
            base=self._last.base.hex(),
            agreed=self._last.agreed.hex(),
            left=self._filled.gave_way,
        )
        writer = Writer(
            directory.root_fd,
            self._seen,
            Retrieval(source),
            litter=litter.encode(),
            goal=MapGoal(source, self._filled.root),
        )
        try:
            writer.carry_out(steps)
        except (Drifted, OSError, HoldfastError):
            self._turn_back(source, writer, litter)
            raise
        directory.touched |= writer.touched

    def _turn_back(self, source: StagedObjects, writer: Writer, litter: str) -> None:
        """Takes back what was written; if that fails too, the journal stays for the next one.

        So whatever differs the next time is somebody's work, and nothing of it is half-written.
        """
        directory = self._directory
        undoing = Writer(
            directory.root_fd,
            self._seen,
            Retrieval(source),
            litter=f"{litter}-back".encode(),
            goal=MapGoal(source, self._filled.own),
            checks=False,
            written=writer.written,
        )
        back = [Step(step.key, step.new, step.old) for step in writer.done]
        try:
            if back:
                undoing.carry_out(sorted(back, key=lambda step: step.key))
            # On the disk, before nobody watches over it any more.
            os.sync()
            directory.journal.clear()
        except (Drifted, OSError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else "it keeps changing"
            message = (
                f"{directory.path} could not be written to ({why}), and what the namespace has is "
                "half in it; it is put right when that can be"
            )
            raise Unavailable(message) from exc

    def _learn(self, steps: Sequence[Step], root: ObjectId) -> None:
        last, met, whose = self._last, self._theirs.root, self._theirs.head.namespace_id
        if self._captured.is_whole or last.based:
            # What was read and is in no snapshot is read again; what was agreed on is known.
            self._directory.forget_to(root.hex(), met.hex(), namespace=whose)
        else:
            self._directory.last = last.replacing(
                _folders_of(self._directory, last, [step.key for step in steps]),
                root=root,
                rules=last.rules,
                omitted=last.omitted,
                moving=last.moving,
                earlier=last.earlier,
                met=met,
                namespace=whose,
            )
        # Before the journal says so: without it, the next one starts from what was before.
        self._directory.save()
        if steps:
            with suppress(OSError):
                self._directory.journal.applied()

    def _changes(
        self, nodes: dict[ObjectId, bytes], entries: Mapping[bytes, bytes | None]
    ) -> Changes:
        own, source = self._filled.own, self._source.with_nodes(nodes)
        applied = apply(source, own, entries)
        old, new = (Root().replacing(files=files) for files in (own, applied.root))
        found = iter_changes(source.with_nodes(applied.nodes), old, new, planes=[Plane.FILES])
        return collect_changes(found, limit=SHOWN, counts=True)


def _folders_of(
    directory: Directory, last: LastLook, keys: Sequence[bytes]
) -> dict[bytes, Folder | None]:
    """Returns the folders in which something was written, so that the next look reads it again.

    The rows of all else in them stay what they were: what was changed there is found as before.
    """
    drafts, gone = dict[bytes, Draft](), set[bytes]()
    with Descent(directory.root_fd) as descent:
        for key in sorted(keys):
            folder, name = split_key(key)
            state = _state_of(descent, key)
            is_folder = state is not None and stat.S_ISDIR(state.st_mode)
            for path in _up(key if is_folder else folder):
                if path not in drafts and (draft := _draft_of(descent, last, path, gone)):
                    drafts[path] = draft
            if folder not in drafts:
                continue
            rows = drafts[folder].rows
            rows.pop(name, None)
            if state is not None and not is_folder:
                rows[name] = row_of(name, state)._replace(ctime_ns=unsure(state.st_ctime_ns))
    folders = dict[bytes, Folder | None]()
    for path in sorted(drafts, reverse=True):
        draft, parent = drafts[path], drafts.get(above(path)) if path else None
        is_left = path not in gone or bool(draft.rows or draft.folders)
        folders[path] = draft.finish() if is_left else None
        if parent is not None:
            name = split_key(path)[1]
            (parent.folders.add if is_left else parent.folders.discard)(name)
    return folders


def _up(folder: bytes) -> Iterator[bytes]:
    """Yields a folder, and all above it."""
    yield folder
    while folder:
        folder = above(folder)
        yield folder


def _state_of(descent: Descent, key: bytes) -> os.stat_result | None:
    folder, name = split_key(key)
    try:
        return os.stat(name, dir_fd=descent.open(folder), follow_symlinks=False)
    except OSError:
        return None


def _draft_of(descent: Descent, last: LastLook, path: bytes, gone: set[bytes]) -> Draft | None:
    """Returns a folder as it is known, to be listed again; None if nobody knows of it.

    One that is gone stays known: so the next look finds what else went with it.
    """
    known = last.index.find(path)
    try:
        draft = Draft(path, os.fstat(descent.open(path)), listed_at_ns=None)
    except OSError:
        gone.add(path)
        return None if known is None else Draft.of(known)
    if known is not None:
        draft.rows, draft.folders = {row.name: row for row in known.rows}, {*known.folders}
    return draft


def _bytes_of(entry: Entry | None) -> int:
    return entry.size if isinstance(entry, Inline | Blob) else 0


def _is_below(key: bytes, paths: set[bytes]) -> bool:
    return any(path in paths for path in _up(key))
