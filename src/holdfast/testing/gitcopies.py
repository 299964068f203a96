"""A namespace that much happens to, and its copy in git: is every commit what its snapshot was?"""

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from holdfast.engine.namespace import Namespace
from holdfast.git.names import KEEP, from_git
from holdfast.git.program import Program
from holdfast.git.repository import Repository
from holdfast.model.basics import SnapshotInfo

HOSTILE: Final = (
    *(".git/config", "x/.GIT/HEAD", "git~1", "new\nline", "-option", ".gitmodules", "a\\.git"),
    *(".gitattributes", ".github/workflows/run.yml", ".hf~keep", '"quoted"', "tab\there"),
)
"""Names that git refuses or reads, or that hosts run; and some that are hard to write down."""

_GIT: Final = shutil.which("git") or "git"


def make_repository(place: Path, name: str) -> Repository:
    """Makes an empty repository in a folder, as a copy has one."""
    made = Repository(Program(place), place / name)
    made.make()
    return made


Content = dict[bytes, tuple[bool, bytes]]
"""What a moment holds, by path: whether it is executed, and the bytes."""


def play(agent: Namespace, *, tasks: int, push: Callable[[], None]) -> None:
    """Does some of all that can happen, in many tasks; pushes after every tenth."""
    chance = random.Random(19)  # noqa: S311 - the same each time
    for number in range(tasks):
        with agent.task(f"task {number}"):
            for _ in range(chance.randrange(1, 6)):
                _change(agent, chance, number)
        match number % 10:
            case 3:
                agent.restore(chance.choice(agent.timeline()[:20]))
            case 5:
                agent.undo()
            case 7 if number % 20 == 7:  # noqa: PLR2004 - every other time
                agent.fork(f"fork-{number}").files.write("elsewhere", "x")
            case 9:
                push()
            case _:
                pass
    push()


def _change(agent: Namespace, chance: random.Random, number: int) -> None:
    path = chance.choice([*HOSTILE, *(f"folder/{n % 4}/{n}.txt" for n in range(20))])
    match chance.randrange(6):
        case 0 if agent.files.exists(path):
            agent.files.delete(path)
        case 1:
            agent.files.mkdir(f"empty/{number}")
        case 2:
            agent.files.write(f"bin/{number % 7}", b"#!/bin/sh\n%d\n" % number, mode=0o755)
        case 3:
            agent.files.write(f"data/{number % 5}", chance.randbytes(chance.randrange(20_000)))
        case _:
            agent.files.write(path, f"{path} {number}\n" * chance.randrange(1, 50))


def compare(agent: Namespace, bare: Path, clone: Path, *, every: int) -> int:
    """Checks some commits of a repository out; raises unless each is what its snapshot was.

    Every so many of them, and the last. Returns how many.
    """
    git("clone", "-q", "--no-checkout", str(bare), str(clone))
    commits = git("-C", str(bare), "rev-list", "--reverse", "main").split()
    snapshots = list(reversed(agent.timeline()))
    assert len(commits) == len(snapshots), (len(commits), len(snapshots))
    chosen = [*list(zip(commits, snapshots, strict=True))[::every]]
    if len(commits) % every != 1:
        chosen.append((commits[-1], snapshots[-1]))
    for commit, snapshot in chosen:
        git("-C", str(clone), "checkout", "-q", "--force", commit)
        assert content_of_clone(clone) == content_of(agent, snapshot), commit
    said = git("-C", str(bare), "fsck", "--strict", "--no-dangling")
    assert said == "", said
    return len(chosen)


def content_of(agent: Namespace, snapshot: SnapshotInfo) -> Content:
    """Returns what a snapshot holds, as a clone would have it."""
    files, found = agent.at(snapshot).files, Content()
    for info in files.list(recursive=True):
        key = os.fsencode(info.path)
        if info.kind == "file":
            found[key] = bool((info.mode or 0) & 0o100), files.read(info.path)
        elif info.kind == "directory" and not files.list(info.path):
            found[key + b"/" + KEEP] = False, b""
    return found


def content_of_clone(clone: Path) -> Content:
    """Returns what is checked out, by the names that it has in a namespace."""
    found = Content()
    for path in clone.rglob("*"):
        name = path.relative_to(clone)
        if path.is_file() and name.parts[0] != ".git":
            is_executed = bool(path.stat().st_mode & 0o100)
            found[from_git(os.fsencode(name))] = is_executed, path.read_bytes()
    return found


def git(*args: str) -> str:
    """Runs the git of whoever tests; returns what it says."""
    done = subprocess.run([_GIT, *args], check=True, capture_output=True, text=True)
    return done.stdout.strip()
