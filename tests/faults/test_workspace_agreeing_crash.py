"""Kills whoever brings a namespace's files into its directory, at every system call.

After each death the directory is opened anew, by somebody who only looks. It must then be exactly
what it was to become: what was done through the namespace is in it, what was done in it is as it
was, and nothing is half-written. The namespace's head still shows what its callers wrote, and
after a snapshot both sides are one, with all that gave way on the timeline.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from holdfast.engine.namespace import Namespace
from holdfast.engine.workspace import Workspace
from holdfast.errors import HoldfastError
from holdfast.testing.faults import Fuse, Trouble, fuses
from holdfast.testing.places import Attached, Place, SqlitePlace, attached, touches_files
from holdfast.workspace import journal, writing

Picture = dict[str, tuple[int, int, bytes]]
"""The files of a tree: mode, time and content."""


@pytest.fixture(autouse=True)
def small_files_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "PATCH_BYTES", 128 << 10)


def noise(size: int, seed: int) -> bytes:
    return Random(seed).randbytes(size)


def picture(tree: Path) -> Picture:
    found: Picture = {}
    for path in tree.rglob("*"):
        if path.is_file():
            state = path.stat()
            found[str(path.relative_to(tree))] = (
                state.st_mode,
                state.st_mtime_ns,
                path.read_bytes(),
            )
    return found


def build(it: Attached) -> None:
    """Makes both sides agree, and then each do something of its own."""
    large = bytearray(noise(300_000, 1))
    for name, data in {
        "both.txt": b"as it was",
        "large.bin": bytes(large),
        "medium.bin": noise(9_000, 2),
        "small.txt": b"small",
        "gone/by-call": b"goes",
        "gone/by-hand": b"goes, too",
        "run.sh": b"#!/bin/sh\n",
        **{f"stays/{number}": b"%d" % number for number in range(12)},
    }.items():
        path = it.tree / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    (it.tree / "run.sh").chmod(0o755)
    it.work.snapshot("one")
    large[150_000:150_010] = b"0123456789"
    files = it.vault.namespace("tree").files
    files.write("large.bin", bytes(large))
    files.write("medium.bin", noise(9_000, 3))
    files.write("small.txt", b"other")
    files.write("run.sh", b"#!/bin/sh\necho\n")
    files.write("new/made.txt", b"new")
    files.write("both.txt", b"by a call")
    files.delete("gone/by-call")
    (it.tree / "both.txt").write_bytes(b"by hand")
    (it.tree / "mine.txt").write_bytes(noise(5_000, 4))
    (it.tree / "gone/by-hand").unlink()


@dataclass(frozen=True)
class Scenario:
    """Who takes hold of the directory, and at which calls they die."""

    act: Callable[[Workspace], object]
    every: int = 1


SCENARIOS = {
    "look": Scenario(lambda work: work.status()),
    "snapshot": Scenario(lambda work: work.snapshot("two"), every=2),
    "undo": Scenario(lambda work: work.restore("@"), every=5),
}


def saved(place: Place) -> Picture:
    """Saves both sides as they are before, and returns what the directory is to become."""
    with attached(place, seed=1) as it:
        build(it)
    place.save()
    with attached(place, seed=2) as it:
        it.work.status()
        return picture(it.tree)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_death_at_any_call_leaves_both_sides_whole(place: SqlitePlace, name: str) -> None:
    scenario = SCENARIOS[name]
    wanted, deaths = saved(place), 0
    assert wanted["small.txt"][2] == b"other"
    assert wanted["both.txt"][2] == b"by hand"
    for fuse in fuses(counts=touches_files):
        if fuse.steps % scenario.every:
            fuse.died_at = "not played"
            continue
        place.reset()
        with fuse, attached(place, fuse=fuse, seed=3) as it:
            scenario.act(it.work)
        deaths += fuse.blown
        if fuse.blown or name != "undo":
            check(place, wanted, fuse, is_back=name == "undo")
    assert deaths > 25 // scenario.every


def check(place: Place, wanted: Picture, fuse: Fuse, *, is_back: bool = False) -> None:
    """Opens what the dead have left, as somebody who looks, and then takes a snapshot."""
    with attached(place, seed=4) as it:
        status = it.work.status()
        assert status.agreed is None or status.agreed.failed is None, fuse
        found = picture(it.tree)
        differing = {k for k in {*found, *wanted} if found.get(k) != wanted.get(k)}
        # The restore itself may have happened: it brings what the snapshot had back.
        assert not differing or is_back, (fuse, differing)
        assert not [name for name in found if ".holdfast-" in name], fuse
        namespace = it.vault.namespace("tree")
        it.work.snapshot("after")
        held = {each.path for each in namespace.files.list("", recursive=True)}
        files = {path: namespace.files.read(path) for path in picture(it.tree)}
        assert files == {path: seen[2] for path, seen in picture(it.tree).items()}, fuse
        assert {path for path in held if (it.tree / path).is_file()} == {*files}, fuse
        for path, data in {"both.txt": b"by a call", "small.txt": b"other"}.items():
            assert is_kept(namespace, path, data), (fuse, path)
        for path, data in {"both.txt": b"by hand", "mine.txt": noise(5_000, 4)}.items():
            assert is_kept(namespace, path, data), (fuse, path)
        assert it.vault.verify().faults == [], fuse


def is_kept(namespace: Namespace, path: str, data: bytes) -> bool:
    """Says whether a snapshot on the timeline has a file with this content."""
    for snapshot in namespace.timeline():
        files = namespace.at(snapshot).files
        if files.exists(path) and files.read(path) == data:
            return True
    return False


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_an_error_of_the_disk_is_told_and_done_again(place: SqlitePlace, code: int) -> None:
    wanted = saved(place)
    for steps in range(0, 60, 4):
        place.reset()
        trouble = Trouble(steps, code, counts=lambda name: name.startswith("os."))
        with attached(place, fuse=trouble, seed=3) as it, suppress(HoldfastError):
            it.work.status()
        check(place, wanted, trouble)


def test_what_a_power_cut_took_of_it_is_brought_again(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = saved(place)
    place.reset()
    with attached(place, seed=3) as it:
        before = picture(it.tree)
        it.work.status()
        assert picture(it.tree) == wanted
        # One file is as it was, of one the bytes never came, and somebody went on with a third.
        (it.tree / "small.txt").write_bytes(before["small.txt"][2])
        os.utime(it.tree / "small.txt", ns=(before["small.txt"][1], before["small.txt"][1]))
        (it.tree / "medium.bin").write_bytes(bytes(9_000))
        os.utime(it.tree / "medium.bin", ns=(wanted["medium.bin"][1], wanted["medium.bin"][1]))
    monkeypatch.setattr(journal, "boot_id", lambda: "another boot")
    with attached(place, seed=4) as it:
        it.work.status()
        assert picture(it.tree) == wanted
        told = [each.detail.get("gave_way") for each in it.work.namespace.timeline()]
        assert ["both.txt"] in told
