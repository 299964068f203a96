"""Files with several names, whose folders are moved about: each comes back with the names it had.

Who renames a folder leaves the files in it alone, and their times of change with them: that a name
is another now shows in the folder only. Whatever was moved, copied, linked and removed, names are
one file in what comes back exactly where they were one file in what a snapshot was taken of.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.engine.workspace import Workspace
from holdfast.workspace import statcheck

PLACES = ["a", "b", "a/c", "b/c", "a/c/d"]
NAMES = ["", *(f"{place}/" for place in PLACES)]
FILES = [f"{place}{name}" for place in NAMES for name in ("f", "g")]


class Change(NamedTuple):
    """Something that is done to a directory, as far as it can be."""

    kind: str
    path: str
    other: str


def changes_of(kinds: list[str], paths: list[str]) -> st.SearchStrategy[Change]:
    among = st.sampled_from(paths)
    return st.builds(Change, st.sampled_from(kinds), among, among)


changes = st.one_of(
    changes_of(["move", "swap", "copy", "drop", "out", "in"], PLACES),
    changes_of(["link", "write", "move", "drop"], FILES),
)


def carry_out(change: Change, root: Path) -> None:
    kind, path, other = change.kind, root / change.path, root / change.other
    apart = root.with_name("apart")
    with suppress(OSError, shutil.Error):
        match kind:
            case "move":
                path.rename(other)
            case "swap":
                is_apart = path not in (other, *other.parents) and other not in path.parents
                if is_apart and path.exists() and other.exists():
                    path.rename(spare := root / "spare")
                    other.rename(path)
                    spare.rename(other)
            case "copy":
                if path not in other.parents and not other.exists():
                    shutil.copytree(path, other)
            case "out":
                path.rename(apart)
            case "in":
                apart.rename(path)
            case "link":
                os.link(path, other)
            case "write":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(change.other.encode())
            case _:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def look(root: Path) -> dict[str, tuple[bytes, tuple[str, ...]]]:
    """Returns what each file holds, and which names it has here."""
    found, groups = dict[str, tuple[bytes, int]](), dict[int, list[str]]()
    for folder, _, files in os.walk(root):
        for name in files:
            place = Path(folder, name)
            state = place.lstat()
            assert stat.S_ISREG(state.st_mode)
            path = str(place.relative_to(root))
            found[path] = (place.read_bytes(), state.st_ino)
            groups.setdefault(state.st_ino, []).append(path)
    return {path: (data, tuple(sorted(groups[ino]))) for path, (data, ino) in found.items()}


@contextmanager
def directory() -> Generator[tuple[Path, Workspace]]:
    """Opens a directory with files of several names in it."""
    roomy = "/dev/shm" if shutil.disk_usage("/dev/shm").free > 1 << 30 else None
    with tempfile.TemporaryDirectory(prefix="holdfast-property-", dir=roomy) as folder:
        tree = Path(folder, "tree")
        for place in PLACES:
            (tree / place).mkdir(parents=True)
        for path, other in [("a/f", "f"), ("a/c/f", "b/f"), ("b/c/f", "b/c/g")]:
            (tree / path).write_text(path)
            (tree / other).hardlink_to(tree / path)
        with (
            holdfast.open(Path(folder, "vault")) as vault,
            vault.workspace(tree) as workspace,
        ):
            yield tree, workspace


@pytest.fixture(params=["as built", "interpreted"])
def check(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "interpreted":
        monkeypatch.setattr(statcheck, "load_library", lambda: None)


@pytest.mark.usefixtures("check")
@given(
    rounds=st.lists(st.lists(changes, min_size=1, max_size=4), min_size=1, max_size=4),
    is_watched=st.booleans(),
)
def test_names_are_one_file_exactly_where_they_were(
    *, rounds: list[list[Change]], is_watched: bool
) -> None:
    with directory() as (tree, workspace):
        if is_watched:
            workspace.watch()
        taken = [(workspace.snapshot(), look(tree))]
        for number, made in enumerate(rounds):
            for change in made:
                carry_out(change, tree)
            taken.append((workspace.snapshot(), want := look(tree)))
            elsewhere = tree.with_name(f"elsewhere-{number}")
            assert workspace.checkout(taken[-1][0], elsewhere).verified
            assert look(elsewhere) == want
        for snapshot, want in [*reversed(taken), *taken]:
            assert workspace.restore(snapshot).verified
            assert look(tree) == want
        assert not workspace.is_dirty()


@pytest.mark.usefixtures("check")
@pytest.mark.parametrize("is_watched", [False, True])
def test_a_folder_that_is_renamed_keeps_its_files_linked_and_lends_its_name_to_no_other(
    *, is_watched: bool
) -> None:
    with directory() as (tree, workspace):
        if is_watched:
            workspace.watch()
        workspace.snapshot()
        (tree / "a").rename(tree / "old")
        shutil.copytree(tree / "old", tree / "a")
        (tree / "a/g").hardlink_to(tree / "a/f")
        taken, want = workspace.snapshot(), look(tree)
        assert want["f"] == (b"a/f", ("f", "old/f"))
        for path in ("a", "old", "b"):
            shutil.rmtree(tree / path)
        (tree / "f").unlink()
        assert workspace.undo().verified
        assert look(tree) == want
        assert workspace.checkout(taken, tree.with_name("elsewhere")).verified
        assert look(tree.with_name("elsewhere")) == want
