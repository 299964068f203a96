"""A backup in a bucket: an object for each of its files, under the same paths as in a directory.

So any tool copies one into the other. A file is one PUT, whole or not there; only rows of more than
32 MiB go in parts, of which a kill may leave some that nobody sees. The manifest is put over the
one that was seen (`If-Match`), or where none was (`If-None-Match`): of two that make a backup in
one place at once, the second is refused.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import obstore

from holdfast.blobs.bucket import key_of
from holdfast.blobs.buckets import Address, Beyond, Bucket, Version, count, version_of
from holdfast.blobs.places import Pieces
from holdfast.errors import BackupDamaged, Busy, PackMissing, PathExists

_WHOLE_BYTES: Final = 32 << 20
"""Up to here a file is one PUT: a pack is no larger, but for its last block."""

_PART_BYTES: Final = 8 << 20
_MOST_PARTS: Final = 9000
"""A maker takes 10,000."""

_PARTS_AT_ONCE: Final = 4

_RANGE_BYTES: Final = 8 << 20
"""What is asked for at once: a request has half a minute."""


def open_place(url: str, *, packs: str | None = None) -> "BucketPlace":
    """Returns the place that a URL names; nothing is asked yet.

    `packs` is the bucket that the packs of the vault are in. Raises `PathExists` where one would be
    inside of the other.
    """
    address = Address.of(url)
    source = None if packs is None else Address.of(packs)
    if source is not None and address.overlaps(source):
        raise PathExists(url.encode()).with_hint(
            "The packs of the vault are there, or below: give the backup a prefix of its own, or "
            "better another bucket."
        )
    return BucketPlace(address.open(), url=url, address=address, source=source)


class BucketPlace:
    """A `Place` below a prefix of a bucket."""

    is_remote = True
    is_sealed = False
    folder: Path | None = None

    def __init__(
        self, bucket: Bucket, *, url: str, address: Address, source: Address | None = None
    ) -> None:
        self.name = url
        self._bucket, self._address = bucket, address
        is_same = source is not None and source[:2] == address[:2]
        self._source = source if is_same else None

    @property
    def is_beside(self) -> bool:
        """Whether the packs are in this bucket, too."""
        return self._source is not None

    @contextmanager
    def locked(self) -> Generator[None]:
        """Keeps nobody out: `publish` does."""
        yield

    def sizes(self) -> dict[str, int]:
        """Returns all objects below the prefix."""
        return dict(self._bucket.iter_keys())

    def read(self, path: str, /) -> Iterator[bytes] | None:
        """Yields the object in ranges, of the version that the first of them is of."""
        found = self._range(path, 0, None)
        return None if found is None else self._rest(path, *found)

    def write(self, path: str, pieces: Pieces, /, *, size: int) -> None:
        """Puts an object; a large one in parts, none of which is seen before all are there."""
        is_whole = size <= _WHOLE_BYTES
        part = max(_PART_BYTES, -(-size // _MOST_PARTS))
        count("put", written=size)
        with self._bucket.translated(path, what=path):
            obstore.put(
                self._bucket.store,
                path,
                b"".join(pieces) if is_whole else iter(pieces),
                use_multipart=not is_whole,
                chunk_size=part,
                max_concurrency=_PARTS_AT_ONCE,
            )

    def copy_pack(self, name: str, path: str, /, *, size: int) -> bool:
        """Copies the object inside of the bucket, if it is the packs' as well."""
        if self._source is None:
            return False
        root = self._address._replace(prefix="").open()
        to, origin = _join(self._address.prefix, path), _join(self._source.prefix, key_of(name))
        count("put")
        with root.translated(path, what=path):
            obstore.copy(root.store, origin, to)
            return obstore.head(root.store, to)["size"] == size

    def publish(self, path: str, data: bytes, /, *, over: bytes | None) -> None:
        """Puts the manifest over the one that was seen."""
        version: Version | None = None
        if over is not None:
            found = self._range(path, 0, None)
            if found is None or b"".join(self._rest(path, *found)) != over:
                raise _busy(self.name)
            version = found[1]
        self._bucket.create(path, data, lambda: _busy(self.name), what=path, over=version)

    def remove(self, path: str, /) -> None:
        """Deletes the object, if it is there."""
        count("delete")
        with suppress(PackMissing), self._bucket.translated(path, what=path):
            obstore.delete(self._bucket.store, path)

    def _rest(self, path: str, first: bytes, version: Version, size: int) -> Iterator[bytes]:
        yield first
        at = len(first)
        while at < size:
            found = self._range(path, at, version)
            if found is None or not found[0]:
                raise BackupDamaged(path, reason=f"it ends after {at} of {size} bytes")
            yield found[0]
            at += len(found[0])

    def _range(
        self, path: str, at: int, version: Version | None
    ) -> tuple[bytes, Version, int] | None:
        """Returns bytes from a place on, which version they are of, and how many there are."""
        try:
            with self._bucket.translated(path, what=path):
                found = obstore.get(
                    self._bucket.store, path, options={"range": (at, at + _RANGE_BYTES)}
                )
                meta, data = found.meta, bytes(found.bytes())
        except PackMissing:
            return None
        except Beyond:
            return b"", Version(), 0
        count("get", read=len(data))
        now = version_of(meta["e_tag"], meta["version"])
        if version is not None and now != version:
            raise BackupDamaged(path, reason="it became another one while it was read")
        return data, now, meta["size"]


def _join(prefix: str, path: str) -> str:
    return f"{prefix}/{path}" if prefix else path


def _busy(name: str) -> Busy:
    return Busy(f"another backup has been made in {name} meanwhile")
