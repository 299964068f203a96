"""What a place for packs promises, and the checks that every one of them makes.

The engine relies on exactly this: bytes first, name last. It puts a pack, and only when
`put` has returned does it name the pack in the catalog; so whatever the catalog names must
be there, whole, after any crash. What nothing names is found by `iter_names` and deleted.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from holdfast.errors import InvalidName, InvalidValue, PackDamaged, Unavailable

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")

BUCKET_SCHEMES: Final = ("s3://", "gs://", "az://")
"""How the URL of a bucket begins."""

MARK: Final = "vault.json"
"""What a place says about itself stands under this name, beside the shards."""


class BlobStore(Protocol):
    """Bytes kept under names.

    - `put` is atomic and durable. Once it returns, `get` returns exactly those bytes, also
      after a power cut. When it raises or the process dies, nothing or the whole is there.
    - `get` returns exactly the range that was asked for, or raises. It never returns less.
    - A name that does not match `[a-z0-9][a-z0-9-]{0,63}` becomes no path and no request: to
      put something there is `InvalidName`, and else there is no such blob. A row of the catalog
      in which a bit flipped may name one.
    - All methods are safe to call from many threads and several processes at once.
    - A place that does not answer raises `Unavailable`; nothing of its own errors gets out.
    """

    @property
    def is_remote(self) -> bool:
        """Whether a question is a request over a network: nobody asks while others wait for it."""
        ...

    def put(self, name: str, data: bytes, /) -> None:
        """Stores the bytes under a name that is new.

        Put again, the same bytes are there: whoever heard no answer may repeat it. Other bytes
        under the name raise `Unavailable`, and what was there stays: names are random, so another
        try has another one. Two that put different bytes at once leave the whole of one of them.
        Raises `StorageFull` when there is no room, and then has taken none.
        """
        ...

    def get(self, name: str, /, *, start: int = 0, length: int | None = None) -> bytes:
        """Returns `length` bytes from `start` on, or all up to the end.

        Raises `PackMissing` when there is no such blob, `PackDamaged` when it is shorter
        than that, `InvalidValue` for a range that no blob could have. A range has a deadline, as
        somebody waits for it: from a place that does not answer it is `Unavailable` within 10 s.
        """
        ...

    def expect(self, ranges: Iterable[tuple[str, int, int]], /) -> None:
        """Hears which ranges will be asked for soon: each a name, a start and a length.

        Who is far away may fetch some of them until then, several at a time. Nobody waits, and
        nothing is raised: whatever is wrong with one is said to who asks for it.
        """
        ...

    def size(self, name: str, /) -> int:
        """Returns the number of bytes; raises `PackMissing` when there is no such blob."""
        ...

    def find_short(self, expected: Mapping[str, int], /) -> dict[str, int]:
        """Returns which of these blobs have fewer bytes than expected, and how many they have.

        What is not there has none. A blob that was found whole may be believed to be so for a
        minute, but not that it is there. Many are asked for together.
        """
        ...

    def delete(self, name: str, /) -> None:
        """Removes the blob, and what an interrupted put of that name has left.

        A name that is not there is no error. A power cut soon after may bring the blob back,
        never a part of it; `iter_names` then shows it again.
        """
        ...

    def iter_names(self) -> Iterator[tuple[str, int]]:
        """Yields every name once, in no promised order, with the bytes it takes up.

        Names of which only the remains of an interrupted put are there are among them, and
        such remains count. Blobs put or deleted meanwhile may or may not be.
        """
        ...

    def free_bytes(self) -> int | None:
        """Returns how much room is left, or None where that has no meaning."""
        ...

    def find_mark(self) -> bytes | None:
        """Returns what the place says about itself (`vault.json`), or None if it says nothing."""
        ...

    def put_mark(self, data: bytes, /) -> None:
        """Has the place say this about itself, unless it says something already.

        Raises `Incompatible` for a place that would let one writer overwrite another.
        """
        ...

    def remove_mark(self, data: bytes, /) -> None:
        """Has the place say nothing about itself any more, if it is this that it says."""
        ...

    def uncached(self) -> "BlobStore":
        """Returns the same blobs, past every cache."""
        ...

    def forget(self, name: str | None = None, /) -> None:
        """Lets go of what a cache has of a blob, or of all of them."""
        ...


def is_blob_name(name: str) -> bool:
    """Returns whether a blob can have this name."""
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> None:
    """Raises `InvalidName` unless a blob can have this name."""
    if not is_blob_name(name):
        raise InvalidName("blob name", name, reason=f"it does not match {_NAME.pattern}")


def other_bytes(name: str) -> Unavailable:
    """Returns what a put raises whose name has other bytes."""
    message = f"blob {name}: other bytes are there under this name, and stay"
    return Unavailable(message).with_hint("Try again: it is given another name then.")


def length_of_range(name: str, *, size: int, start: int, length: int | None) -> int:
    """Returns how many bytes of a blob of `size` bytes a `get` has to return.

    Raises `InvalidValue` for a negative range, `PackDamaged` when the blob ends before it.
    """
    if start < 0 or (length is not None and length < 0):
        message = f"a blob has no range from {start} of length {length}"
        raise InvalidValue(message)
    end = start if length is None else start + length
    if end > size:
        raise PackDamaged(name, reason=f"it has {size} bytes, {end} were asked for")
    return size - start if length is None else length
