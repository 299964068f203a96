"""A snapshot that lacks something, and all that comes from it: each says so, for ever."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

import holdfast
from holdfast.engine.coverage import lacking_in
from holdfast.engine.limits import Limits
from holdfast.engine.workspace import Workspace
from holdfast.model import SnapshotInfo


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


def test_what_is_imported_of_a_partial_archive_is_partial(place: Place) -> None:
    archive = place.folder / "partial.tar"
    place.workspace.namespace.export(archive, snapshot=place.partial)
    brought = place.vault.namespace("other")
    assert brought.import_(archive).snapshot.is_partial
    assert brought.get_snapshot("latest").is_partial
