"""Where a backup is: files under paths, each of them there as a whole or not at all.

Beside `port.BlobStore`, whose blobs are never overwritten, since a backup has one file that is: its
manifest, which is published last, over the one that was there and over no other.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Final, Protocol

PIECE_BYTES: Final = 1 << 20
"""What is read and written at a time."""

Pieces = Iterable[bytes]
"""The bytes of a file, from its beginning on; no piece is larger than some megabytes."""


class Place(Protocol):
    """A place for one backup.

    - What is read is what was written, or an error.
    - `write` and `publish` are atomic and durable: when they return, the whole is there, and when
      they raise or the process dies, it is there or what was there before.
    - A place that does not answer raises `Unavailable`; nothing of its own errors gets out.
    """

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def folder(self) -> Path | None:
        """The directory that it is; None for what is none."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether to read something back is a request over a network, and costs money."""
        ...

    @property
    def is_sealed(self) -> bool:
        """Whether all that is written is encrypted, and nothing else read."""
        ...

    @property
    def is_beside(self) -> bool:
        """Whether the packs of the vault are in the same bucket: who loses it loses both."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Keeps others out, as far as the place can; raises `Busy` if somebody is there."""
        ...

    def sizes(self) -> dict[str, int]:
        """Returns the path of every file with the number of its bytes."""
        ...

    def read(self, path: str, /) -> Iterator[bytes] | None:
        """Yields the bytes of a file; returns None if there is none."""
        ...

    def write(self, path: str, pieces: Pieces, /, *, size: int) -> None:
        """Writes a file of so many bytes; one that was there is replaced."""
        ...

    def copy_pack(self, name: str, path: str, /, *, size: int) -> bool:
        """Has a pack of the vault copied where it is; False where it has to be written."""
        ...

    def publish(self, path: str, data: bytes, /, *, over: bytes | None) -> None:
        """Puts a file in the place of the one with the bytes `over`, or of none.

        Raises `Busy` if it is another one by now.
        """
        ...

    def remove(self, path: str, /) -> None:
        """Removes a file, if it is there."""
        ...


def plain_folder(place: Place) -> Path | None:
    """Returns the directory in which all is as it was written; None for what is none."""
    return None if place.is_sealed else place.folder


def read_whole(place: Place, path: str) -> bytes | None:
    """Returns the bytes of a file; None if there is none."""
    pieces = place.read(path)
    return None if pieces is None else b"".join(pieces)


def in_pieces(data: bytes) -> Iterator[bytes]:
    """Yields bytes that are at hand, a piece at a time."""
    for at in range(0, len(data), PIECE_BYTES):
        yield data[at : at + PIECE_BYTES]


def pieces_of(file: BinaryIO) -> Iterator[bytes]:
    """Yields the bytes of a file on this machine, from its beginning on."""
    file.seek(0)
    while piece := file.read(PIECE_BYTES):
        yield piece
