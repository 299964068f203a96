"""Writes into a directory what its namespace's head is about to show, or takes that back.

These are the steps of a move that concern the directory alone; `move.py` has all of them.
"""

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from holdfast.engine.core.coverage import lacking_in
from holdfast.engine.core.paths import ancestors, check_key, to_bytes, to_text
from holdfast.engine.directory.directory import Directory
from holdfast.engine.directory.failing import LOOKED_AT, failed, failed_on_the_way_back
from holdfast.engine.directory.proof import prove
from holdfast.engine.files.retrieval import MapGoal, Retrieval, check_entry
from holdfast.engine.objects.content import list_refs
from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.engine.planes.attached import Became, Moving
from holdfast.engine.timeline.diff import find_word, with_implied
from holdfast.entries import Blob, Entry, decode_entry
from holdfast.entries import Directory as Folder
from holdfast.errors import Damaged, DriftFound, HoldfastError
from holdfast.errors.system import translated
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import Plane, Root, SnapshotInfo
from holdfast.model.changes import Restored
from holdfast.progress import Progress, no_progress
from holdfast.tree import NodeSource, diff
from holdfast.workspace.descent import Descent
from holdfast.workspace.guard import Vaults, is_pack
from holdfast.workspace.ignoring import IGNORE_FILE, Rules
from holdfast.workspace.journal import is_litter, litter_of
from holdfast.workspace.placing import Expected
from holdfast.workspace.scan import BY_RULES
from holdfast.workspace.statindex import StatIndex
from holdfast.workspace.steps import Drifted, State, Step, above
from holdfast.workspace.writing import At, Writer

MOST_DAMAGED: Final = 20
"""Files that are named if they are damaged: `verify` names all."""

MOST_DIFFERING: Final = 100
"""Paths that are named if they are not what was asked for: `status` names all."""


class Follower:
    """One directory on its way; made for one operation."""

    def __init__(
        self,
        directory: Directory,
        *,
        force: bool = False,
        target: SnapshotInfo | None = None,
        back: SnapshotId | None = None,
        goal: str | None = None,
        stood: str | None = None,
        is_exact: bool = False,
        progress: Progress = no_progress,
    ) -> None:
        """Is made with what is special about the operation.

        `force` allows to overwrite what no snapshot can hold; with `is_exact`, what was captured
        goes if it is not in the goal, whatever the goal's own rules leave out; `target` is what is
        brought back, where that is known before (or else `protect`); `back` is where a crash shall
        lead to, if that is not where the head stands, `goal` the map that what crashed before was
        leading to, empty if that is not known, and `stood` the snapshot that the directory was
        captured with before that.
        """
        self._directory = directory
        self.force = force
        self.gives_up = False
        """Whether what is in the way and in no snapshot is overwritten."""
        self._protected = frozenset[bytes]()
        self._target: SnapshotInfo | None = None
        if target is not None:
            self.protect(target)
        self.progress = progress
        self._back, self._goal, self._stood = back, goal, stood
        self._is_exact = is_exact
        self._vaults: Vaults | None = None
        self._earlier: Rules | None = None
        self._start: ObjectId | None = None
        self._mark: SnapshotId | None = None
        self._done: Sequence[Step] = ()
        self._litter = ""
        self._written: Mapping[bytes, State] = {}
        self.is_verified = True
        """Whether what was written was read again, and is what was asked for."""
        self.differing: list[bytes] = []
        """Some of what is not, if it is not."""
        self.kept: list[bytes] = []
        """Folders that had to stay: something lies in them that is not captured."""
        self.spared: Mapping[bytes, str | None] = {}
        """What was left alone, as the goal knows nothing of it, and what would have happened to
        it; None if only its time of modification would have changed."""
        self.uncovered: list[bytes] = []
        """What is in no snapshot and was left alone: the rules had excluded it until now."""
        self.left_out: list[bytes] = []
        """What was written, and the rules that came with it leave out of the next look."""
        self.in_motion: frozenset[bytes] = frozenset()
        """What was written, and somebody had open for writing when it was read again."""

    def protect(self, target: SnapshotInfo) -> None:
        """Leaves alone what a snapshot that is brought back could not capture."""
        self._target = target
        self.leave(lacking_in(target).uncaptured)

    def leave(self, paths: Sequence[str]) -> None:
        """Leaves these paths, and what is below them, alone."""
        self._protected = frozenset(to_bytes(path) for path in paths)

    def outcome(self, done: Restored, kept: SnapshotId | None) -> Restored:
        """Returns what a move of the head says, with what the directory made of it."""
        in_motion = {*done.in_motion, *(to_text(key) for key in self.in_motion)}
        return replace(
            done,
            safety_id=done.safety_id or kept,
            verified=done.verified and self.is_verified,
            differing=[to_text(path) for path in self.differing],
            in_motion=sorted(in_motion),
            kept=[to_text(path) for path in self.kept],
            uncovered=[to_text(path) for path in self.uncovered],
        )

    def follow(self, _: Stage | None, source: StagedObjects, move: Moving) -> Became | None:
        """Makes the directory what the goal says; raises, with the directory as it was."""
        # If another was faster, it begins anew from where it was: the map that it went to may be
        # stored nowhere. What the other did is in the goal, or kept before it.
        start = self._start or move.root.plane(Plane.FILES)
        self._mark = move.mark
        self.turn_back(source)
        known, wanted = self._directory.last, move.goal.plane(Plane.FILES)
        self.is_verified, self.differing, self.kept = True, [], []
        self.spared, self.uncovered, self.in_motion = {}, [], frozenset()
        # Those by which it was looked at: what is written may be others.
        self._earlier = self._earlier or self._directory.rules()
        if known.root != start:
            path = str(self._directory.path)
            reason = "the namespace's files changed meanwhile"
            raise DriftFound([path], reason=reason, cause="behind")
        if wanted == known.root:
            self.uncovered = self.find_uncovered(self._directory.rules_there())
            return None
        steps = self._choose(source, list_steps(source, known.root, wanted), wanted)
        self._check_way(steps)
        self._check(source, steps)
        self._begin(source, move, wanted)
        writer = self._write(source, steps, wanted)
        self._start = known.root
        return self._prove(source, steps, writer, move.goal)

    def _check_way(self, steps: Sequence[Step]) -> None:
        """Raises `DriftFound` for what is in the way and in no snapshot, unless it is given up."""
        in_the_way = self.find_obstacles(steps)
        if in_the_way and not self.gives_up:
            paths = [to_text(key) for key in in_the_way]
            reason = "what no snapshot holds would be lost"
            is_readable = all(map(self._can_read, in_the_way))
            raise DriftFound(paths, reason=reason, cause="lost" if is_readable else "unreadable")

    def _check(self, source: StagedObjects, steps: list[Step]) -> None:
        """Raises, before anything is touched, if something could not be brought back afterwards.

        What is about to go has to be in the vault, as it is on the disk and not only by its name;
        and it has to be what is in the directory still.
        """
        known = self._directory.last
        source.check_stored(list_only_in_old(source, steps))
        # What somebody is writing to comes first: if it changes now, little else was touched.
        steps.sort(key=lambda step: step.key not in known.moving)
        if self.gives_up:
            return
        expected = Expected(known.index, checks=True, written={})
        try:
            expected.check_all(steps, self._directory.root_fd)
        except (Drifted, OSError) as exc:
            raise self._told(exc, (expected.at, LOOKED_AT)) from exc

    def _write(self, source: StagedObjects, steps: Sequence[Step], wanted: ObjectId) -> Writer:
        """Carries the steps out; raises, with those that were done taken back."""
        writer = self._writer(source, wanted)
        try:
            writer.carry_out(steps)
        except (Drifted, OSError, HoldfastError) as exc:
            self._take_back(source, writer)
            if isinstance(exc, Damaged) and not exc.paths:
                exc.paths = [to_text(key) for key in _find_damaged(source, steps)]
                exc.target = None if self._target is None else self._target.id
            raise self._told(exc, writer.at) from exc
        self.kept, self._written, self._done = writer.kept, writer.written, writer.done
        return writer

    def _told(self, exc: Drifted | OSError | HoldfastError, at: At) -> HoldfastError:
        if isinstance(exc, HoldfastError):
            return exc
        if isinstance(exc, Drifted):
            reason = "it changed while the restore was under way"
            return DriftFound([to_text(exc.key)], reason=reason)
        target = None if self._target is None else self._target.id
        return failed(exc, self._directory.path, at, target=target)

    def _prove(
        self,
        source: StagedObjects,
        steps: Sequence[Step],
        writer: Writer,
        goal: Root,
    ) -> Became | None:
        """Reads what was written, and says what the directory became if that is not the goal."""
        written = [step.key for step in steps if step.new is not None]
        proof = prove(
            self._directory,
            source,
            goal.plane(Plane.FILES),
            earlier=self._earlier or Rules(),
            touched=writer.touched,
            written=written,
            differed=[*(step.key for step in steps), *self.spared],
            progress=self.progress,
        )
        self.in_motion = frozenset(written) & proof.last.moving.keys()
        self.left_out = sorted(proof.hidden)
        # A folder in which all was spared is an empty one here, and was not in the goal.
        around = {folder for key in self.spared for folder in ancestors(key)}
        excused = {*self.kept, *self.spared, *around, *proof.twins}
        if not proof.differing <= excused:
            self.is_verified = False
            self.differing = sorted(proof.differing - excused)[:MOST_DIFFERING]
            # Somebody else was at it: the next look reads all, and misses nothing.
            files = goal.plane(Plane.FILES).hex()
            self._directory.forget_to(files, files)
            return None
        self._directory.last = proof.last
        self.uncovered = self.find_uncovered(self._directory.rules_there())
        if proof.last.root == goal.plane(Plane.FILES):
            return None
        return Became(goal.replacing(files=proof.last.root), proof.nodes, proof.more)

    def arrive(self) -> None:
        """Says that the catalog has moved to what the directory followed to."""
        if self._mark is not None:
            self._directory.last = self._directory.last.standing_at(self._mark)
        if self._start is not None:
            self._start = None
            with suppress(OSError):
                # It is done either way: at worst, the next one finds that out again.
                self._directory.journal.applied()

    def turn_back(self, source: StagedObjects) -> None:
        """Goes back to what the catalog still says, if it did not move."""
        if self._start is None:
            return
        start, self._start = self._start, None
        self._write_back(source, self._done, start, set(), written=self._written)

    def find_obstacles(self, steps: Sequence[Step], index: StatIndex | None = None) -> list[bytes]:
        """Returns what is in the way of these steps and in no snapshot.

        Whatever is not in the `index`: that of the last look, unless another is given.
        """
        found: dict[bytes, None] = {}
        leaving = frozenset(step.key for step in steps if step.old is not None)
        index = index or self._directory.last.index
        closed = {to_bytes(each.path) for each in self._directory.coverage.failed}
        with Descent(self._directory.root_fd) as descent:
            for step in steps:
                if step.new is None:
                    continue
                if step.key in closed and not isinstance(step.new, Folder):
                    # Nobody knows what is in it, or it holds.
                    found[step.key] = None
                elif step.old is None:
                    obstacle = _obstacle(descent, index, step, leaving)
                    if obstacle is not None:
                        found[obstacle] = None
        return list(found)

    def find_uncovered(self, rules: Rules) -> list[bytes]:
        """Returns what was excluded when the directory was last looked at, and is not by these."""
        found: list[bytes] = []
        with Descent(self._directory.root_fd) as descent:
            for omission in self._directory.coverage.excluded:
                key = to_bytes(omission.path)
                folder, _, name = key.rpartition(b"/")
                with suppress(OSError):
                    state = os.stat(name, dir_fd=descent.open(folder), follow_symlinks=False)
                    tried = key + b"/" if stat.S_ISDIR(state.st_mode) else key
                    if omission.reason == BY_RULES and not rules.excludes_within(tried):
                        found.append(key)
        return found

    def _can_read(self, key: bytes) -> bool:
        """Says whether a file or folder could be captured, as far as its permissions go."""
        folder, _, name = key.rpartition(b"/")
        with Descent(self._directory.root_fd) as descent:
            try:
                fd = descent.open(folder)
                is_folder = stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode)
                rights = os.R_OK | (os.X_OK if is_folder else 0)
                return os.access(name, rights, dir_fd=fd, effective_ids=True, follow_symlinks=False)
            except OSError as exc:
                return exc.errno != errno.EACCES

    def _choose(self, source: StagedObjects, steps: Iterator[Step], goal: ObjectId) -> list[Step]:
        """Returns the steps that are taken: what the goal knows nothing of is left alone.

        That is what could not be captured when it was taken, what its own rules left out, and
        vaults that lie in the directory.
        """
        self._vaults = None
        rules, chosen = Rules(MapGoal(source, goal).read(IGNORE_FILE)), list[Step]()
        spared: dict[bytes, str | None] = {}
        maps = self._directory.last.root, goal
        for step in steps:
            if self.is_spared(step.key, step.new, rules):
                sides = with_implied(source, step.key, (step.old, step.new), maps)
                spared[step.key] = find_word(*sides)
            else:
                chosen.append(step)
        self.spared = spared
        return chosen

    def is_spared(self, key: bytes, new: Entry | None, rules: Rules) -> bool:
        """Says whether a path is left alone: the goal, with its rules, knows nothing of it."""
        if any(key == path or key.startswith(path + b"/") for path in self._protected):
            return True
        # An old snapshot may hold a vault as files: the one that is there goes its own way.
        self._vaults = self._vaults or Vaults(self._directory.root_fd)
        if self._vaults.hold(key if isinstance(new, Folder) else above(key)) or is_pack(key):
            return True
        # One that could not be removed, and an earlier version took for somebody's.
        if is_litter(key.rpartition(b"/")[2]):
            return True
        return new is None and not self._is_exact and rules.excludes_within(key)

    def _begin(self, source: StagedObjects, move: Moving, wanted: ObjectId) -> None:
        self._litter = litter_of(move.mark)
        back = self._back or move.start or ""
        if self._target is not None:
            # The map that is wanted may be a new one, which nobody finds after a crash.
            wanted = source.get_root(self._target.root).plane(Plane.FILES)
        goal = wanted.hex() if self._goal is None else self._goal
        stood = self._directory.last.snapshot if self._stood is None else self._stood
        path, journal = self._directory.path, self._directory.journal
        with translated(f"the vault cannot be written to, and {path} is as it was"):
            journal.begin(litter=self._litter, back=back, mark=move.mark, goal=goal, stood=stood)

    def _writer(
        self,
        source: StagedObjects,
        goal: ObjectId,
        *,
        written: Mapping[bytes, State] | None = None,
    ) -> Writer:
        is_way_back = written is not None
        return Writer(
            self._directory.root_fd,
            self._directory.last.index,
            Retrieval(source),
            litter=(f"{self._litter}-back" if is_way_back else self._litter).encode(),
            goal=MapGoal(source, goal),
            # On the way back there is what was just written: the index does not know it.
            checks=not (self.gives_up or is_way_back),
            written=written,
            progress=lambda done, total: self.progress("writing", done, total),
        )

    def _take_back(self, source: StagedObjects, writer: Writer) -> None:
        """Undoes the steps that were done; what was there is in a snapshot."""
        start = self._directory.last.root
        self._write_back(source, writer.done, start, writer.touched, written=writer.written)

    def _write_back(
        self,
        source: StagedObjects,
        done: Sequence[Step],
        start: ObjectId,
        touched: set[bytes],
        *,
        written: Mapping[bytes, State],
    ) -> None:
        """Takes steps back; if that fails too, the journal stays for the next one."""
        steps = sorted((Step(s.key, s.new, s.old) for s in done), key=lambda step: step.key)
        undoing = self._writer(source, start, written=written)
        try:
            undoing.carry_out(steps)
            proof = prove(
                self._directory,
                source,
                start,
                earlier=self._earlier or Rules(),
                touched=touched | undoing.touched,
                written=[],
                progress=self.progress,
            )
            self._directory.journal.clear()
        except (Drifted, OSError) as exc:
            raise failed_on_the_way_back(exc, self._directory.path, undoing.at) from exc
        if proof.last.root == start:
            self._directory.last = proof.last
        else:
            self._directory.forget_index()


def list_steps(source: NodeSource, old: ObjectId, new: ObjectId) -> Iterator[Step]:
    """Yields what leads from one files map to another."""
    for edit in diff(source, old, new):
        yield Step(
            check_key(edit.key),
            None if edit.old is None else decode_entry(edit.old),
            None if edit.new is None else check_entry(decode_entry(edit.new)),
        )


def _obstacle(
    descent: Descent, index: StatIndex, step: Step, leaving: frozenset[bytes]
) -> bytes | None:
    """Returns what stands where a new entry shall be, and in no snapshot; None if nothing does.

    `leaving` are files that these steps take away.
    """
    folder, _, name = step.key.rpartition(b"/")
    try:
        state = os.stat(name, dir_fd=descent.open(folder), follow_symlinks=False)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None if descent.reached in leaving else descent.reached
    except PermissionError:
        return descent.reached or step.key
    is_folder = stat.S_ISDIR(state.st_mode)
    # A folder that is known goes, or stays, with the steps for what is in it.
    is_fine = is_folder and (isinstance(step.new, Folder) or index.find(step.key) is not None)
    return None if is_fine else step.key


def list_only_in_old(source: StagedObjects, steps: Sequence[Step]) -> list[ObjectId]:
    """Returns the content that steps take out of a directory and do not put back."""
    found: dict[ObjectId, None] = {}
    for step in steps:
        if isinstance(step.old, Blob):
            stays = set(list_refs(source, step.new) if isinstance(step.new, Blob) else ())
            found.update((ref, None) for ref in list_refs(source, step.old) if ref not in stays)
    return list(found)


def _find_damaged(source: StagedObjects, steps: Sequence[Step]) -> list[bytes]:
    """Returns the first files whose content cannot be had; their bytes are read for that."""
    found: list[bytes] = []
    for step in steps:
        if isinstance(step.new, Blob) and len(found) < MOST_DAMAGED:
            try:
                source.check_stored([*list_refs(source, step.new)])
            except Damaged:
                found.append(step.key)
    return found
