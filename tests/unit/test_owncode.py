"""A process that stays knows when its code is another one, and hardly looks to know it."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.cli import owncode
from holdfast.cli.owncode import OwnCode

NAMES = ("", "tree", "tree.node", "cli", "cli.commands", "cli.commands.undo")

COMPILED = pytest.mark.skipif(owncode._look() is None, reason="there was no compiler at hand")


class Loaded:
    """A package of ours that was loaded from a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "site" / "holdfast"
        self.modules: dict[str, ModuleType] = {"os": os}
        for name in NAMES:
            self.load(name)

    def code(self) -> OwnCode:
        """Returns what a process that has loaded it knows of it."""
        return OwnCode(str(self.root), self.modules)

    def path(self, name: str) -> Path:
        """Returns the file of a module."""
        inside = self.root.joinpath(*name.split("."))
        packages = [each for each in NAMES if any(o.startswith(f"{each}.") for o in NAMES)]
        return inside / "__init__.py" if not name or name in packages else inside.with_suffix(".py")

    def load(self, name: str) -> Path:
        """Loads a module that is there, or is made."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
        self.add(f"holdfast.{name}".rstrip("."), path)
        return path

    def add(self, name: str, path: Path) -> None:
        """Loads a module from wherever it is."""
        module = self.modules[name] = ModuleType(name)
        module.__file__ = str(path)


@pytest.fixture
def loaded(tmp_path: Path) -> Loaded:
    return Loaded(tmp_path)


@pytest.fixture(params=[pytest.param(True, marks=COMPILED, id="c"), pytest.param(False, id="py")])
def code(
    request: pytest.FixtureRequest, loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> OwnCode:
    if not request.param:
        monkeypatch.setattr(owncode, "_look", lambda: None)
    code = loaded.code()
    assert code.is_current()
    return code


def written_in_place(loaded: Loaded) -> None:
    with loaded.path("tree.node").open("a") as file:
        file.write("more\n")


def replaced(loaded: Loaded) -> None:
    fresh = loaded.root.parent / "fresh.py"
    fresh.write_text("# another\n")
    fresh.rename(loaded.path("cli.commands.undo"))


def removed(loaded: Loaded) -> None:
    loaded.path("tree.node").unlink()


def folder_moved_away(loaded: Loaded) -> None:
    (loaded.root / "cli").rename(loaded.root / "old")


def installation_moved_away(loaded: Loaded) -> None:
    site = loaded.root.parent
    site.rename(site.with_name("old"))


def installation_swapped(loaded: Loaded) -> None:
    site = loaded.root.parent
    site.rename(site.with_name("old"))
    for name in NAMES:
        loaded.path(name).parent.mkdir(parents=True, exist_ok=True)
        loaded.path(name).write_text("# of the next release\n")


def another_length(loaded: Loaded) -> None:
    path = loaded.path("tree.node")
    before = path.stat()
    path.write_text("# written within one tick of the clock\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def another_time(loaded: Loaded) -> None:
    path = loaded.path("cli.commands")
    before = path.stat()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns - 1))


def far_off_time(loaded: Loaded) -> None:
    os.utime(loaded.path("cli"), ns=(0, -(2**62)))


@pytest.mark.parametrize(
    "change",
    [
        another_length,
        another_time,
        far_off_time,
        written_in_place,
        replaced,
        removed,
        folder_moved_away,
        installation_moved_away,
        installation_swapped,
    ],
)
def test_whatever_changes_its_code_is_noticed_at_once(
    loaded: Loaded, code: OwnCode, change: Callable[[Loaded], None]
) -> None:
    assert code.is_current()
    assert code.looking()()
    change(loaded)
    assert not code.is_current()
    found = code.looking()
    assert not found()
    assert not found()


def test_touched_and_unchanged_it_is_current(loaded: Loaded, code: OwnCode) -> None:
    (loaded.root / "cli" / "beside.py").touch()
    os.link(loaded.path("tree.node"), loaded.root / "another name of it")
    assert code.is_current()


def test_what_is_loaded_later_is_code_too(loaded: Loaded, code: OwnCode) -> None:
    later = loaded.load("added.later")
    code.note()
    assert code.is_current()
    later.write_text("# edited meanwhile\n")
    assert not code.is_current()


def test_code_elsewhere_is_code_too(loaded: Loaded, code: OwnCode, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.touch()
    loaded.add("holdfast.elsewhere", elsewhere)
    code.note()
    assert code.is_current()
    elsewhere.unlink()
    assert not code.is_current()
    elsewhere.symlink_to(elsewhere)
    assert not code.is_current()


def test_code_of_others_is_not(loaded: Loaded, code: OwnCode, tmp_path: Path) -> None:
    others = tmp_path / "others.py"
    others.touch()
    loaded.add("holdfast_of_others", others)
    code.note()
    others.unlink()
    assert code.is_current()


def test_what_was_not_there_may_stay_away(loaded: Loaded, code: OwnCode) -> None:
    loaded.load("gone").unlink()
    code.note()
    assert code.is_current()
    loaded.path("gone").touch()
    assert not code.is_current()


@pytest.mark.parametrize("year", [-400, 400])
def test_times_that_have_no_room_in_c_are_compared_in_python(
    loaded: Loaded, year: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = loaded.path("tree")
    state = (year * 365 * 86_400 * 10**9, 1)
    look = owncode._state_of
    monkeypatch.setattr(
        owncode, "_state_of", lambda each: state if each == str(path) else look(each)
    )
    code = loaded.code()
    assert code.is_current()
    written_in_place(loaded)
    assert not code.is_current()


@COMPILED
def test_no_file_is_looked_at_from_python(loaded: Loaded) -> None:
    code, calls = loaded.code(), list[str]()
    sys.setprofile(lambda _, kind, what: calls.append(f"{kind} {getattr(what, '__name__', '')}"))
    try:
        assert code.is_current()
        code.note()
    finally:
        sys.setprofile(None)
    asked = [each.removeprefix("c_call ") for each in calls if each.startswith("c_call ")]
    assert asked.count("stat") == 0
    assert len(calls) < 30, "it takes the longer, the more files there are"


def test_its_own_files_are_those_of_this_package() -> None:
    code = OwnCode()
    assert owncode.__file__ in code._files
    assert code.is_current()
