"""How whoever does something that takes a while says how far it is. Imports nothing of ours."""

from collections.abc import Callable
from typing import BinaryIO, cast

Progress = Callable[[str, int, int], None]
"""Told the stage, how much of it is done, and how much there is (0: nobody knows)."""


def no_progress(_stage: str, _done: int, _total: int, /) -> None:
    """Tells nobody."""


class Reckoning:
    """How much of a directory has been read; a file that is read again counts again."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def add(self, count: int) -> None:
        """Tells of bytes that were read."""
        self._done += count
        self._progress("reading", self._done, max(self._total, self._done))

    def counting(self, stream: BinaryIO) -> BinaryIO:
        """Returns a stream that tells of itself."""
        # A cast, because all that is ever asked of the stream is to read on.
        return cast("BinaryIO", _Counted(stream, self))


class _Counted:
    """A stream, and who is told of it."""

    def __init__(self, stream: BinaryIO, told: Reckoning) -> None:
        self._stream, self._told = stream, told

    def read(self, size: int = -1, /) -> bytes:
        """Returns so many bytes, or what there is."""
        data = self._stream.read(size)
        self._told.add(len(data))
        return data
