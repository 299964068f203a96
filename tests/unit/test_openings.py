"""What is in question in a watched directory: whoever could write to a file is never forgotten."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.workspace import openings, resting
from holdfast.workspace.ignoring import Rules
from holdfast.workspace.openings import Asked, Openings
from holdfast.workspace.resting import Rest, Resting
from holdfast.workspace.scan import Scanner
from holdfast.workspace.statindex import Folder, Row, StatIndex
from holdfast.workspace.watching import Watcher

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs inotify and leases")


class Place:
    """A directory, what is known of it, and who hears what is opened there."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        for name in ("f", "g", "deep/f", "deep/g"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes(b"0" * 5000)
        self.root_fd = os.open(tree, os.O_RDONLY)
        scan = Scanner(self.root_fd, StatIndex.empty(), Rules()).scan()
        drafts = {path: draft.finish() for path, draft in scan.drafts.items()}
        self.index = StatIndex.empty().replacing(drafts, meta=b"")
        self.watcher = Watcher(str(tree), skips=lambda _: False, hears_opening=True)
        assert self.watcher.take() is None
        self.openings = Openings(self.watcher)

    def ask(self) -> Asked:
        return self.openings.ask(self.root_fd, self.index)

    def close(self) -> None:
        self.watcher.close()
        os.close(self.root_fd)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "tree")
    yield place
    place.close()


@pytest.fixture
def quiet(place: Place) -> Place:
    """Everything was asked about, and nobody has anything open."""
    assert place.openings.find_folders() is None
    assert place.ask().folders == {b"", b"deep"}
    assert place.openings.find_folders() == set()
    return place


def test_what_we_open_ourselves_to_ask_is_not_in_question(quiet: Place) -> None:
    for _ in range(3):
        assert quiet.ask() == Asked(frozenset(), frozenset(), is_worth_more=False)


def test_who_reads_is_asked_about_once(quiet: Place) -> None:
    (quiet.tree / "deep/f").read_bytes()
    assert quiet.watcher.take() == set()
    assert quiet.openings.find_folders() == {b"deep"}
    assert quiet.ask().folders == {b"deep"}
    assert quiet.openings.find_folders() == set()
    assert quiet.ask().folders == set()


def test_who_can_write_is_in_question_until_they_leave(quiet: Place) -> None:
    with open(quiet.tree / "deep/f", "r+b"):
        for _ in range(3):
            assert quiet.ask().folders == {b"deep"}
            assert quiet.openings.find_folders() == {b"deep"}
    assert quiet.ask().folders == {b"deep"}
    assert quiet.openings.find_folders() == set()


@pytest.mark.parametrize("moment", ["before the lease", "after the lease"])
def test_who_opens_a_file_while_it_is_asked_about_is_not_forgotten(
    quiet: Place, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    real = Resting.ask
    writers: list[int] = []

    def ask(self: Resting, fd: int, device: int) -> Rest:
        if moment == "before the lease":
            writers.append(os.open(quiet.tree / "f", os.O_RDWR))
        rest = real(self, fd, device)
        if moment == "after the lease":
            assert rest is Rest.PROVEN
            writers.append(os.open(quiet.tree / "f", os.O_RDWR))
        return rest

    (quiet.tree / "f").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(Resting, "ask", ask)
        quiet.ask()
    assert quiet.watcher.take() == set()
    assert quiet.openings.find_folders() == {b""}
    quiet.ask()
    assert quiet.openings.find_folders() == {b""}
    for writer in writers:
        os.close(writer)


def test_a_reading_settles_what_was_heard_before_it_and_nothing_else(quiet: Place) -> None:
    (quiet.tree / "f").read_bytes()
    heard = quiet.openings.listen()
    quiet.openings.settle(b"f", heard)
    assert quiet.openings.find_folders() == set()
    (quiet.tree / "f").read_bytes()
    quiet.openings.listen()
    quiet.openings.settle(b"f", heard)
    assert quiet.openings.find_folders() == {b""}


def test_what_is_not_asked_about_at_once_stays_in_question(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openings, "ASKED", 1)
    with open(place.tree / "g", "r+b"):
        for _ in range(8):
            place.ask()
        assert place.openings.find_folders() == frozenset({b""})
        # Whoever stays does not keep the others from being asked about.
        (place.tree / "deep/f").read_bytes()
        place.openings.listen()
        assert place.openings.find_folders() == frozenset({b"", b"deep"})
        for _ in range(2):
            place.ask()
        assert place.openings.find_folders() == frozenset({b""})


def test_files_that_are_not_known_are_not_asked_about(quiet: Place) -> None:
    with open(quiet.tree / "new", "wb"):
        assert quiet.watcher.take() == {b""}
        assert quiet.ask().folders == set()
        assert quiet.openings.find_folders() == set()


def test_a_folder_that_was_away_is_asked_about_again(quiet: Place) -> None:
    (quiet.tree / "deep").rename(quiet.tree.parent / "away")
    quiet.watcher.take()
    writer = os.open(quiet.tree.parent / "away/g", os.O_RDWR)  # nobody hears it
    (quiet.tree.parent / "away").rename(quiet.tree / "deep")
    quiet.watcher.take()
    assert quiet.openings.find_folders() is None
    quiet.ask()
    assert quiet.openings.find_folders() == {b"deep"}
    os.close(writer)
    quiet.ask()
    assert quiet.openings.find_folders() == set()


def test_all_is_in_question_when_something_was_not_heard(quiet: Place) -> None:
    quiet.tree.rename(quiet.tree.parent / "away")
    (quiet.tree.parent / "away").rename(quiet.tree)
    assert quiet.watcher.take() is None
    assert quiet.openings.find_folders() is None
    assert quiet.ask().folders == {b"", b"deep"}


def test_everything_that_was_read_was_asked_about(place: Place) -> None:
    heard = place.openings.listen()
    place.openings.settle_all(heard)
    assert place.openings.find_folders() == set()


def test_what_nobody_can_say_stays_in_question(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlay = resting.about(0x794C7630)

    def about(_: int | None) -> resting.Asked:
        return overlay

    monkeypatch.setattr(resting, "about", about)
    assert not place.ask().is_worth_more
    assert place.openings.find_folders() == set(), "what is older than the watch is not seen there"
    (place.tree / "deep/f").read_bytes()
    for _ in range(2):
        assert not place.ask().is_worth_more
        assert place.openings.find_folders() == {b"deep"}


def test_where_a_stamp_may_be_missing_a_file_that_was_written_is_read_with_all_its_names(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmpfs = resting.about(0x01021994)

    def about(_: int | None) -> resting.Asked:
        return tmpfs

    monkeypatch.setattr(resting, "about", about)
    monkeypatch.setattr(openings, "ASKED", 1)
    assert place.ask().doubtful == set()
    with open(place.tree / "f", "r+b"):
        assert place.ask().doubtful == {b"f"}
    assert place.ask().doubtful == {b"f"}
    assert place.ask().doubtful == set()
    folder = place.index.find(b"deep")
    assert folder is not None
    twins = tuple(row._replace(nlink=2, ino=7) for row in folder.rows)
    place.index = place.index.replacing({b"deep": folder._replace(rows=twins)}, meta=b"")
    with open(place.tree / "deep/g", "r+b"):
        assert place.ask().doubtful == {b"deep/f", b"deep/g"}


def test_reading_wakes_nobody_who_waits(quiet: Place) -> None:
    (quiet.tree / "f").read_bytes()
    assert not quiet.watcher.wait(0)
    assert quiet.openings.find_folders() == {b""}
    (quiet.tree / "f").write_bytes(b"1")
    assert quiet.watcher.wait(0)
    quiet.openings.listen()
    assert quiet.watcher.wait(0), "it is told until it was taken"
    assert quiet.watcher.take() == {b""}
    assert not quiet.watcher.wait(0)


# Names that lie elsewhere


def row(name: bytes, *, nlink: int = 1) -> Row:
    return Row(name, 0o100644, nlink, 1, 1, 1, 1, 1)


def folder(path: bytes, *rows: Row) -> Folder:
    return Folder(path, 0o40755, 1, 1, 1, 1, rows, ())


def test_folders_with_files_of_several_names_are_known_through_every_change() -> None:
    def linked(change: Callable[[StatIndex], StatIndex]) -> frozenset[bytes]:
        index = StatIndex.empty().replacing(
            {
                b"": folder(b""),
                b"a": folder(b"a", row(b"f"), row(b"g", nlink=2)),
                b"a/b": folder(b"a/b", row(b"f", nlink=3)),
                b"ab": folder(b"ab", row(b"f", nlink=2)),
                b"c": folder(b"c", row(b"f")),
            },
            meta=b"",
        )
        afresh = change(index)
        assert index.find_linked() == {b"a", b"a/b", b"ab"}
        kept = change(index)
        assert kept.find_linked() == afresh.find_linked()
        return kept.find_linked()

    assert linked(lambda i: i.replacing({}, meta=b"")) == {b"a", b"a/b", b"ab"}
    assert linked(lambda i: i.replacing({b"a": None}, meta=b"")) == {b"ab"}
    assert linked(lambda i: i.replacing({b"": None}, meta=b"")) == set()
    alone = {b"a": folder(b"a", row(b"f")), b"c": folder(b"c", row(b"f", nlink=2))}
    assert linked(lambda i: i.replacing(alone, meta=b"")) == {b"a/b", b"ab", b"c"}


def test_the_files_of_a_folder_are_those_that_can_be_opened() -> None:
    rows = (row(b"f"), row(b"link")._replace(mode=0o120777), row(b"pipe")._replace(mode=0o10644))
    index = StatIndex.empty().replacing({b"": folder(b"", *rows)}, meta=b"")
    assert index.find_files(b"") == {b"f"}
    assert index.find_files(b"nowhere") == set()
