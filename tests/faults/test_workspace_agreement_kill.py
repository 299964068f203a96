"""Kills whoever captures a directory, or leads it, between any two steps; then somebody works on.

Nobody writes through the namespace here. So nothing may ever come into the directory but by what
was asked for: what the dead have captured is the directory's own, whatever else they had no time
to write down.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.engine.workspace import Workspace
from holdfast.testing.faults import fuses
from holdfast.testing.places import Place, PostgresPlace, SqlitePlace, attached, touches_files

Files = dict[str, bytes]

HELD: Files = {"a": b"one", "gone": b"comes back", "k": b"as it was", "dd/1": b"moves as a whole"}
EARLIER: Files = {**HELD, "older": b"was removed since"}

CAPTURES: dict[str, Callable[[Workspace], object]] = {
    "snapshots": lambda work: (work.snapshot("two"), work.snapshot("three")),
    "kept": lambda work: work.snapshot_if_changed(),
}
MOVES: dict[str, Callable[[Workspace], object]] = {
    "restore": lambda work: work.restore("@-1"),
    "undo": lambda work: work.undo(),
}


def look(tree: Path) -> Files:
    return {str(p.relative_to(tree)): p.read_bytes() for p in tree.rglob("*") if p.is_file()}


def prepare(place: Place) -> None:
    """Saves a directory with two snapshots, which a process has left in order."""
    with attached(place, seed=1) as it:
        (it.tree / "dd").mkdir()
        for name, data in EARLIER.items():
            (it.tree / name).write_bytes(data)
        it.work.snapshot("zero")
        (it.tree / "older").unlink()
        it.work.snapshot("one")
    place.save()


def rearrange(tree: Path, aside: Path) -> None:
    """Takes some away, as a whole and as a file, and makes some."""
    for name in ("dd", "gone", "k"):
        (tree / name).rename(aside / name)
    (tree / "k").write_bytes(b"another")
    (tree / "new").write_bytes(b"new")


def put_back(tree: Path, aside: Path) -> None:
    """Does the opposite of that, and takes away what a move has brought."""
    for name in ("new", "older"):
        (tree / name).unlink(missing_ok=True)
    for path in aside.iterdir():
        path.replace(tree / path.name)


def play(place: Place, name: str, *, is_watched: bool = False) -> int:
    """Plays an act to its death at each step; returns how many deaths were after a commit."""
    prepare(place)
    is_move, late = name in MOVES, 0
    for fuse in fuses(counts=touches_files):
        place.reset()
        aside = place.folder / f"aside-{fuse.steps}"
        aside.mkdir()
        with fuse, attached(place, fuse=fuse, seed=3) as it:
            if is_watched:
                it.work.watch()
            if is_move:
                MOVES[name](it.work)
            else:
                rearrange(it.tree, aside)
                CAPTURES[name](it.work)
        with attached(place, seed=4) as it:
            is_done = len(it.work.namespace.timeline()) > 2
            late += fuse.blown and is_done
            if is_move and not is_done:
                it.work.status()
                assert look(it.tree) == HELD, fuse
                continue
            assert not is_move or look(it.tree) == EARLIER, fuse
            put_back(it.tree, aside)
            assert it.work.status().agreed is None, fuse
            assert look(it.tree) == HELD, fuse
            assert "gave_way" not in it.work.snapshot("after").detail, fuse
            files = it.work.namespace.files
            listed = [each.path for each in files.list("", recursive=True) if each.kind == "file"]
            assert {path: files.read(path) for path in listed} == look(it.tree) == HELD, fuse
    return late


@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize("name", [*CAPTURES, *MOVES])
def test_what_the_dead_captured_is_no_write_through_the_namespace(
    place: SqlitePlace, name: str, *, is_watched: bool
) -> None:
    if is_watched and sys.platform != "linux":
        pytest.skip("needs inotify")
    assert play(place, name, is_watched=is_watched)


def test_nor_is_it_in_a_database(postgres_place: PostgresPlace) -> None:
    assert play(postgres_place, "kept")
