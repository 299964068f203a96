"""Bytes of files on their way out and inside of JSON, without ever holding a file in memory.

A download is read piece by piece as the client takes it. A file that came as a string of JSON is
unquoted piece by piece as the engine takes it: all at once it would keep the interpreter from
everybody else.
"""

import io
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import msgspec

from holdfast.engine.files.download import Sendable, find_sendable
from holdfast.engine.files.reader import FilesReader
from holdfast.errors import TooLarge
from holdfast.errors.system import from_system
from holdfast.server.problems import Unfit
from holdfast.server.requests import Request
from holdfast.server.threads import Work, in_thread

T = TypeVar("T")

PIECE_BYTES: Final = 1 << 20
"""What of a file is sent at a time."""

_in_turn = partial(in_thread, work=Work.PIECES)

UNQUOTED_BYTES: Final = 256 << 10
"""So much of a string is unquoted at a time: 1 ms at the worst."""

# Possessive: what cannot match is not tried in parts. A pair of escapes that are one character
# stays together, and half of one is none of these.
_WHOLE: Final = re.compile(
    rb"(?:[^\\]++|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u(?![dD][89a-fA-F])....|\\[^u])*+", re.DOTALL
)

_MASK, _LATER = 0b1100_0000, 0b1000_0000
"""What tells the later bytes of a character from its first."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A file that is about to be sent: how long it is as a whole, and the bytes to send."""

    size: int
    pieces: Iterator[bytes]


class Unquoted(io.RawIOBase):
    """The UTF-8 of a JSON string, as a file; reading it raises `Unfit` or `TooLarge`."""

    def __init__(self, quoted: msgspec.Raw, *, max_bytes: int) -> None:
        super().__init__()
        self._quoted, self._max_bytes = memoryview(quoted), max_bytes
        if self._quoted[0] != ord('"'):
            raise Unfit("the content of a file is text", param="content")
        self._at, self._size, self._ahead = 1, 0, b""

    def readable(self) -> bool:
        """Says that it can be read."""
        return True

    def seekable(self) -> bool:
        """Says that it can be read again."""
        return True

    def tell(self) -> int:
        """Returns how much was read."""
        return self._size - len(self._ahead)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Goes back to the beginning, and nowhere else."""
        if offset or whence:
            raise io.UnsupportedOperation("a quoted text is read from its beginning")
        self._at, self._size, self._ahead = 1, 0, b""
        return 0

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - as its base has it
        """Fills a buffer as far as there is something."""
        if not self._ahead:
            self._ahead = self._next()
        part, self._ahead = self._ahead[: len(buffer)], self._ahead[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def _next(self) -> bytes:
        start, end = self._at, len(self._quoted) - 1
        if start >= end:
            return b""
        whole = _WHOLE.match(self._quoted, start, min(start + UNQUOTED_BYTES, end))
        stop = start if whole is None else whole.end()
        while start < stop < end and self._quoted[stop] & _MASK == _LATER:
            stop -= 1  # To where a character begins.
        if stop == start:
            raise Unfit("the content holds half a character", param="content")
        try:
            text: str = msgspec.json.decode(b'"%b"' % self._quoted[start:stop], type=str)
            piece = text.encode()
        except (msgspec.DecodeError, UnicodeError) as exc:
            raise Unfit(f"the content is no text: {exc}", param="content") from exc
        self._at, self._size = stop, self._size + len(piece)
        if self._size > self._max_bytes:
            raise too_large(self._max_bytes)
        return piece


async def exported(
    request: Request, write: Callable[[Path], T], *, size: int
) -> tuple[AsyncIterator[bytes], T]:
    """Returns what `write` writes to a file, of about such a size, in pieces; and its answer.

    All of it is written before the first byte is answered: what fails is told as an error, not
    by an answer that ends too early.
    """
    taken = request.taken
    await taken.take_export(size)
    file, answer = await in_thread(partial(_written, write), work=Work.LONG)
    taken.exported()
    return _read(file), answer


def _written(write: Callable[[Path], T]) -> tuple[BinaryIO, T]:
    """Returns a file, which goes with whoever holds it open; and what wrote it answers."""
    try:
        with tempfile.TemporaryDirectory(prefix="holdfast-export-") as folder:
            target = Path(folder) / "export"
            answer = write(target)
            return target.open("rb"), answer
    except OSError as exc:
        raise from_system(exc, "an export could not be written") from exc


async def _read(file: BinaryIO) -> AsyncIterator[bytes]:
    with file:
        while piece := await _in_turn(file.read, PIECE_BYTES):
            yield piece


def begun(file: Sendable, *, start: int = 0) -> Outgoing:
    """Begins to send a file, from an offset on; raises if what is there cannot be read.

    Once an answer has begun, all that is left for what is damaged is to break it off.
    """
    pieces = file.pieces(start)
    return Outgoing(file.size, chain([next(pieces, b"")], pieces))


def open_file(files: FilesReader, path: str) -> Outgoing:
    """Opens a file to be sent; raises if it cannot be, or its beginning cannot be read."""
    return begun(find_sendable(files, path))


async def send(outgoing: Outgoing, *, max_bytes: int) -> AsyncIterator[bytes]:
    """Yields a file's bytes up to a number of them, each piece read in a thread."""
    left = max_bytes
    while left > 0:
        piece = await _in_turn(partial(next, outgoing.pieces, b""))
        if not piece:
            return
        yield piece[:left]
        left -= len(piece)


def too_large(max_bytes: int) -> TooLarge:
    """Returns what is raised for a file that is larger than accepted."""
    return TooLarge(f"a file may have {max_bytes} bytes; this one has more")
