"""Room for what comes in and goes out: bodies and answers in memory, uploads and exports on disk.

A body whose length is known waits until there is room for all of it, and until then nothing of it
is read. One that does not say how long it is takes room as it comes, and is refused where there is
none: half of it waiting for the rest would wait for ever. A large answer has room from when it was
made until its client has taken it. An export is counted before it is written. Tenants share all of
it, and the keys of a tenant what is for bodies, answers and uploads; what a request took, it gives
back when it has been answered.

What is there while a server runs, and no longer: numbers that workers share, and uploads.

A server that is killed leaves them behind. The next one to start removes them: whoever runs holds
a lock on its own, which ends with the process, in whatever container that is.
"""

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Final, TypeVar, cast

from holdfast.engine.core.limits import GIB, MIB, Limits
from holdfast.errors import StorageFull
from holdfast.server.config import Config
from holdfast.server.problems import AnswersNotTaken, TooManyAtOnce
from holdfast.server.sharing import Shares, SharesOfKeys

MEMORY_BYTES: Final = 512 * MIB
DISK_BYTES: Final = 64 * GIB
"""What a worker has for bodies and for uploads; more where a single one may be larger."""

FREE_BYTES: Final = 64 << 10
"""A body up to here takes no room: what a connection has read ahead of it anyway."""

ANSWER_BYTES: Final = 512 * MIB
"""What a worker has for large answers until they have been taken, and once more for those that
wait for it, since they are there already; more where a single one may be larger."""

STEP_BYTES: Final = 4 * MIB
"""What a body that does not say how long it is takes at a time."""

EXPORTS: Final = 16
"""Exports at once, each from before it is written until it has been sent."""

PATIENCE_S: Final = 20.0

_ANOTHER_DISK: Final = (
    "Start the server with TMPDIR set to a folder on another disk, or export on the machine itself."
)


class Room:
    """What there is in one worker."""

    def __init__(self, config: Config) -> None:
        largest = max(
            config.max_text_bytes,
            config.max_batch_bytes,
            config.max_state_bytes,
            config.max_body_bytes,
        )
        self.memory = SharesOfKeys(max(MEMORY_BYTES, 4 * largest))
        longest = max(config.max_import_bytes, config.max_upload_bytes)
        self.disk = SharesOfKeys(max(DISK_BYTES, 4 * longest))
        # A key has a quarter: the largest answer, which shows what it holds under two names.
        answers = max(ANSWER_BYTES, 8 * config.max_answer_bytes)
        self.answers, self.waiting = SharesOfKeys(answers), SharesOfKeys(answers)
        self.exports = Shares(EXPORTS)
        self.leaving = 0
        """Bytes of exports that are about to be written, to where temporary files are."""
        self.exported = Counter[str]()
        """Bytes of the exports of each tenant, written or not, until they have been sent."""
        self.promised = 0
        """Bytes on disk that uploads have taken, and not written yet."""
        self._folder, self._floor = config.uploads, Limits().free_floor_bytes

    @property
    def folder(self) -> Path:
        """Where uploads are spooled."""
        return self._folder

    def check_leaving(self, tenant: str, size: int) -> None:
        """Raises `StorageFull` if there is no room for an export of a tenant that was counted.

        They are not for the vault's disk: who wants to leave a full one can, if temporary files
        are on another. Where they are on that one, its floor counts for them, too.
        """
        folder = Path(tempfile.gettempdir())
        disk, taken, kept = _Disk(folder, self.leaving), self.exported[tenant], 0
        if self._is_shared(folder):
            taken += self.disk.taken_by(tenant)
            kept = self._floor + self.promised
        try:
            disk.check(size, taken=taken, kept=kept)
        except StorageFull as exc:
            raise exc.with_hint(_ANOTHER_DISK) from None

    def check_free(self, tenant: str, size: int) -> None:
        """Raises `StorageFull` if there is no room for an upload of a tenant that was counted.

        As much again is left for it: what is spooled is about to be stored, beside what it is read
        from.
        """
        disk, taken = _Disk(self._folder, self.promised), self.disk.taken_by(tenant)
        kept = self._floor
        if self._is_shared(Path(tempfile.gettempdir())):
            taken += self.exported[tenant]
            kept += self.leaving
        disk.check(size, taken=taken, kept=kept)

    def _is_shared(self, folder: Path) -> bool:
        return folder.stat().st_dev == self._folder.stat().st_dev


@dataclass(frozen=True, slots=True)
class _Disk:
    """The disk of a folder, to which so many bytes are on their way."""

    folder: Path
    coming: int

    def check(self, size: int, *, taken: int, kept: int) -> None:
        """Raises if less would be left free than a tenant has taken, of which `size` at once.

        The tenant waits for itself where it has more than that: `TooManyAtOnce`, or `StorageFull`.
        """
        free = shutil.disk_usage(self.folder).free
        left = free - self.coming - kept
        if left >= taken:
            return
        if left >= size:
            raise _too_many()
        raise StorageFull(
            f"{self.coming} bytes are on their way to {self.folder}, of which {free} are free and "
            f"{kept} are kept; a workspace takes {taken}, and as much has to be left"
        )


class Taken:
    """What one request has taken."""

    def __init__(self, room: Room, tenant: str, key: str) -> None:
        self.room = room
        self._tenant, self._key = tenant, key
        self._memory = self._disk = self._written = self._exports = self._leaving = 0
        self._answers = self._exported = 0
        self._also = list[Callable[[], None]]()

    async def take_memory(self, amount: int) -> None:
        """Waits for so much memory; raises `TooManyAtOnce`."""
        await _soon(self.room.memory.take(self._tenant, self._key, amount))
        self._memory += amount

    def grow_memory(self, amount: int) -> None:
        """Takes more memory, if it is there; raises `TooManyAtOnce`."""
        if not self.room.memory.take_at_once(self._tenant, self._key, amount):
            raise _too_many()
        self._memory += amount

    async def take_answer(self, size: int) -> None:
        """Waits for room for a large answer that was made; raises `AnswersNotTaken`.

        It is in memory while it waits: beyond what is for that, it is let go at once.
        """
        answers, waiting = self.room.answers, self.room.waiting
        # What is larger than that is let through where the key has nothing else.
        amount = min(size, answers.total // 4)
        if not answers.take_at_once(self._tenant, self._key, amount):
            if not waiting.take_at_once(self._tenant, self._key, amount):
                raise AnswersNotTaken
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await answers.take(self._tenant, self._key, amount)
            except TimeoutError:
                raise AnswersNotTaken from None
            finally:
                waiting.give_back(self._tenant, self._key, amount)
        self._answers += amount

    async def take_disk(self, amount: int) -> None:
        """Waits for so much room on disk; raises `TooManyAtOnce` or `StorageFull`."""
        await _soon(self.room.disk.take(self._tenant, self._key, amount))
        self._promise(amount)

    def write(self, size: int) -> None:
        """Says that so much is about to be written; raises if there is no room for it."""
        self._written += size
        self.room.promised -= size
        if self._written > self._disk:
            amount = max(STEP_BYTES, self._written - self._disk)
            if not self.room.disk.take_at_once(self._tenant, self._key, amount):
                raise _too_many()
            self._promise(amount)

    async def take_export(self, size: int) -> None:
        """Waits until an export may be written; raises `TooManyAtOnce` or `StorageFull`."""
        await _soon(self.room.exports.take(self._tenant))
        self._exports += 1
        self._leaving += size
        self.room.leaving += size
        self._count_export(size)
        self.room.check_leaving(self._tenant, size)

    def exported(self, size: int) -> None:
        """Says how much was written: from here on the disk says by itself what it takes."""
        self.room.leaving -= self._leaving
        self._count_export(size - self._leaving)
        self._leaving = 0

    def until_answered(self, give_back: Callable[[], None]) -> None:
        """Keeps something else until all is given back."""
        self._also.append(give_back)

    def give_back(self) -> None:
        """Gives all of it back."""
        while self._also:
            self._also.pop()()
        if self._memory:
            self.room.memory.give_back(self._tenant, self._key, self._memory)
        if self._disk:
            self.room.disk.give_back(self._tenant, self._key, self._disk)
        if self._answers:
            self.room.answers.give_back(self._tenant, self._key, self._answers)
        if self._exports:
            self.room.exports.give_back(self._tenant, self._exports)
        self.room.leaving -= self._leaving
        self._count_export(-self._exported)
        self.room.promised -= self._disk - self._written
        self._memory = self._disk = self._written = self._exports = self._leaving = 0
        self._answers = 0

    def _promise(self, amount: int) -> None:
        self._disk += amount
        self.room.promised += amount
        self.room.check_free(self._tenant, self._disk)

    def _count_export(self, size: int) -> None:
        self._exported += size
        exported = self.room.exported
        exported[self._tenant] += size
        if not exported[self._tenant]:
            del exported[self._tenant]


async def _soon(taking: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            await taking
    except TimeoutError:
        raise _too_many() from None


def _too_many() -> TooManyAtOnce:
    return TooManyAtOnce("this key or its workspace has too many large requests at once")


F = TypeVar("F", bound=IO[bytes])

PREFIX: Final = "holdfast-metrics-"
UPLOAD: Final = "holdfast-import-"
_LOCK: Final = "lock"
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@contextmanager
def shared_folder() -> Generator[str]:
    """Lends a folder until the server ends; removes those of servers that were killed."""
    remove_left()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        fd = os.open(f"{folder}/{_LOCK}.new", _FLAGS, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            # Held before it has its name: nobody finds one that is free and not yet held.
            Path(folder, f"{_LOCK}.new").rename(Path(folder, _LOCK))
            yield folder
        finally:
            os.close(fd)


def remove_left() -> None:
    """Removes the folders of servers of this user that do not run any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(fd)


@contextmanager
def given_up(file: F) -> Generator[F]:
    """Lends a file that is closed in the end, whatever the disk says: nobody wants it any more."""
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()


@contextmanager
def upload_in(folder: Path) -> Generator[BinaryIO]:
    """Lends a new file with a name, until the block ends."""
    while True:
        new = tempfile.NamedTemporaryFile(prefix=UPLOAD, dir=folder, delete=False)  # noqa: SIM115 - closed below
        with given_up(new) as file:
            path = Path(file.name)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                # Who removes what is left may have found it before it was held.
                if path.exists():
                    yield cast("BinaryIO", file)
                    return
            finally:
                path.unlink(missing_ok=True)


def remove_uploads(folder: Path) -> None:
    """Removes from a folder the uploads of servers that do not run any more."""
    for file in folder.glob(f"{UPLOAD}*"):
        with suppress(OSError):
            fd = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.unlink()
            finally:
                os.close(fd)
