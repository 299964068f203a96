"""Holdfast in its four forms, as contenders beside the peers.

`Resident` is a process that stays, `Watched` the same with a watcher. `Command` starts an
interpreter for every step, as a shell does, and `ServedCommand` finds a `holdfast watch` that
answers for it. A form that is not there yet says so and is left out.
"""

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from workspace_peers import Contender

import holdfast


class Resident(Contender):
    """One process with an open workspace."""

    name = "holdfast"
    vault: holdfast.Holdfast
    # Typed when it is written: this script also runs where workspaces are not there yet.
    workspace: Any = None
    before: Any = None
    newest: Any = None

    @classmethod
    def is_missing(cls) -> str | None:
        has_it = hasattr(holdfast.Holdfast, "workspace")
        return None if has_it else "holdfast.open(...).workspace is not there yet"

    def open(self) -> None:
        super().open()
        self.vault = holdfast.open(self.repository)
        self.workspace = self.vault.workspace(self.tree.path)

    def snapshot(self) -> None:
        self.before, self.newest = self.newest, self.workspace.snapshot()

    def roll_back(self, paths: Sequence[str]) -> None:
        restored = self.workspace.restore(self.before)
        assert restored.verified
        assert len(restored.changes) == len(paths)

    def check_out(self, target: Path) -> None:
        self.workspace.checkout(self.newest, target)

    def close(self) -> None:
        self.workspace.close()
        self.vault.close()


class Watched(Resident):
    """The same with a watcher, which is there during its own turns alone."""

    name = "holdfast, watcher"

    @classmethod
    def is_missing(cls) -> str | None:
        missing = super().is_missing()
        if missing is None and not importlib.util.find_spec("holdfast.workspace.watching"):
            missing = "the watcher is not there yet"
        return missing

    def begin_turn(self) -> None:
        self.workspace.watch()

    def end_turn(self) -> None:
        self.workspace.close()
        self.workspace = self.vault.workspace(self.tree.path)


LAUNCHER = """\
#!{python}
import sys
from holdfast.cli.main import main
sys.exit(main())
"""
"""What an installer writes for the command, for a checkout that was not installed since."""


class Command(Contender):
    """The command line: an interpreter starts for every step."""

    name = "holdfast CLI"
    launcher: Path

    @classmethod
    def is_missing(cls) -> str | None:
        missing = Resident.is_missing()
        if missing is None and not importlib.util.find_spec("holdfast.cli"):
            missing = "the command line is not there yet"
        return missing

    def open(self) -> None:
        self.env = {"HOLDFAST_DATA": str(self.repository), "HOLDFAST_STAY": "0"}
        if elsewhere := os.environ.get("PYTHONPATH"):  # another checkout is measured
            self.env["PYTHONPATH"] = elsewhere
        super().open()
        self.launcher = Path(sys.executable).parent / "holdfast"
        if not self.launcher.exists():
            self.launcher = self.home / "holdfast"
            self.launcher.write_text(LAUNCHER.format(python=sys.executable))
            self.launcher.chmod(0o755)

    def snapshot(self) -> None:
        # The first one makes the vault too: `init` does both, and cannot be told not to.
        self.run(self.launcher, "snapshot" if self.taken else "init", "-q")
        self.taken += 1

    def roll_back(self, paths: Sequence[str]) -> None:
        del paths  # the index knows
        self.run(self.launcher, "restore", "-q", "@-1")

    def check_out(self, target: Path) -> None:
        self.run(self.launcher, "restore", "-q", "latest", "--to", str(target))


class ServedCommand(Command):
    """The command line while `holdfast watch` runs, during its own turns alone.

    It takes no snapshots by itself: one in between would be timed, or would do the work before
    the timed one does.
    """

    name = "holdfast CLI, watch"
    is_watched = False

    @classmethod
    def is_missing(cls) -> str | None:
        missing = super().is_missing()
        if missing is None and not importlib.util.find_spec("holdfast.cli.watch"):
            missing = "`holdfast watch` is not there yet"
        return missing

    def begin_turn(self) -> None:
        if not self.taken:
            return
        self.run(self.launcher, "watch", "--background", "--no-snapshots")
        self.is_watched = True

    def end_turn(self) -> None:
        if self.is_watched:
            self.run(self.launcher, "watch", "--stop")
            self.is_watched = False

    def close(self) -> None:
        self.end_turn()


OURS: tuple[type[Contender], ...] = (Resident, Watched, Command, ServedCommand)


def floors(tree: Path, contenders: Iterable[Contender]) -> dict[str, float]:
    """Returns how long it takes to do nothing but look at everything, and to start at all."""
    found = {
        "find -ctime": seconds_of("find", str(tree), "-ctime", "+9999"),
        "start of Python": seconds_of(sys.executable, "-I", "-S", "-c", ""),
        "start of git": seconds_of("git", "--version"),
    }
    resident = next((each for each in contenders if type(each) is Resident), None)
    check = None if resident is None else check_seconds(tree, resident.repository)
    return found if check is None else {**found, "own check": check}


def seconds_of(*command: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def check_seconds(tree: Path, vault: Path) -> float | None:
    """Returns how long our own pass over the index alone takes, without listing or reading."""
    try:
        from holdfast.workspace.statindex import StatIndex  # noqa: PLC0415 - may not be there yet
    except ImportError:
        return None
    loaded = (StatIndex.load(path) for path in vault.rglob("*") if path.is_file())
    index = next((each for each in loaded if each is not None), None)
    if index is None:
        return None
    root = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    try:
        start = time.perf_counter()
        index.check(root)
        return time.perf_counter() - start
    finally:
        os.close(root)
