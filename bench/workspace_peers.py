"""What others would use instead: git, restic, borg, tar with zstd, and `cp -a`.

Every contender keeps its own repository of the same tree, and is used as its manual says for
speed: git with a tuned configuration, restic and borg with their caches. Where a peer cannot
find out by itself what a rollback has to bring back (restic 0.14, borg, tar, cp), it is told
the paths, which is in its favour. None of them sees the user's own configuration.

Not here: Holdfast itself (`workspace_ours.py`), and what is done in which order
(`bench_workspace.py`).
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from workspace_trees import Tree


@dataclass
class Contender:
    """One way of capturing a tree: what is timed is `snapshot`, `roll_back` and `check_out`."""

    tree: Tree
    home: Path  # everything it writes lies below
    taken: int = 0
    env: dict[str, str] = field(default_factory=dict[str, str])

    name: ClassVar[str] = ""
    program: ClassVar[str] = ""  # what has to be installed
    remembers: ClassVar[bool] = True  # whether what it saw last makes the next snapshot cheaper
    shares: ClassVar[bool] = True  # whether one snapshot stores what the one before it stored

    @property
    def repository(self) -> Path:
        return self.home / "repository"

    @classmethod
    def is_missing(cls) -> str | None:
        """Returns why this contender cannot take part, or None."""
        return None if shutil.which(cls.program) else f"{cls.program} is not installed"

    def open(self) -> None:
        """Makes an empty repository; not timed."""
        self.home.mkdir(parents=True)
        path = os.environ.get("PATH", os.defpath)
        self.env = {"PATH": path, "HOME": str(self.home), "LC_ALL": "C.UTF-8", **self.env}
        self.repository.mkdir()

    def begin_turn(self) -> None:
        """Gets ready for some timed steps; not timed."""

    def end_turn(self) -> None:
        """Lets the others work undisturbed; not timed."""

    def snapshot(self) -> None:
        raise NotImplementedError

    def roll_back(self, paths: Sequence[str]) -> None:
        """Brings the tree back to the snapshot before the newest; `paths` are what differs."""
        raise NotImplementedError

    def check_out(self, target: Path) -> None:
        """Writes the whole newest snapshot into `target`, which is empty."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends what is still running."""

    def stored_bytes(self) -> int:
        """Returns what the repository takes from the disk."""
        return disk_bytes(self.repository)

    def run(self, *command: str | Path, cwd: Path | None = None) -> str:
        done = subprocess.run(
            command,
            cwd=cwd or self.tree.path,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[-500:]
            raise RuntimeError(f"{self.name}: {' '.join(map(str, command))[:200]}: {said}")
        return done.stdout


def disk_bytes(folder: Path) -> int:
    """Returns the blocks that a folder takes, hard links counted once, as `du` does."""
    seen: dict[tuple[int, int], int] = {}
    todo = [str(folder)]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                # What is being replaced right now may be gone before it is looked at.
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    seen[status.st_dev, status.st_ino] = status.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
    return sum(seen.values())


class Git(Contender):
    """A shadow repository: its own git directory, the user's tree as the work tree."""

    name = "git"
    program = "git"
    TUNING = (
        "gc.auto=0",
        "feature.manyFiles=true",
        "core.untrackedCache=true",
        "core.preloadIndex=true",
        "index.version=4",
        "user.name=bench",
        "user.email=bench",
    )

    def open(self) -> None:
        self.env = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        super().open()
        self.run("git", "init", "-q", "--bare", self.repository)
        for setting in ("core.bare=false", *self.TUNING):
            self.run(*self._git, "config", *setting.split("=", 1))

    @property
    def _git(self) -> tuple[str, ...]:
        return ("git", f"--git-dir={self.repository}", f"--work-tree={self.tree.path}")

    def snapshot(self) -> None:
        self.run(*self._git, "add", "-A")
        self.run(*self._git, "commit", "-q", "--allow-empty", "-m", "x")

    def roll_back(self, paths: Sequence[str]) -> None:
        del paths  # the index knows
        self.run(*self._git, "reset", "-q", "--hard", "HEAD~1")

    def check_out(self, target: Path) -> None:
        self.run(*self._git, "checkout-index", "-a", f"--prefix={target}/")


class Restic(Contender):
    """restic with its cache; every command derives the key from the password again."""

    name = "restic"
    program = "restic"

    def open(self) -> None:
        self.env = {"RESTIC_PASSWORD": "bench", "RESTIC_CACHE_DIR": str(self.home / "cache")}
        super().open()
        self.run("restic", "-q", "-r", self.repository, "init")

    def snapshot(self) -> None:
        self.taken += 1
        tag = f"n{self.taken}"
        self.run("restic", "-q", "-r", self.repository, "backup", "--tag", tag, ".")

    def roll_back(self, paths: Sequence[str]) -> None:
        wanted = [part for path in paths for part in ("--include", f"/{path}")]
        self._restore(self.taken - 1, self.tree.path, *wanted)

    def check_out(self, target: Path) -> None:
        self._restore(self.taken, target)

    def _restore(self, number: int, target: Path, *options: str) -> None:
        command = ("restore", "latest", "--tag", f"n{number}", "--target", target, *options)
        self.run("restic", "-q", "-r", self.repository, *command)


class Borg(Contender):
    """borg without encryption, with its caches and its own choice of compression (lz4)."""

    name = "borg"
    program = "borg"

    def open(self) -> None:
        self.env = {
            "BORG_BASE_DIR": str(self.home),
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
        }
        super().open()
        self.run("borg", "init", "-e", "none", self.repository)

    def snapshot(self) -> None:
        self.taken += 1
        self.run("borg", "create", f"{self.repository}::n{self.taken}", ".")

    def roll_back(self, paths: Sequence[str]) -> None:
        self.run("borg", "extract", f"{self.repository}::n{self.taken - 1}", *paths)

    def check_out(self, target: Path) -> None:
        self.run("borg", "extract", f"{self.repository}::n{self.taken}", cwd=target)


class TarZstd(Contender):
    """One archive for each snapshot, compressed by as many threads as there are cores."""

    name = "tar + zstd"
    program = "zstd"
    remembers = False
    shares = False

    def snapshot(self) -> None:
        self.taken += 1
        archive = self.repository / f"{self.taken}.tar.zst"
        self.run("/bin/sh", "-c", f"tar -cf - . | zstd -q -3 -T0 -o '{archive}'")

    def roll_back(self, paths: Sequence[str]) -> None:
        self._extract(self.taken - 1, self.tree.path, *(f"./{path}" for path in paths))

    def check_out(self, target: Path) -> None:
        self._extract(self.taken, target)

    def _extract(self, number: int, target: Path, *names: str) -> None:
        archive = self.repository / f"{number}.tar.zst"
        script = f"zstd -q -dc '{archive}' | tar -xf - \"$@\""
        self.run("/bin/sh", "-c", script, "sh", *names, cwd=target)


class CopyAll(Contender):
    """`cp -a`: a whole copy for each snapshot."""

    name = "cp -a"
    program = "cp"
    remembers = False
    shares = False

    def snapshot(self) -> None:
        self.taken += 1
        self.run("cp", "-a", ".", self.repository / str(self.taken))

    def roll_back(self, paths: Sequence[str]) -> None:
        before = self.repository / str(self.taken - 1)
        self.run("cp", "-a", "--parents", *paths, self.tree.path, cwd=before)

    def check_out(self, target: Path) -> None:
        self.run("cp", "-a", ".", target, cwd=self.repository / str(self.taken))


PEERS: tuple[type[Contender], ...] = (Git, Restic, Borg, TarZstd, CopyAll)


def versions() -> dict[str, str]:
    """Returns what each program says it is, for those that are there."""
    commands = {
        "git": ("git", "--version"),
        "restic": ("restic", "version"),
        "borg": ("borg", "--version"),
        "tar": ("tar", "--version"),
        "zstd": ("zstd", "-V"),
        "cp": ("cp", "--version"),
    }
    found: dict[str, str] = {}
    for name, command in commands.items():
        if shutil.which(command[0]):
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            words = said.splitlines()[0].replace(",", " ").split()
            found[name] = next((word for word in words if word.lstrip("v")[:1].isdigit()), "?")
    return found
