"""Bytes on their way out and in: from whatever holds them, piece by piece, with progress.

What is sent can be bytes, text, a path or an open file. It can be sent again only if it can be
read again from where it began: that decides whether a broken upload is repeated.
"""

import errno
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, cast

from holdfast.errors import (
    Conflict,
    HoldfastError,
    InvalidValue,
    NotFound,
    StorageFull,
    Unavailable,
    shorten,
)
from holdfast.errors.system import NO_ROOM
from holdfast.model.files import to_content

PIECE_BYTES: Final = 1 << 18
"""How much is read and sent at once: enough to keep a socket busy."""

Source = str | bytes | bytearray | memoryview | BinaryIO
"""What a file is written from; text becomes UTF-8."""

Target = str | os.PathLike[str] | BinaryIO
"""Where a download goes."""

Progress = Callable[[str, int, int], None]


class Content:
    """What a request sends as its body."""

    def __init__(self, source: Source | Path, *, progress: Progress) -> None:
        self._progress = progress
        self._source = to_content(source) if isinstance(source, str) else source
        self._size: int | None = None
        is_taken = isinstance(self._source, bytes | bytearray | memoryview | Path)
        self._start = 0 if is_taken else _position(cast("BinaryIO", self._source))
        self._is_used = False

    @property
    def is_repeatable(self) -> bool:
        """Whether it can be read once more."""
        return self._start is not None or not self._is_used

    @property
    def is_fixed(self) -> bool:
        """Whether it is the same for sure if it is sent again: a file may change meanwhile."""
        return isinstance(self._source, bytes)

    @property
    def is_ready(self) -> bool:
        """Whether it is there to be sent; else `made` takes a while."""
        return True

    @contextmanager
    def made(self) -> Generator[None]:
        """Makes what is to be sent, where it has to be made, and lets go of it at the end."""
        yield

    def measure(self) -> int | None:
        """Returns how many bytes will be sent; None if only the end will tell."""
        self._size = self._measured()
        return self._size

    def _measured(self) -> int | None:
        source = self._source
        if isinstance(source, Path):
            try:
                # What is no plain file, or is made as it is read, says that it has none.
                return source.stat().st_size or None
            except OSError as exc:
                raise local_error(exc, source) from exc
            except ValueError as exc:
                message = f"{shorten(str(source))}: {exc}"
                raise InvalidValue(message) from exc
        if isinstance(source, bytes | bytearray | memoryview):
            return memoryview(source).nbytes
        if self._start is None:
            return None
        try:
            here = source.tell()
            end = source.seek(0, os.SEEK_END)
            source.seek(here)
        except (OSError, ValueError):
            return None  # Unpacked while it is read: where it ends, nobody knows yet.
        return end - self._start

    def __iter__(self) -> Iterator[bytes]:
        """Yields the bytes from their beginning: as many as were announced."""
        most, done = self._size, 0
        with self._opened() as read:
            self._is_used = True
            # A file that grows meanwhile, such as a log, is sent as long as it was.
            while piece := read(PIECE_BYTES if most is None else min(PIECE_BYTES, most - done)):
                yield piece
                done += len(piece)
                self._progress("sending", done, done if most is None else most)
        if most is not None and done < most:
            message = f"what was being sent became shorter: {done} of {most} bytes were there"
            raise Conflict(message)

    @contextmanager
    def _opened(self) -> Generator[Callable[[int], bytes]]:
        source = self._source
        if isinstance(source, bytes | bytearray | memoryview):
            yield _slices(memoryview(source).cast("B"))
            return
        if not isinstance(source, Path) and self._start is not None:
            source.seek(self._start)
        with _reading(source) if isinstance(source, Path) else nullcontext(source) as file:
            yield partial(_read, file)


class Packed(Content):
    """A folder, sent as a plain tar file, which is made before anybody is asked.

    A server does not wait for long for the first bytes of what it was announced.
    """

    def __init__(self, folder: Path, *, progress: Progress) -> None:
        super().__init__(folder, progress=progress)

    @property
    def is_ready(self) -> bool:
        """Whether it is there to be sent."""
        return not isinstance(self._source, Path)

    @contextmanager
    def made(self) -> Generator[None]:
        """Packs the folder for as long as the block lasts."""
        from holdfast.mirror.packing import packed  # noqa: PLC0415 - loads a whole engine

        folder = self._source
        try:
            with packed(cast("Path", folder), progress=self._progress) as self._source:
                yield
        finally:
            self._source = folder


def local_error(error: OSError, path: Path) -> HoldfastError:
    """Returns our error for what the operating system says about a local file."""
    message = f"{shorten(str(path))}: {error.strerror or error}"
    if isinstance(error, FileNotFoundError):
        return NotFound(message)
    if error.errno in NO_ROOM:
        return StorageFull(message)
    if error.errno in {errno.EISDIR, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG}:
        return InvalidValue(message)
    return Unavailable(message)


def _reading(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as exc:
        raise local_error(exc, path) from exc


def _read(file: BinaryIO, most: int) -> bytes:
    try:
        piece = cast("object", file.read(most))  # Whatever a file of the caller's returns.
    except OSError as exc:
        raise local_error(exc, Path(str(getattr(file, "name", "a file")))) from exc
    if not isinstance(piece, bytes | bytearray):
        raise InvalidValue("a file is sent as bytes: open it in binary mode, such as 'rb'")
    return bytes(piece)


def _slices(data: memoryview) -> Callable[[int], bytes]:
    at = 0

    def read(most: int) -> bytes:
        nonlocal at
        piece = bytes(data[at : at + most])
        at += len(piece)
        return piece

    return read


def _position(file: BinaryIO) -> int | None:
    """Returns where an open file stands; None if it cannot be taken back there."""
    if not hasattr(file, "read"):
        raise InvalidValue("what is sent is bytes, text or an open file")
    return file.tell() if file.seekable() else None
