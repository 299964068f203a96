"""A snapshot that lacks something, and all that comes from it: each says so, for ever."""

import io
import json
import os
import tarfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

import holdfast
from holdfast.engine.archives.manifest import named
from holdfast.engine.core.coverage import lacking_in
from holdfast.engine.core.limits import Limits
from holdfast.engine.workspace import Workspace
from holdfast.errors import UnsafeArchive
from holdfast.model.basics import SnapshotInfo


class Place:
    """A directory with a file that is over its budget, and a vault."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.folder = folder / "tree", folder
        self.tree.mkdir()
        self.vault = holdfast.open(folder / "vault", limits=Limits(file_bytes=1000))
        self.workspace: Workspace = self.vault.workspace(self.tree, namespace="ns")
        self.put("huge", "h" * 2000)
        self.put("a.txt", "one")
        self.partial = self.workspace.snapshot("partial")
        assert self.partial.is_partial
        self.put("a.txt", "two")
        self.workspace.snapshot("later")

    def put(self, name: str, text: str) -> None:
        (self.tree / name).write_text(text)

    def newest(self) -> SnapshotInfo:
        return self.workspace.namespace.get_snapshot("latest")


@pytest.fixture
def place(tmp_path: Path) -> Generator[Place]:
    made = Place(tmp_path)
    with made.vault:
        yield made


def restored(place: Place) -> None:
    place.workspace.restore(place.partial)


def restored_in_part(place: Place) -> None:
    place.workspace.restore(place.partial, paths=["a.txt"])


def undone(place: Place) -> None:
    place.workspace.undo()


def redone(place: Place) -> None:
    place.workspace.undo()
    place.workspace.redo()


def reverted(place: Place) -> None:
    operation = place.newest()
    place.put("b.txt", "since")
    place.workspace.snapshot()
    place.workspace.undo(operation)


def taken_back(place: Place) -> None:
    with place.workspace.task("edits") as run:
        place.put("a.txt", "task")
    place.workspace.undo(task=run.id)


def taken_of_the_head(place: Place) -> None:
    place.workspace.namespace.snapshot("the other planes")


def kept_for_safety(place: Place) -> None:
    place.workspace.namespace.files.write("new", b"pending")
    place.workspace.namespace.restore(place.partial)
    place.workspace.namespace.undo()


WAYS = [
    restored,
    restored_in_part,
    undone,
    redone,
    reverted,
    taken_back,
    taken_of_the_head,
    kept_for_safety,
]


@pytest.mark.parametrize("way", WAYS)
def test_what_comes_from_a_partial_snapshot_is_partial_and_leaves_alone_what_it_lacks(
    place: Place, way: Callable[[Place], None]
) -> None:
    way(place)
    made = place.newest()
    assert made.is_partial
    assert list(lacking_in(made).uncaptured) == ["huge"]
    # It can be captured now, and is none of what that snapshot knows.
    place.put("huge", "small")
    place.put("a.txt", "three")
    place.workspace.snapshot("whole")
    for _ in range(2):
        done = place.workspace.restore(made)
        assert list(done.uncaptured) == ["huge"]
        assert (place.tree / "huge").read_text() == "small"


def reverting(place: Place) -> holdfast.Restored:
    return place.workspace.undo(place.workspace.namespace.timeline()[0])


def taking_back(place: Place) -> holdfast.Restored:
    return place.workspace.undo(task=place.workspace.namespace.timeline()[0].task_id)


def keeping_mine(place: Place) -> holdfast.Restored:
    return place.workspace.restore(place.workspace.namespace.timeline()[1], keep="mine")


@pytest.mark.parametrize("way", [reverting, taking_back, keeping_mine])
def test_what_could_not_be_captured_before_a_task_is_left_alone_when_it_is_taken_back(
    place: Place, way: Callable[[Place], holdfast.Restored]
) -> None:
    with place.workspace.task("makes it small"):
        place.put("huge", "small")
        place.put("a.txt", "task")
    done = way(place)
    assert (place.tree / "a.txt").read_text() == "two"
    assert list(done.uncaptured) == ["huge"]
    assert (place.tree / "huge").read_text() == "small"


def test_every_snapshot_on_the_way_of_a_safe_restore_is_partial(place: Place) -> None:
    kept_for_safety(place)
    assert all(each.is_partial for each in place.workspace.namespace.timeline())


def test_a_file_that_was_captured_since_is_in_what_comes_from_a_partial_snapshot(
    place: Place,
) -> None:
    place.put("huge", "small")
    place.workspace.restore(place.partial)
    made = place.newest()
    assert not made.is_partial
    place.put("huge", "smaller")
    done = place.workspace.restore(made)
    assert list(done.uncaptured) == []
    assert (place.tree / "huge").read_text() == "small"


def test_a_fork_and_a_merge_of_what_is_partial_are_partial(place: Place) -> None:
    here = place.workspace.namespace
    for name, at in (("now", None), ("then", place.partial)):
        fork = here.fork(name, at=at)
        first = fork.get_snapshot("latest")
        assert first.is_partial
        assert list(lacking_in(first).uncaptured) == ["huge"]
        fork.files.write("more", name.encode())
    assert here.merge(place.vault.namespace("now")).snapshot.is_partial


def test_what_is_imported_of_a_partial_archive_is_partial_and_says_what_it_lacks(
    place: Place,
) -> None:
    place.workspace.restore(place.partial)
    for number, snapshot in enumerate((place.partial, place.newest(), None)):
        archive = place.folder / f"{number}.tar"
        place.workspace.namespace.export(archive, snapshot=snapshot)
        brought = place.vault.namespace(f"other {number}")
        assert brought.import_(archive).snapshot.is_partial
        brought.files.write("more", b"since")
        for made in (brought.get_snapshot("latest"), brought.snapshot("derived")):
            assert made.is_partial
            assert list(lacking_in(made).uncaptured) == ["huge"]
        done = brought.restore("@")
        assert (done.is_partial, list(done.uncaptured)) == (True, ["huge"])


def rewritten(archive: Path, change: Callable[[dict[str, object]], object]) -> Path:
    """Returns the same archive with another manifest."""
    result = archive.with_suffix(".changed.tar")
    with tarfile.open(archive) as old, tarfile.open(result, "w", format=tarfile.PAX_FORMAT) as new:
        for member in old:
            data = old.extractfile(member).read() if member.isfile() else b""  # type: ignore[union-attr] - a file has content
            if member.name == "holdfast.json":
                manifest = json.loads(data)
                change(manifest)
                data = json.dumps(manifest).encode()
            member.size = len(data)
            new.addfile(member, io.BytesIO(data))
    return result


def exported(place: Place) -> Path:
    os.utime(place.tree / "a.txt", (1, 1))
    archive = place.folder / "whole.tar"
    place.workspace.namespace.export(archive, snapshot=place.workspace.snapshot("to export"))
    return archive


def test_an_archive_that_does_not_name_what_it_lacks_is_partial_all_the_same(place: Place) -> None:
    archive = rewritten(exported(place), lambda manifest: manifest.pop("uncaptured_paths"))
    brought = place.vault.namespace("other")
    brought.import_(archive)
    for _ in range(2):
        done = brought.restore(brought.get_snapshot("latest"))
        assert (done.is_partial, list(done.uncaptured), done.verified) == (True, [], True)
        assert done.snapshot is not None
        assert done.snapshot.is_partial
    again = place.folder / "again.tar"
    brought.export(again)
    assert place.vault.namespace("third").import_(again).snapshot.is_partial


HOSTILE: list[object] = [
    [["a\0b"]],
    [["a", "zz"]],
    [["a", "61", "62"]],
    [[]],
    ["a"],
    [[1]],
    [["x" * 20_000]],
    [["a"]] * 10_001,
    {"a": 1},
]


@pytest.mark.parametrize("names", HOSTILE)
def test_names_of_what_is_lacking_that_are_none_are_refused(place: Place, names: object) -> None:
    archive = rewritten(
        exported(place), lambda manifest: manifest.__setitem__("uncaptured_paths", names)
    )
    with pytest.raises(UnsafeArchive):
        place.vault.namespace("other").import_(archive)


def test_a_name_that_is_not_utf_8_is_carried_as_it_is(place: Place) -> None:
    (place.tree / os.fsdecode(b"h\xff")).write_text("h" * 2000)
    brought = place.vault.namespace("other")
    brought.import_(exported(place))
    lacking = lacking_in(brought.get_snapshot("latest"))
    assert list(lacking.uncaptured) == ["huge", os.fsdecode(b"h\xff")]


def test_so_many_names_that_no_manifest_holds_them_are_counted() -> None:
    assert named(["x" * 4000] * 300) == []
    assert named([str(number) for number in range(10_001)]) == []
    assert named(["\1" * 100] * 2000) == [], "written as JSON they are six times as long"
    assert named(["a", "b"]) == [["a"], ["b"]]
