"""Kills a durable store at every step, and opens it again.

A step is a system call that changes the log, or a moment around a commit of the catalog. What
was acknowledged is there; what was under way is there wholly or not at all. Twice: once the
process alone dies, and the kernel still writes what it was given; once the power goes, and the
log holds what had been synced and no more.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import ownfiles
from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.durable import keeping
from holdfast.durable import log as log_module
from holdfast.durable.keeping import Sync
from holdfast.durable.store import DurableStore, open_store
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.vault import Holdfast
from holdfast.model.basics import Kind
from holdfast.testing.faults import (
    Fuse,
    FusedCatalog,
    PowerCut,
    fuses,
)
from holdfast.testing.places import FusedOs, touches_files

pytestmark = pytest.mark.in_memory

LIMITS = Limits(inline_bytes=4096, free_floor_bytes=0)
Model = dict[tuple[str, str], Any]


class Disk(FusedOs):
    """Calls of a process that may die; and what of the log is on disk when the power goes."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__(fuse)
        self._synced: dict[int, bytes] = {}
        self._replaced: dict[str, bytes | None] = {}
        self.fdatasync, self.fsync = self._sync("fdatasync"), self._sync("fsync")

    def lose(self, path: Path) -> None:
        """Takes away what was written and not synced."""
        if str(path) in self._replaced:
            before = self._replaced[str(path)]
            path.unlink() if before is None else path.write_bytes(before)
        elif path.exists():
            path.write_bytes(self._synced.get(path.stat().st_ino, path.read_bytes()))

    def _sync(self, name: str) -> Callable[[int], None]:
        def call(fd: int) -> None:
            self._fuse.step(f"os.{name}")
            found = os.fstat(fd)
            if os.path.isdir(f"/proc/self/fd/{fd}"):
                self._replaced.clear()
            else:
                self._synced[found.st_ino] = os.pread(fd, found.st_size, 0)

        return call

    def rename(self, old: Path, new: Path) -> None:
        """Is on disk once the folder is synced."""
        self._fuse.step("os.rename")
        old_bytes = new.read_bytes() if new.exists() else None
        if old_bytes is not None:
            old_bytes = self._synced.get(new.stat().st_ino, old_bytes)
        self._replaced.setdefault(str(new), old_bytes)
        os.rename(old, new)


@contextmanager
def mortal(folder: Path, fuse: Fuse, *, sync: Sync, disk: Disk | None = None) -> Iterator[Any]:
    """Opens a store that dies with its fuse, and does for the dead what the kernel does."""
    catalog = SqliteCatalog(folder)
    context = Context.of(
        FusedCatalog(catalog, fuse), DiskBlobStore(folder / "packs"), limits=LIMITS
    )
    stores: list[DurableStore] = []

    def open_it() -> DurableStore:
        stores.append(DurableStore(Holdfast(context), folder, namespace="store", sync=sync))
        return stores[-1]

    with pytest.MonkeyPatch.context() as patch:
        for module in (log_module, ownfiles):
            patch.setattr(module, "os", disk or FusedOs(fuse))
        # So short that a log is exchanged after every few writes.
        patch.setattr(keeping, "STEP", 300)
        try:
            yield open_it
        finally:
            for store in stores:
                with suppress(PowerCut):
                    store._finalizer()
            catalog.close()


def content(store: Any) -> Model:
    return dict(store.items())


def log_of(folder: Path) -> Path:
    return next(folder.glob("store-*.log"), folder / "store-none.log")


class Story:
    """Does one thing after another to a store, and remembers what was acknowledged."""

    def __init__(self, model: Model) -> None:
        self.model = dict(model)
        self.allowed = [dict(model)]
        self.snapshots: dict[str, Model] = {}

    def run(self, store: DurableStore) -> None:
        self._do({("a", "x"): 1}, lambda: store.set("a", "x", 1))
        self._do({("a", f"m{i}"): i for i in range(5)}, lambda: self._set_many(store))
        first = self._snapshot(store)
        self._do({("a", "x"): "y" * 9000}, lambda: store.set("a", "x", "y" * 9000))
        self._do({("a", "m1"): None}, lambda: store.delete("a", "m1"))
        self._become(self.snapshots[first], lambda: store.restore(first))
        self._do({("b", "z"): [1]}, lambda: store.set("b", "z", [1]))
        self._become({}, store.clear)
        self._do({("b", "after"): True}, lambda: store.set("b", "after", True))
        self._snapshot(store)
        self._become(self.snapshots[first], lambda: store.restore(first))
        self._do({("b", "last"): 3}, lambda: store.set("b", "last", 3))
        self._become(self.model, store.close)

    def _set_many(self, store: DurableStore) -> None:
        store.set_many([("a", f"m{i}", i) for i in range(5)])

    def _snapshot(self, store: DurableStore) -> str:
        holds = dict(self.model)
        self.allowed = [holds]
        taken = store.snapshot()
        self.snapshots[taken.id] = holds
        return taken.id

    def _do(self, changes: Model, act: Callable[[], object]) -> None:
        after = {**self.model, **changes}
        self._become({key: value for key, value in after.items() if value is not None}, act)

    def _become(self, after: Model, act: Callable[[], object]) -> None:
        self.allowed = [self.model, dict(after)]
        act()
        self.model = dict(after)
        self.allowed = [self.model]


def check(folder: Path, story: Story, at: object) -> None:
    for _ in range(2):
        with open_store(folder) as store:
            found = content(store)
            assert found in story.allowed, at
            for snapshot_id, holds in story.snapshots.items():
                assert content(store.at(snapshot_id)) == holds, at
            store.set("again", "works", found.get(("again", "works"), 0))
            story.allowed = [content(store)]
    with holdfast.open(folder) as vault:
        assert vault.verify().faults == [], at
        assert dict(vault.namespace("store").store.items()) in story.allowed, at


@pytest.mark.parametrize("sync", ["full", "normal"])
def test_a_store_that_dies_at_any_step_has_what_it_acknowledged(tmp_path: Path, sync: Sync) -> None:
    died = set[str]()
    for fuse in fuses(counts=touches_files):
        folder = tmp_path / f"after-{fuse.steps}"
        folder.mkdir()
        story = Story({})
        with fuse, mortal(folder, fuse, sync=sync) as open_it:
            story.run(open_it())
        check(folder, story, fuse)
        died.add(fuse.died_at or "")
        shutil.rmtree(folder)
    assert died >= {"os.pwrite", "os.pwrite torn", "os.rename", "os.fsync", "commit", ""}


def test_when_the_power_goes_at_any_step_what_was_synced_is_there(tmp_path: Path) -> None:
    for fuse in fuses(counts=touches_files):
        folder = tmp_path / f"after-{fuse.steps}"
        folder.mkdir()
        story, disk = Story({}), Disk(fuse)
        with fuse, mortal(folder, fuse, sync="full", disk=disk) as open_it:
            story.run(open_it())
        if fuse.blown:
            disk.lose(log_of(folder))
        check(folder, story, fuse)
        shutil.rmtree(folder)


def test_without_syncing_a_power_cut_takes_the_last_moments_and_nothing_else(
    tmp_path: Path,
) -> None:
    with mortal(tmp_path, fuse := Fuse(10_000), sync="normal", disk=(disk := Disk(fuse))) as (
        open_it
    ):
        store = open_it()
        store.set("a", "flushed", 1)
        store.snapshot()
        store.set("a", "in the kernel alone", 2)
    disk.lose(log_of(tmp_path))
    with open_store(tmp_path) as again:
        assert content(again) == {("a", "flushed"): 1}
        again.set("a", "next", 3)
    with open_store(tmp_path) as again:
        assert content(again) == {("a", "flushed"): 1, ("a", "next"): 3}


def dead_with_a_log(folder: Path) -> Model:
    """Leaves a vault whose log holds more than its catalog, and others who were there since."""
    with mortal(folder, Fuse(10_000), sync="full") as open_it:
        store = open_it()
        store.set_many([("a", f"k{i}", i) for i in range(5)])
        store.snapshot()
        store.set("a", "k1", "of the log")
        store.set_many([("log", f"k{i}", "z" * 5000) for i in range(3)])
        store.delete("a", "k2")
    with holdfast.open(folder) as vault:
        others = vault.namespace("store").store
        others.set("a", "k1", "of others")
        others.set("others", "k", 1)
        others.delete("a", "k4")
    log = {("log", f"k{i}"): "z" * 5000 for i in range(3)}
    return {("a", "k0"): 0, ("a", "k1"): "of the log", ("a", "k3"): 3, ("others", "k"): 1} | log


def test_dying_at_any_step_of_recovering_loses_nothing_of_anybody(tmp_path: Path) -> None:
    expected = dead_with_a_log(tmp_path / "dead")
    for fuse in fuses(counts=touches_files):
        folder = tmp_path / f"after-{fuse.steps}"
        shutil.copytree(tmp_path / "dead", folder)
        disk = Disk(fuse)
        with fuse, mortal(folder, fuse, sync="full", disk=disk) as open_it:
            open_it()
        if fuse.blown:
            disk.lose(log_of(folder))
        with open_store(folder) as store:
            assert content(store) == expected, fuse
            history = [dict(each.items()) for each in store.history()]
            theirs = [held for held in history if held.get(("a", "k1")) == "of others"]
            assert [held[("others", "k")] for held in theirs] == [1], fuse
        with holdfast.open(folder) as vault:
            assert vault.verify().faults == [], fuse
        shutil.rmtree(folder)


def test_what_was_flushed_is_not_done_again_after_somebody_elses_restore(tmp_path: Path) -> None:
    """Dies between the flush and the mark that says so; then somebody brings the past back."""
    for fuse in fuses(counts=touches_files):
        folder = tmp_path / f"after-{fuse.steps}"
        with open_store(folder) as store:
            store.set("a", "x", "old")
            old = store.snapshot().id
        with fuse, mortal(folder, fuse, sync="full") as open_it:
            store = open_it()
            store.set("a", "x", "new")
            store.snapshot()
        with holdfast.open(folder) as vault:
            was_flushed = vault.namespace("store").store.get("a", "x") == "new"
            vault.namespace("store").restore(old)
        with open_store(folder) as store:
            found = store.get("a", "x")
            assert found == "old" if was_flushed else found in ("old", "new"), fuse
        shutil.rmtree(folder)


def test_an_ordinary_crash_leaves_no_snapshot_behind(tmp_path: Path) -> None:
    with mortal(tmp_path, Fuse(10_000), sync="full") as open_it:
        store = open_it()
        store.set("a", "x", 1)
        store.snapshot()
        store.set("a", "x", 2)
        store.namespace.snapshot()
        store.set("a", "x", 3)
        store.restore(store.history()[0])
        store.set("a", "x", 4)
    with open_store(tmp_path) as store:
        assert store.get("a", "x") == 4
        kinds = [snapshot.kind for snapshot in store.history()]
        assert Kind.SNAPSHOT not in kinds[3:]
