"""Bytes of files on their way out, without ever holding a file in memory.

A download is read piece by piece as the client takes it.
"""

import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from holdfast.engine.files.download import Sendable
from holdfast.errors import TooLarge
from holdfast.errors.system import translated
from holdfast.server.requests import Request
from holdfast.server.threads import Work, in_thread

T = TypeVar("T")

PIECE_BYTES: Final = 1 << 20
"""What of a file is sent at a time."""

_in_turn = partial(in_thread, work=Work.PIECES)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A file that is about to be sent: how long it is as a whole, and the bytes to send."""

    size: int
    pieces: Iterator[bytes]

    def weight(self, size: int) -> int:
        """Returns what is in memory while so many bytes of it are sent."""
        return min(size, 2 * PIECE_BYTES)  # One that is being taken, and the next.


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
    taken.exported(os.fstat(file.fileno()).st_size)
    return _read(file), answer


def _written(write: Callable[[Path], T]) -> tuple[BinaryIO, T]:
    """Returns a file, which goes with whoever holds it open; and what wrote it answers."""
    with (
        translated("an export could not be written"),
        tempfile.TemporaryDirectory(prefix="holdfast-export-") as folder,
    ):
        target = Path(folder) / "export"
        answer = write(target)
        return target.open("rb"), answer


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
