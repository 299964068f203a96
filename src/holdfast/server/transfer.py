"""Bytes of files on their way in and out, without ever holding a file in memory.

An upload is spooled first, to memory while it is small and to a file without a name after that:
the engine reads it from there in its own thread, and a client that goes away has written nothing.
A download is read piece by piece as the client takes it.
"""

import errno
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar, cast

from anyio import to_thread
from litestar import Request
from litestar.exceptions import InternalServerException

from holdfast.engine.files import FilesReader
from holdfast.engine.sending import Sendable, find_sendable
from holdfast.errors import StorageFull, TooLarge, Unavailable
from holdfast.server.problems import Unfit

T = TypeVar("T")

SPOOLED_BYTES: Final = 1 << 20
"""Up to here an upload stays in memory."""

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A file that is about to be sent: how long it is as a whole, and the bytes to send."""

    size: int
    pieces: Iterator[bytes]


@asynccontextmanager
async def received(
    request: "Request[Any, Any, Any]", *, max_bytes: int
) -> AsyncGenerator[BinaryIO]:
    """Opens the body of a request as a file at its beginning; raises `TooLarge`."""
    size = 0
    with tempfile.SpooledTemporaryFile[bytes](max_size=SPOOLED_BYTES) as spooled:
        async for piece in _pieces(request, max_bytes):
            size += len(piece)
            with _told():
                # Only beyond that size is there a disk to wait for.
                if size > SPOOLED_BYTES:
                    await to_thread.run_sync(spooled.write, piece)
                else:
                    spooled.write(piece)
        spooled.seek(0)
        yield cast("BinaryIO", spooled)


async def receive_to(request: "Request[Any, Any, Any]", target: Path, *, max_bytes: int) -> None:
    """Writes the body of a request to a file; raises `TooLarge`."""
    file = await to_thread.run_sync(target.open, "wb")
    with _told(), file:
        async for piece in _pieces(request, max_bytes):
            await to_thread.run_sync(file.write, piece)


def exported(write: Callable[[Path], T]) -> tuple[BinaryIO, T]:
    """Returns what `write` writes to a file, which goes with whoever holds it open; and its answer.

    All of it is written before the first byte is answered: what fails is told as an error, not
    by an answer that ends too early.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-export-") as folder:
        target = Path(folder) / "export"
        answer = write(target)
        return target.open("rb"), answer


async def pieces_of(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yields the bytes of an open file, each piece read in a thread; closes it in the end."""
    with file:
        while piece := await to_thread.run_sync(file.read, SPOOLED_BYTES):
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
        piece = await to_thread.run_sync(next, outgoing.pieces, b"")
        if not piece:
            return
        yield piece[:left]
        left -= len(piece)


async def _pieces(request: "Request[Any, Any, Any]", max_bytes: int) -> AsyncIterator[bytes]:
    """Yields the body of a request; raises for one that is too large, or ends too early."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > max_bytes:
        raise _too_large(max_bytes)
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > max_bytes:
                raise _too_large(max_bytes)
            yield piece
    except InternalServerException as exc:
        # The framework's word for a client that went away.
        raise Unfit("the body ended before it was complete") from exc


@contextmanager
def _told() -> Generator[None]:
    """Turns what the operating system says about a file of ours into an error of ours."""
    try:
        yield
    except OSError as exc:
        message = f"an upload could not be kept: {exc.strerror or exc}"
        raise (StorageFull if exc.errno in _NO_ROOM else Unavailable)(message) from exc


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"a file may have {max_bytes} bytes; this one has more")
