"""Blobs in a dict: for tests, and for engines that live no longer than their process.

As strict as a disk: the same names are refused, the same ranges raise. It has no crash to
survive and no room to run out of.
"""

from collections.abc import Iterable, Iterator, Mapping

from holdfast.blobs.port import check_name, length_of_range, other_bytes
from holdfast.errors import PackMissing


class MemoryBlobStore:
    """A `BlobStore` in memory. Each method is one step on one dict, so threads are safe."""

    is_remote = False

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}
        self._mark: list[bytes] = []

    def put(self, name: str, data: bytes, /) -> None:
        """Stores the bytes under the name."""
        check_name(name)
        # A copy unless it is immutable already: what is stored may not change with a buffer.
        if self._blobs.setdefault(name, bytes(data)) != data:
            raise other_bytes(name)

    def get(self, name: str, /, *, start: int = 0, length: int | None = None) -> bytes:
        """Returns exactly the range that was asked for, or raises."""
        data = self._find(name)
        wanted = length_of_range(name, size=len(data), start=start, length=length)
        return data[start : start + wanted]

    def expect(self, ranges: Iterable[tuple[str, int, int]], /) -> None:
        """Has nothing to do: all is at hand."""

    def size(self, name: str, /) -> int:
        """Returns the number of bytes."""
        return len(self._find(name))

    def find_short(self, expected: Mapping[str, int], /) -> dict[str, int]:
        """Returns those that are shorter than expected."""
        found = {name: len(self._blobs.get(name, b"")) for name in expected}
        return {name: size for name, size in found.items() if size < expected[name]}

    def delete(self, name: str, /) -> None:
        """Removes the blob if it is there."""
        self._blobs.pop(name, None)

    def iter_names(self) -> Iterator[tuple[str, int]]:
        """Yields every name with its size, as of the first step."""
        # list() of a dict is one step; walking the dict itself would fail when a put comes in.
        for name, data in list(self._blobs.items()):
            yield name, len(data)

    def free_bytes(self) -> int | None:
        """Returns None: how much memory is left is not ours to say."""
        return None

    def find_mark(self) -> bytes | None:
        """Returns what was said first."""
        return self._mark[0] if self._mark else None

    def put_mark(self, data: bytes, /) -> None:
        """Adds what is said: the first is what counts."""
        self._mark.append(bytes(data))

    def remove_mark(self, data: bytes, /) -> None:
        """Forgets what was said, if this came first."""
        if self.find_mark() == data:
            self._mark.clear()

    def uncached(self) -> "MemoryBlobStore":
        """Returns itself: there is no cache."""
        return self

    def forget(self, name: str | None = None, /) -> None:
        """Has nothing to let go of."""

    def _find(self, name: str) -> bytes:
        data = self._blobs.get(name)
        if data is None:
            raise PackMissing(name)
        return data
