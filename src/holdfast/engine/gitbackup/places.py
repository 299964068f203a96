"""Where the repositories of copies are on this machine: no backup of a vault has them.

One is a cache: lost, it is made again of the timeline. It holds what the namespace held, and goes
when that does.
"""

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

from holdfast.engine.core.context import Context
from holdfast.errors import Busy, Unavailable
from holdfast.errors.system import translated
from holdfast.git.program import Program
from holdfast.git.repository import Repository
from holdfast.ids import NamespaceId
from holdfast.model.gitbackups import GitBackup

_SUFFIX = ".git"


@contextmanager
def opened_repository(context: Context, backup: GitBackup) -> Generator[Repository]:
    """Opens the repository of a copy, for one process at a time; raises `Busy`."""
    folder = _folder(context)
    with _locked(folder, backup.namespace_id):
        place = folder / _name_of(backup)
        for left in place.glob("run-*"):  # A process was killed that had a key there.
            shutil.rmtree(left, ignore_errors=True)
        for left in place.rglob("*.lock"):  # So was a git: nobody else is at it now.
            left.unlink(missing_ok=True)
        repository = Repository(Program(folder), place)
        repository.make()
        yield repository


def drop_repository(context: Context, namespace_id: NamespaceId) -> None:
    """Takes away what is here of a copy, for there is none any more; raises `Busy`."""
    if context.state is not None:
        _drop(_folder(context), namespace_id)


def sweep(context: Context) -> None:
    """Takes away the repositories of copies that no row knows.

    But for one that somebody is at: who pushes a copy that is gone by then sweeps after that.
    """
    if context.state is None or not (folder := _folder(context)).is_dir():
        return
    numbers = {int(number) for place in _places(folder) if (number := _number(place)).isdecimal()}
    for namespace_id in map(NamespaceId, sorted(numbers)):
        with context.catalog.read() as transaction:
            backup = transaction.find_git_backup(namespace_id)
        with suppress(Busy):
            _drop(folder, namespace_id, but=None if backup is None else _name_of(backup))


def _drop(folder: Path, namespace_id: NamespaceId, *, but: str | None = None) -> None:
    """Takes away the repositories of a namespace, but for one."""
    found = [each for each in _places(folder) if _number(each) == str(namespace_id)]
    gone = [each for each in found if each.name != but]
    if not gone:
        return
    with _locked(folder, namespace_id), translated("the repository of a copy cannot be removed"):
        for place in gone:
            shutil.rmtree(place)
        if but is None:
            (folder / f"{namespace_id}.lock").unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path, namespace_id: NamespaceId) -> Generator[None]:
    """Keeps everybody else from the repositories of a namespace; raises `Busy`."""
    path = folder / f"{namespace_id}.lock"
    with translated(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Of one that was removed meanwhile, another may have the successor.
            is_current = os.path.samestat(os.fstat(fd), path.stat())
        except OSError:
            is_current = False
        if not is_current:
            raise Busy("another process is at the copy of this namespace")
        yield
    finally:
        os.close(fd)


def _places(folder: Path) -> list[Path]:
    return [*folder.glob(f"*{_SUFFIX}")]


def _number(place: Path) -> str:
    return place.stem.partition("-")[0]


def _name_of(backup: GitBackup) -> str:
    """Returns the name of a copy's repository: by where it goes.

    The number of the namespace alone would not do. Where a catalog is set back, numbers are given
    out again, and the past of another would be pushed. One that held what was erased has another
    name from then on, and is swept wherever it is.
    """
    era = (backup.era,) if backup.era else ()
    said = msgspec.msgpack.encode((backup.id, backup.remote, backup.branch, *era))
    return f"{backup.namespace_id}-{blake2b(said, digest_size=16).hexdigest()}{_SUFFIX}"


def _folder(context: Context) -> Path:
    if context.state is None:
        raise Unavailable("this vault has no place on this machine for a repository")
    return context.state.parent / "git" / context.vault
