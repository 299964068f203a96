"""Blobs as objects in a bucket: `<prefix>/<last two characters of the name>/<name>.pack`.

The same names as in a directory, so that one is copied into the other with any tool.

A blob is one PUT that creates (`If-None-Match: *`): it is there as a whole or not at all, nobody
overwrites anything, and there are no parts to be left behind. The answer to a PUT may be lost. It
is tried again then, and meets its own bytes: that is success. Other bytes are an error.

A range is part of somebody's request, and has ten seconds; whole blobs, lists and what is written
have a minute. How a bucket is spoken to is `buckets`.
"""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Final

import obstore

from holdfast.blobs.buckets import AT_ONCE, PAGE, Address, Beyond, Bucket, Taken, count
from holdfast.blobs.port import MARK, check_name, is_blob_name, length_of_range, other_bytes
from holdfast.errors import Incompatible, PackDamaged, PackMissing
from holdfast.instruments import SPANS

_SUFFIX: Final = ".pack"
_FEW: Final = 32
"""So many blobs are asked for one by one, without a look at any list."""

_FOR_A_PAGE: Final = 128
"""For so many that are wanted, a page of the list is read: it takes as long as to ask for them, 16
at once. So whoever has most of a bucket asks for little but its list, and who has a small part of
it does not read the list of all the others."""

_FARTHEST: Final = 1 << 48
"""No object of any maker has so many bytes: a range behind it is not asked for."""


def open_bucket(url: str) -> "BucketBlobStore":
    """Returns the blobs in the bucket that a URL names; nothing is asked yet."""
    return BucketBlobStore(Address.of(url).open())


def key_of(name: str) -> str:
    """Returns the name of the object that a blob is."""
    return f"{name[-2:]}/{name}{_SUFFIX}"


class BucketBlobStore:
    """A `BlobStore` of one object per blob, each written once."""

    is_remote = True

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def put(self, name: str, data: bytes, /) -> None:
        """Creates the object; one that is there already has to be the same."""
        check_name(name)
        # A copy unless it is immutable already: what is sent may not change with a buffer.
        sent, what = bytes(data), f"blob {name}"
        self._bucket.create(key_of(name), sent, lambda: other_bytes(name), what=what)

    def get(self, name: str, /, *, start: int = 0, length: int | None = None) -> bytes:
        """Returns exactly the range that was asked for, or raises."""
        if length is None or length <= 0 or start < 0:
            # All there is, or nothing: either way its size decides.
            return self._get_rest(name, start=start, length=length)
        data, size = self.read(name, start=start, length=length)
        if len(data) != length:
            length_of_range(name, size=size, start=start, length=length)
            raise PackDamaged(name, reason="the bucket has sent less than was asked for")
        return data

    def read(self, name: str, /, *, start: int, length: int) -> tuple[bytes, int]:
        """Returns what there is of a range, and how many bytes the whole blob has: one request.

        Raises `PackDamaged` if the blob ends before the range begins.
        """
        key = self._key_of(name)
        if start + length <= _FARTHEST:
            try:
                with SPANS.around("bucket.get", self._bucket.translated(name)):
                    found = obstore.get(
                        self._bucket.quick, key, options={"range": (start, start + length)}
                    )
                    size, data = found.meta["size"], bytes(found.bytes())
                    count("get", read=len(data))
                    return data, size
            except Beyond:
                pass
        size = self.size(name)
        length_of_range(name, size=size, start=start, length=length)
        raise PackDamaged(name, reason=f"the bucket has no bytes {start} to {start + length} of it")

    def expect(self, ranges: Iterable[tuple[str, int, int]], /) -> None:
        """Does nothing: there is nowhere to keep them."""

    def size(self, name: str, /) -> int:
        """Returns the number of bytes."""
        key = self._key_of(name)
        count("head")
        with SPANS.around("bucket.head", self._bucket.translated(name)):
            return obstore.head(self._bucket.quick, key)["size"]

    def find_short(self, expected: Mapping[str, int], /) -> dict[str, int]:
        """Returns those that are shorter than expected, or not there."""
        usable = {name for name in expected if is_blob_name(name)}
        found = dict.fromkeys(expected, 0)
        if len(usable) > _FEW:
            most = PAGE * -(-len(usable) // _FOR_A_PAGE)
            listed = islice(self.iter_names(), most)
            found |= {name: size for name, size in listed if name in usable}
            # It ends before all are seen, and may lag behind: what it lacks is asked for.
            usable = {name for name in usable if found[name] < expected[name]}
        if usable:
            with ThreadPoolExecutor(min(AT_ONCE, len(usable))) as pool:
                found |= dict(zip(usable, pool.map(self._size_or_0, usable), strict=True))
        return {name: size for name, size in found.items() if size < expected[name]}

    def delete(self, name: str, /) -> None:
        """Removes the object if it is there."""
        if is_blob_name(name):
            count("delete")
            deleting = SPANS.around("bucket.delete", self._bucket.translated(name))
            with suppress(PackMissing), deleting:
                obstore.delete(self._bucket.store, key_of(name))

    def iter_names(self) -> Iterator[tuple[str, int]]:
        """Yields every name with its size, a thousand to a request."""
        for key, size in self._bucket.iter_keys():
            shard, _, leaf = key.rpartition("/")
            name = leaf.removesuffix(_SUFFIX)
            if leaf.endswith(_SUFFIX) and is_blob_name(name) and shard == name[-2:]:
                yield name, size

    def free_bytes(self) -> int | None:
        """Returns None: a bucket has no end."""
        return None

    def find_mark(self) -> bytes | None:
        """Returns what is in the object, or None without one."""
        try:
            with self._bucket.translated(MARK):
                return bytes(obstore.get(self._bucket.quick, MARK).bytes())
        except PackMissing:
            return None

    def put_mark(self, data: bytes, /) -> None:
        """Creates the object, unless it is there; sees that a second one is refused."""
        if not self._bucket.is_conditional and self.find_mark() is not None:
            return
        with suppress(Taken):
            self._bucket.create(MARK, data, Taken, what=MARK)
        held = self.find_mark()
        if not self._bucket.is_conditional or held is None:
            return
        try:
            with self._bucket.translated(MARK):
                # The same again: should it be taken, nothing has changed.
                obstore.put(self._bucket.store, MARK, held, mode="create", use_multipart=False)
        except Taken:
            return
        message = f"{self._bucket.name} lets one writer overwrite another: it ignores If-None-Match"
        raise Incompatible(message).with_hint(
            "Use a server that has conditional writes. Names are random and never used twice, so "
            "`?unconditional=1` behind the URL takes it as it is, without that second fence."
        )

    def remove_mark(self, data: bytes, /) -> None:
        """Removes the object, if this is in it."""
        if self.find_mark() == data:
            with suppress(PackMissing), self._bucket.translated(MARK):
                obstore.delete(self._bucket.store, MARK)

    def uncached(self) -> "BucketBlobStore":
        """Returns itself: there is no cache."""
        return self

    def forget(self, name: str | None = None, /) -> None:
        """Has nothing to let go of."""

    def _get_rest(self, name: str, *, start: int, length: int | None) -> bytes:
        key = self._key_of(name)
        if start == 0 and length is None:
            with SPANS.around("bucket.get", self._bucket.translated(name)):
                data = bytes(obstore.get(self._bucket.store, key).bytes())
            count("get", read=len(data))
            return data
        wanted = length_of_range(name, size=self.size(name), start=start, length=length)
        return self.get(name, start=start, length=wanted) if wanted else b""

    def _size_or_0(self, name: str) -> int:
        try:
            return self.size(name)
        except PackMissing:
            return 0

    def _key_of(self, name: str) -> str:
        if not is_blob_name(name):
            raise PackMissing(name)
        return key_of(name)
