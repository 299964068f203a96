"""One set of files under two hands: a program in the directory, and callers of the namespace.

Against a model that says, path by path, who changed what since both last agreed: what one hand
alone did is on both sides after a look; where both were at the same path, one wins by rule, and the
other's is on the timeline and named. And as a law, whatever is in whose way: what is on either side
when a snapshot is taken is in it, or on the timeline.
"""

import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import holdfast
from holdfast.errors import HoldfastError

APART = ["a", "b", "d/a", "d/b", "d/e/a", "f/a"]
"""Paths of which none is in another's way."""
NESTED = [*APART, "a/b", "d", "d/e", "f/a/b"]

Files = dict[str, bytes]


def look(root: Path) -> Files:
    """Returns the files of a directory."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


class Hands(RuleBasedStateMachine):
    """A directory and its namespace, and what each hand does."""

    paths = APART

    def __init__(self) -> None:
        super().__init__()
        roomy = "/dev/shm" if shutil.disk_usage("/dev/shm").free > 1 << 30 else None
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-property-", dir=roomy))
        self.tree = self.folder / "tree"
        self.tree.mkdir()
        self.vault = holdfast.open(self.folder / "vault")
        self.namespace = self.vault.namespace("tree")
        self.workspace, self.beside = self.take_hold(), self.take_hold()
        self.count = 0

    def teardown(self) -> None:
        for held in (self.workspace, self.beside):
            held.close()
        self.vault.close()
        shutil.rmtree(self.folder)

    def fresh(self) -> bytes:
        """Returns a content that nobody has written yet, of a length that others have."""
        self.count += 1
        return b"%03d" % self.count * (1 if self.count % 3 else 200)

    def theirs(self) -> Files:
        """Returns the namespace's files."""
        files = self.namespace.files
        found = files.list("", recursive=True)
        return {each.path: files.read(each.path) for each in found if each.kind == "file"}

    def write_here(self, path: str, data: bytes) -> bool:
        """Writes a file as a program does, which makes no room for it."""
        place = self.tree / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        except OSError:
            return False
        return True

    def take_hold(self) -> holdfast.Workspace:
        """Takes hold of the directory as another process does."""
        return self.vault.workspace(self.tree, namespace="tree")

    @rule(is_killed=st.booleans())
    def ends(self, *, is_killed: bool) -> None:
        """Ends the process that has the directory, by which it keeps what it knows or does not."""
        if is_killed:
            self.workspace._directory.forget()  # pyright: ignore[reportPrivateUsage]
        else:
            self.workspace.close()
        self.workspace = self.take_hold()

    @rule()
    def another_process(self) -> None:
        """Goes on with another process, while the one that worked stays."""
        self.workspace, self.beside = self.beside, self.workspace


class Modelled(Hands):
    """What each side has to be, path by path."""

    def __init__(self) -> None:
        super().__init__()
        self.held: Files = {}
        self.head: Files = {}
        self.base: Files = {}
        self.agreed: Files = {}
        self.lost: dict[str, bytes] = {}

    @initialize(there=st.sets(st.sampled_from(APART)), before=st.sets(st.sampled_from(APART)))
    def begin(self, there: set[str], before: set[str]) -> None:
        """Begins with files on both sides, of which nothing was agreed on."""
        for path in sorted(there):
            self.write(path)
        for path in sorted(before):
            self.call(path)
        if sys.platform == "linux":
            self.watch()

    @rule(path=st.sampled_from(APART))
    def write(self, path: str) -> None:
        data = self.fresh()
        assert self.write_here(path, data)
        self.held[path] = data

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.held)))
        (self.tree / path).unlink()
        del self.held[path]

    @rule(path=st.sampled_from(APART))
    def call(self, path: str) -> None:
        data = self.fresh()
        self.namespace.files.write(path, data)
        self.head[path] = data

    @precondition(lambda self: self.head)
    @rule(data=st.data())
    def call_to_remove(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.head)))
        self.namespace.files.delete(path)
        del self.head[path]

    @rule()
    def snapshot_of_namespace(self) -> None:
        self.namespace.snapshot()

    @rule(back=st.integers(0, 5))
    def restore_namespace(self, back: int) -> None:
        timeline = self.namespace.timeline()
        if timeline:
            self.namespace.restore(timeline[min(back, len(timeline) - 1)])
            self.head = self.theirs()

    def meet(self) -> None:
        """Says what becomes of both sides when somebody looks: each time the other process."""
        self.another_process()
        for path in {*self.head, *self.agreed}:
            new = self.head.get(path)
            if new == self.agreed.get(path):
                continue
            is_mine = self.held.get(path) != self.base.get(path)
            if not is_mine or path not in self.held:
                _put(self.held, path, new)
                _put(self.base, path, new)
            elif new is not None and new != self.held[path]:
                self.lost[path] = new
        self.agreed = dict(self.head)

    @precondition(lambda _self: sys.platform == "linux")
    @rule()
    def watch(self) -> None:
        """Lets the process that works stay: what it learns it may save when it ends."""
        self.meet()
        self.workspace.watch()

    @rule()
    def status(self) -> None:
        self.meet()
        status = self.workspace.status()
        assert status.agreed is None or status.agreed.failed is None
        assert look(self.tree) == self.held
        assert self.theirs() == self.head

    @rule()
    def agree(self) -> None:
        self.meet()
        self.workspace.agree()
        assert look(self.tree) == self.held

    @rule(may_be_skipped=st.booleans())
    def snapshot(self, *, may_be_skipped: bool) -> None:
        self.meet()
        before = self.theirs()
        if may_be_skipped:
            taken = self.workspace.snapshot_if_changed()
        else:
            taken = self.workspace.snapshot()
        assert look(self.tree) == self.theirs() == self.held
        told = {} if taken is None else taken.detail
        gone = {path for path in before if before[path] != self.held.get(path)}
        left = {path for path in gone if before[path] != self.base.get(path)}
        assert {*told.get("gave_way", ())} == left
        if left:
            kept = self.namespace.at(told["gave_way_in"]).files
            assert {path: kept.read(path) for path in left} == {p: before[p] for p in left}
        self.base, self.agreed = dict(self.held), dict(self.held)
        self.head, self.lost = dict(self.held), {}

    @precondition(lambda self: len(self.namespace.timeline()) > 1)
    @rule()
    def undo(self) -> None:
        self.meet()  # Also where there is nothing to undo.
        with suppress(holdfast.errors.NothingToUndo):
            self.workspace.undo()
            self.held = look(self.tree)
            assert self.theirs() == self.held
            self.head, self.base, self.agreed = ({**self.held} for _ in range(3))

    @invariant()
    def nobody_writes_unasked(self) -> None:
        assert look(self.tree) == self.held


def _put(files: Files, path: str, data: bytes | None) -> None:
    if data is None:
        files.pop(path, None)
    else:
        files[path] = data


class Lawful(Hands):
    """Whatever stands in whose way, and whatever is forgotten: nothing is lost unseen."""

    def __init__(self) -> None:
        super().__init__()
        self.mine: set[bytes] = set()
        """What was written in the directory: all else in it, the namespace's callers replace."""

    @initialize(there=st.sets(st.sampled_from(NESTED)), before=st.sets(st.sampled_from(NESTED)))
    def begin(self, there: set[str], before: set[str]) -> None:
        for path in sorted(there):
            self.write(path)
        for path in sorted(before):
            self.call(path)

    @rule(path=st.sampled_from(NESTED))
    def write(self, path: str) -> None:
        data = self.fresh()
        self.write_here(path, data)
        self.mine.add(data)

    @rule(path=st.sampled_from(NESTED))
    def remove(self, path: str) -> None:
        place = self.tree / path
        with suppress(OSError):
            shutil.rmtree(place) if place.is_dir() else place.unlink()

    @rule(path=st.sampled_from(NESTED), other=st.sampled_from(NESTED))
    def link(self, path: str, other: str) -> None:
        place = self.tree / other
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            os.link(self.tree / path, place)

    @rule(path=st.sampled_from(NESTED))
    def call(self, path: str) -> None:
        with suppress(HoldfastError):
            self.namespace.files.write(path, self.fresh())

    @rule(path=st.sampled_from(NESTED))
    def call_to_remove(self, path: str) -> None:
        with suppress(HoldfastError):
            self.namespace.files.delete(path, recursive=True)

    @rule()
    def snapshot_of_namespace(self) -> None:
        self.namespace.snapshot()

    @rule(is_exclusive=st.booleans())
    def leave_out(self, *, is_exclusive: bool) -> None:
        (self.tree / ".holdfastignore").write_text("/d/e\n" if is_exclusive else "")

    @rule()
    def forget_what_is_known(self) -> None:
        self.vault.verify()
        self.vault.collect()

    @rule()
    def status(self) -> None:
        here, there = look(self.tree), self.theirs()
        self.workspace.status()
        assert self.theirs() == there
        self.account_for(here, there)

    @rule()
    def snapshot(self) -> None:
        here, there = look(self.tree), self.theirs()
        taken = self.workspace.snapshot()
        self.account_for(here, there)
        shown, now = self.theirs(), look(self.tree)
        told = {*taken.detail.get("gave_way", ())}
        if (self.tree / ".holdfastignore").exists():
            told |= {path for path in there if path.startswith("d/e")}
        silent = {path for path in there if path not in shown and path in now} - told
        assert not silent, "what is in the directory and was in the namespace is in its snapshot"
        assert not self.workspace.status().changes

    def account_for(self, here: Files, there: Files) -> None:
        """Looks for what was on either side before a look: on a side, or on the timeline."""
        kept = {*look(self.tree).values(), *self.theirs().values()}
        wanted = ({*here.values()} & self.mine | {*there.values()}) - kept
        for snapshot in self.namespace.timeline():
            if wanted:
                files = self.namespace.at(snapshot).files
                found = files.list("", recursive=True)
                wanted -= {files.read(each.path) for each in found if each.kind == "file"}
        assert not wanted


SETTINGS = settings(
    max_examples=settings().max_examples,
    stateful_step_count=20,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_both_hands_find_what_the_other_did() -> None:
    run_state_machine_as_test(Modelled, settings=SETTINGS)


def test_nothing_vanishes_in_silence() -> None:
    run_state_machine_as_test(Lawful, settings=SETTINGS)


@pytest.mark.skipif(sys.platform != "linux", reason="needs inotify")
@pytest.mark.parametrize("is_killed", [False, True])
def test_what_one_process_captured_is_nobodys_write_to_another(*, is_killed: bool) -> None:
    """One walk through the model that chance seldom takes: nobody calls, and two processes look."""
    hands = Modelled()
    try:
        hands.begin({"a", "d/a"}, set())
        hands.snapshot(may_be_skipped=False)
        for path in ("b", "d/b"):
            hands.write(path)
        hands.snapshot(may_be_skipped=False)
        if is_killed:
            hands.ends(is_killed=True)
        for path in ("b", "d/b"):
            (hands.tree / path).unlink()
            del hands.held[path]
        hands.status()
        hands.snapshot(may_be_skipped=True)
    finally:
        hands.teardown()
