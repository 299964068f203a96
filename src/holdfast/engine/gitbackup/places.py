"""Where the repositories of copies are on this machine: beside the vault, and never in it.

One is a cache: lost, it is made again of the timeline. It holds what the namespace held, and goes
when that does.
"""

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from holdfast.engine.core.context import Context
from holdfast.errors import Busy, Unavailable
from holdfast.errors.system import from_system
from holdfast.git.program import Program
from holdfast.git.repository import Repository
from holdfast.ids import NamespaceId

_SUFFIX = ".git"


@contextmanager
def opened_repository(context: Context, namespace_id: NamespaceId) -> Generator[Repository]:
    """Opens the repository of a namespace, for one process at a time; raises `Busy`."""
    folder = _folder(context)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(folder / f"{namespace_id}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise from_system(exc, folder) from exc
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy("another process is at the copy of this namespace") from None
        place = folder / f"{namespace_id}{_SUFFIX}"
        for left in place.glob("run-*"):  # A process was killed that had a key there.
            shutil.rmtree(left, ignore_errors=True)
        repository = Repository(Program(folder), place)
        repository.make()
        yield repository
    finally:
        os.close(fd)


def drop_repository(context: Context, namespace_id: NamespaceId) -> None:
    """Takes away what is here of a copy: there is none any more, or its namespace is gone."""
    if context.state is not None:
        folder = _folder(context)
        place = folder / f"{namespace_id}{_SUFFIX}"
        try:
            if place.exists():
                shutil.rmtree(place)
            (folder / f"{namespace_id}.lock").unlink(missing_ok=True)
        except OSError as exc:
            raise from_system(exc, "the repository of a copy cannot be removed") from exc


def sweep(context: Context) -> None:
    """Takes away the repositories of copies that no row knows."""
    if context.state is None or not (folder := _folder(context)).is_dir():
        return
    for place in folder.glob(f"*{_SUFFIX}"):
        if place.stem.isdecimal():
            namespace_id = NamespaceId(int(place.stem))
            with context.catalog.read() as transaction:
                is_needed = transaction.find_git_backup(namespace_id) is not None
            if not is_needed:
                drop_repository(context, namespace_id)


def _folder(context: Context) -> Path:
    if context.state is None:
        raise Unavailable("this vault has no place on this machine for a repository")
    return context.state.parent / "git" / context.vault
