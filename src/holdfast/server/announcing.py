"""Which servers of a vault run on this machine, for whoever wants to look at it there.

Each has a file beside the vault, and its lock for as long as it lives: what a server leaves that
was killed says nothing. Only those that answer this machine alone, with the console, are told.
"""

import fcntl
import hashlib
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from holdfast.ownfiles import create
from holdfast.server.config import Config

FOLDER: Final = "servers"
MOST_BYTES: Final = 4096
"""What such a file may have: it lies where its owner alone writes, and is read all the same."""


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A server that runs."""

    vault: str
    """A hash of where its vault is: several may keep their files here."""
    port: int
    prefix: str
    directories: bool
    """Whether it shows attached directories as they are."""


@contextmanager
def announced(config: Config, port: int) -> Generator[None]:
    """Lets whoever looks find this server for as long as the block lasts."""
    told = Running(
        vault=_hash_of(config.location),
        port=port,
        prefix=config.prefix,
        directories=config.directories,
    )
    folder = config.data / FOLDER
    path = folder / f"{os.getpid()}.json"
    with ExitStack() as stack:
        # A disk that takes no writes keeps nobody from serving: it is not found, then.
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _tidy(folder)
            file = stack.enter_context(create(path.with_suffix(".new")))
            # Before it has its name: whoever finds it finds that somebody holds it.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(msgspec.json.encode(told))
            file.flush()
            path.with_suffix(".new").replace(path)
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def find_running(config: Config) -> list[Running]:
    """Returns the servers of a vault that can be looked at from this machine."""
    wanted, found = _hash_of(config.location), list[Running]()
    for _, file in _iter_held(config.data / FOLDER, is_held=True):
        with suppress(msgspec.MsgspecError):
            found.append(msgspec.json.decode(file.read(MOST_BYTES), type=Running))
    return [each for each in found if each.vault == wanted]


def _tidy(folder: Path) -> None:
    for path, _ in _iter_held(folder, is_held=False):
        path.unlink(missing_ok=True)


def _iter_held(folder: Path, *, is_held: bool) -> Iterator[tuple[Path, BinaryIO]]:
    """Yields the files that somebody holds, or that nobody does."""
    for path in sorted(folder.glob("*.json")):
        with suppress(OSError), path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                has_holder = False
            except BlockingIOError:
                has_holder = True
            if has_holder is is_held:
                yield path, file


def _hash_of(location: str) -> str:
    """Returns what stands for a vault: where a database is has a password in it."""
    place = location if "://" in location else os.path.realpath(location)
    return hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()
