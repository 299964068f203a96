"""Kills whoever brings a namespace's files into its directory, at every system call.

After each death the directory is opened anew, by somebody who only looks. It must then be exactly
what it was to become: what was done through the namespace is in it, what was done in it is as it
was, and nothing is half-written. The namespace's head still shows what its callers wrote, and
after a snapshot both sides are one, with all that gave way on the timeline.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.engine.namespace import Namespace
from holdfast.engine.objects.reader import Objects
from holdfast.engine.workspace import Workspace
from holdfast.errors import Damaged, HoldfastError, Unavailable
from holdfast.ids import ObjectId
from holdfast.testing.faults import Fuse, Trouble, fuses
from holdfast.testing.places import Attached, Place, SqlitePlace, attached, touches_files
from holdfast.tree import Node
from holdfast.workspace import amending, journal, writing
from holdfast.workspace.steps import Step

Picture = dict[str, tuple[int, int, bytes]]
"""The files of a tree: mode, time and content."""


@pytest.fixture(autouse=True)
def small_files_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amending, "PATCH_BYTES", 128 << 10)


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


class Kept:
    """One file in a directory that is attached, and in a snapshot."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tree = folder, folder / "tree"
        self.tree.mkdir()
        self.vault = holdfast.open(folder / "vault")
        self.work = self.vault.workspace(self.tree, namespace="ns")
        self.namespace = self.work.namespace
        (self.tree / "k").write_bytes(b"before")
        self.work.snapshot("one")


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path)
    with made.vault:
        yield made


def failing(monkeypatch: pytest.MonkeyPatch, *calls: Callable[[], None] | None) -> None:
    """Does something before the first calls that write into a directory, one for each."""
    carry_out, left = writing.Writer.carry_out, list(calls)

    def played(writer: writing.Writer, steps: Sequence[Step]) -> None:
        before = left.pop(0) if left else None
        if before is not None:
            before()
        carry_out(writer, steps)

    monkeypatch.setattr(writing.Writer, "carry_out", played)


def broken(code: int = errno.ENOSPC) -> None:
    raise OSError(code, os.strerror(code))


def cut_short(file: int, data: bytes, at: int) -> None:
    """Writes some of it, and finds no room for the rest."""
    os.pwrite(file, data[:5], at)
    broken()


def test_who_saves_between_the_look_and_the_writing_is_not_written_over(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.namespace.files.write("k", b"by a call")
    kept.namespace.files.write("a", b"by a call")
    failing(monkeypatch, lambda: void((kept.tree / "k").write_bytes(b"by hand, just now")))
    agreed = kept.work.status().agreed
    assert agreed is not None
    assert agreed.gave_way == ["k"]
    assert (kept.tree / "k").read_bytes() == b"by hand, just now"
    assert (kept.tree / "a").read_bytes() == b"by a call"
    assert len(kept.namespace.timeline()) == 1


def test_what_is_edited_after_a_failure_is_not_written_over(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.namespace.files.write("k", b"by a call")
    with monkeypatch.context() as patch:
        failing(patch, broken, broken)
        agreed = kept.work.status().agreed
    assert agreed is not None
    assert agreed.failed is not None
    (kept.tree / "k").write_bytes(b"by hand, long after")
    agreed = kept.work.status().agreed
    assert agreed is not None
    assert agreed.gave_way == ["k"]
    assert (kept.tree / "k").read_bytes() == b"by hand, long after"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_who_goes_back_on_a_disk_that_takes_nothing_is_told_another_way(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    kept.namespace.files.write("k", b"by a call")
    failing(monkeypatch, *[lambda: broken(code)] * 3)
    with pytest.raises(HoldfastError) as caught:
        kept.work.restore("@")
    assert "restore the namespace itself" in caught.value.hint
    assert (kept.tree / "k").read_bytes() == b"before"


def test_what_was_half_written_is_taken_back_and_in_no_snapshot(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.namespace.files.write("f", b"long enough to be cut")
    kept.namespace.files.write("k", b"by a call, and longer than it was")
    with monkeypatch.context() as patch:
        for module in (amending, writing):
            patch.setattr(module, "write_at", cut_short)
        taken = kept.work.snapshot("two")
    assert "gave_way" not in taken.detail
    assert kept.namespace.files.read("f") == b"long enough to be cut"
    kept.work.status()
    assert (kept.tree / "f").read_bytes() == b"long enough to be cut"
    assert (kept.tree / "k").read_bytes() == b"by a call, and longer than it was"


def test_what_could_not_be_taken_back_is_in_no_snapshot_until_it_is_right(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.namespace.files.write("f", b"long enough to be cut")
    with monkeypatch.context() as patch:
        for module in (amending, writing):
            patch.setattr(module, "write_at", cut_short)
        failing(patch, None, broken)
        with pytest.raises(Unavailable, match="half in"):
            kept.work.snapshot("two")
        assert (kept.tree / "f").read_bytes() == b"long "
    kept.work.snapshot("three")
    assert kept.namespace.files.read("f") == b"long enough to be cut"
    assert (kept.tree / "f").read_bytes() == b"long enough to be cut"


class Died(BaseException):
    """Ends whoever is at it, as a kill does."""


def die() -> None:
    raise Died


def opened_again(kept: Kept) -> holdfast.Workspace:
    """Returns the directory in the hands of another process."""
    return holdfast.open(kept.folder / "vault").workspace(kept.tree)


def test_work_that_nobody_was_at_outlives_a_death_with_an_old_index(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.work.watch()  # So nothing of what it learns is saved until it ends.
    (kept.tree / "k").write_bytes(b"in a snapshot")
    kept.work.snapshot("two")
    (kept.tree / "k").write_bytes(b"mine, in none")
    kept.namespace.files.write("q", b"by a call")
    failing(monkeypatch, die)
    with pytest.raises(Died):
        kept.work.status()
    agreed = opened_again(kept).status().agreed
    assert agreed is not None
    assert len(agreed.brought) == 1
    assert (kept.tree / "q").read_bytes() == b"by a call"
    assert (kept.tree / "k").read_bytes() == b"mine, in none"


@pytest.mark.parametrize("boot", ["this", "another"])
def test_more_that_both_changed_than_the_journal_can_name_outlives_a_death(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, boot: str
) -> None:
    names = [f"f{number:03d}" for number in range(journal.MOST_MARKED + 20)]
    for name in names:
        (kept.tree / name).write_bytes(b"0")
    kept.work.snapshot("two")
    for name in names:
        (kept.tree / name).write_bytes(b"by hand")
    kept.namespace.files.write_many([(name, b"by a call") for name in names])
    kept.namespace.files.write("new", b"by a call")
    failing(monkeypatch, die)
    with pytest.raises(Died):
        kept.work.status()
    if boot == "another":
        monkeypatch.setattr(journal, "boot_id", lambda: "another boot")
    opened_again(kept).status()
    assert {(kept.tree / name).read_bytes() for name in names} == {b"by hand"}
    assert (kept.tree / "new").read_bytes() == b"by a call"


def test_what_calls_wrote_to_damaged_files_is_kept_before_the_directorys(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1500):
        (kept.tree / f"f{number:04d}").write_bytes(b"%d" % number)
    kept.work.snapshot("two")
    kept.namespace.files.write("zz", b"by a call, in no snapshot")
    get_nodes, asked = Objects.get_nodes, list[ObjectId]()

    def played(objects: Objects, ids: Sequence[ObjectId], /) -> list[Node]:
        if bad in ids:
            raise Damaged("a node is damaged")
        asked.extend(ids)
        return get_nodes(objects, ids)

    bad: ObjectId | None = None
    monkeypatch.setattr(Objects, "get_nodes", played)
    kept.namespace.files.read("f0000")
    bad, is_deep = asked[-1], len(asked) > 1
    assert is_deep
    (kept.tree / "f0000").write_bytes(b"by hand")
    # Who only looks has not agreed on what could not be read.
    with suppress(Damaged):
        kept.work.status()
    taken = kept.work.snapshot("three")
    assert taken.detail["gave_way_unread"]
    there = kept.namespace.at(taken.detail["gave_way_in"]).files
    assert there.read("zz") == b"by a call, in no snapshot"
    assert kept.namespace.files.read("f0000") == b"by hand"


def void(_: object) -> None:
    """Takes what a call returns."""
