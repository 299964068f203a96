"""Blobs as objects in a bucket: `<prefix>/<last two characters of the name>/<name>.pack`.

The same names as in a directory, so that one is copied into the other with any tool. S3 and what
speaks as it does (`s3://bucket/prefix`), Google Cloud Storage (`gs://`), Azure (`az://container/…`);
keys, regions and endpoints are what obstore finds in the environment (`AWS_*`, `GOOGLE_*`,
`AZURE_*`).

A blob is one PUT that creates (`If-None-Match: *`): it is there as a whole or not at all, nobody
overwrites anything, and there are no parts to be left behind. The answer to a PUT may be lost. It
is tried again then, and meets its own bytes: that is success. Other bytes are an error.

Two clients with different patience: a range is part of somebody's request, and has ten seconds;
whole blobs, lists and what is written have a minute.
"""

import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from holdfast.blobs.port import (
    BUCKET_SCHEMES,
    MARK,
    check_name,
    is_blob_name,
    length_of_range,
    other_bytes,
)
from holdfast.errors import (
    HoldfastError,
    Incompatible,
    InvalidValue,
    PackDamaged,
    PackMissing,
    StorageDenied,
    StorageFull,
    Unavailable,
    shorten,
)
from holdfast.spans import SPANS
from holdfast.tallies import TALLIES

Store = AzureStore | GCSStore | MemoryStore | S3Store

_SUFFIX: Final = ".pack"
_PAGE: Final = 1000
"""Names that one answer to a question for all of them holds."""

_FEW: Final = 32
"""So many blobs are asked for one by one, at once; for more, the names of all are listed."""

_AT_ONCE: Final = 16

_FARTHEST: Final = 1 << 48
"""No object of any maker has so many bytes: a range behind it is not asked for."""

_PUT_TRIES: Final = 5
_PUT_PATIENCE_S: Final = 40.0
_PUT_PAUSE_S: Final = 0.1
"""A PUT whose answer was lost is repeated, after a pause that doubles."""

_NO_BUCKET: Final = re.compile(r"NoSuchBucket|ContainerNotFound|specified bucket does not exist")
_NO_ROOM: Final = re.compile(
    r"QuotaExceeded|InsufficientStorage|status code: 507|XMinioStorageFull"
)
_BEYOND: Final = re.compile(r"status code: 416|InvalidRange|Invalid range")
_DENIED: Final = re.compile(r"status code: 40[13]|(?i:credential)")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>|status code: (\d+ [\w ]+)")
"""What of an error's text says what it is; also in it are addresses, and how long it took."""


class _Patience(NamedTuple):
    """How long one request may take, and how long it is tried again."""

    request_s: float
    tries_s: float
    tries: int


QUICK: Final = _Patience(request_s=5, tries_s=4, tries=3)
PATIENT: Final = _Patience(request_s=30, tries_s=40, tries=6)


class Address(NamedTuple):
    """Where a bucket is, as its URL says."""

    scheme: str
    bucket: str
    prefix: str
    is_conditional: bool = True
    """Whether the server keeps one writer from overwriting another."""

    @classmethod
    def of(cls, url: str) -> "Address":
        """Reads a URL; raises `InvalidValue` for what names no bucket."""
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        is_conditional = options.pop("unconditional", "0") != "1"
        is_ours = f"{parts.scheme}://" in BUCKET_SCHEMES and parts.hostname and parts.port is None
        if not is_ours or parts.username or parts.fragment or options:
            message = f"a bucket is s3://BUCKET/PREFIX, gs://… or az://…, not {shorten(url)}"
            raise InvalidValue(message).with_hint(
                "Keys and the endpoint are in the environment: AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL."
            )
        return cls(parts.scheme, parts.netloc, parts.path.strip("/"), is_conditional)

    def connect(self, patience: _Patience) -> Store:
        """Returns a client; nothing is asked yet."""
        client_options = {
            "connect_timeout": timedelta(seconds=3),
            "timeout": timedelta(seconds=patience.request_s),
            "pool_idle_timeout": timedelta(seconds=60),
            "pool_max_idle_per_host": str(_AT_ONCE),
            # Of an endpoint that somebody has named with http:// themselves.
            "allow_http": True,
        }
        retry_config = {
            "max_retries": patience.tries,
            "retry_timeout": timedelta(seconds=patience.tries_s),
            "backoff": {
                "init_backoff": timedelta(seconds=0.1),
                "max_backoff": timedelta(seconds=3),
                "base": 2,
            },
        }
        kind = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}[self.scheme]
        try:
            return kind(
                self.bucket,
                prefix=self.prefix or None,
                client_options=client_options,  # pyright: ignore[reportArgumentType] - one for all
                retry_config=retry_config,  # pyright: ignore[reportArgumentType] - as above
            )
        except exceptions.BaseError as exc:
            message = f"the bucket {self.bucket} cannot be used: {_reason(exc)}"
            raise InvalidValue(message) from exc


def open_bucket(url: str) -> "BucketBlobStore":
    """Returns the blobs in the bucket that a URL names; nothing is asked yet."""
    address = Address.of(url)
    return BucketBlobStore(
        address.connect(PATIENT),
        quick=address.connect(QUICK),
        bucket=f"{address.scheme}://{address.bucket}",
        is_conditional=address.is_conditional,
    )


class BucketBlobStore:
    """A `BlobStore` of one object per blob, each written once."""

    is_remote = True

    def __init__(
        self,
        store: Store,
        *,
        quick: Store | None = None,
        bucket: str = "the bucket",
        is_conditional: bool = True,
    ) -> None:
        self._store, self._quick = store, quick or store
        self._bucket = bucket
        self._mode: Final = "create" if is_conditional else "overwrite"

    def put(self, name: str, data: bytes, /) -> None:
        """Creates the object; one that is there already has to be the same."""
        check_name(name)
        # A copy unless it is immutable already: what is sent may not change with a buffer.
        self._create(_key(name), bytes(data), lambda: other_bytes(name), what=f"blob {name}")

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
                with SPANS.around("bucket.get", self._translated(name)):
                    found = obstore.get(
                        self._quick, key, options={"range": (start, start + length)}
                    )
                    size, data = found.meta["size"], bytes(found.bytes())
                    _count("get", read=len(data))
                    return data, size
            except _Beyond:
                pass
        size = self.size(name)
        length_of_range(name, size=size, start=start, length=length)
        raise PackDamaged(name, reason=f"the bucket has no bytes {start} to {start + length} of it")

    def size(self, name: str, /) -> int:
        """Returns the number of bytes."""
        key = self._key_of(name)
        _count("head")
        with SPANS.around("bucket.head", self._translated(name)):
            return obstore.head(self._quick, key)["size"]

    def find_short(self, expected: Mapping[str, int], /) -> dict[str, int]:
        """Returns those that are shorter than expected, or not there."""
        usable = {name for name in expected if is_blob_name(name)}
        found = dict.fromkeys(expected, 0)
        if len(usable) > _FEW:
            found |= {name: size for name, size in self.iter_names() if name in usable}
            # A list may lag behind: what it lacks is asked for.
            usable = {name for name in usable if found[name] < expected[name]}
        if usable:
            with ThreadPoolExecutor(min(_AT_ONCE, len(usable))) as pool:
                found |= dict(zip(usable, pool.map(self._size_or_0, usable), strict=True))
        return {name: size for name, size in found.items() if size < expected[name]}

    def delete(self, name: str, /) -> None:
        """Removes the object if it is there."""
        if is_blob_name(name):
            _count("delete")
            deleting = SPANS.around("bucket.delete", self._translated(name))
            with suppress(PackMissing), deleting:
                obstore.delete(self._store, _key(name))

    def iter_names(self) -> Iterator[tuple[str, int]]:
        """Yields every name with its size, a thousand to a request."""
        pages = _pages(self._store, _PAGE)
        while True:
            _count("list")
            with SPANS.around("bucket.list", self._translated(None)):
                page = next(pages, None)
            if page is None:
                return
            for found in page:
                shard, _, leaf = found["path"].rpartition("/")
                name = leaf.removesuffix(_SUFFIX)
                if leaf.endswith(_SUFFIX) and is_blob_name(name) and shard == name[-2:]:
                    yield name, found["size"]

    def free_bytes(self) -> int | None:
        """Returns None: a bucket has no end."""
        return None

    def find_mark(self) -> bytes | None:
        """Returns what is in the object, or None without one."""
        try:
            with self._translated(MARK):
                return bytes(obstore.get(self._quick, MARK).bytes())
        except PackMissing:
            return None

    def put_mark(self, data: bytes, /) -> None:
        """Creates the object, unless it is there; sees that a second one is refused."""
        if self._mode == "overwrite" and self.find_mark() is not None:
            return
        with suppress(_Taken):
            self._create(MARK, data, _Taken, what=MARK)
        held = self.find_mark()
        if self._mode == "overwrite" or held is None:
            return
        try:
            with self._translated(MARK):
                # The same again: should it be taken, nothing has changed.
                obstore.put(self._store, MARK, held, mode="create", use_multipart=False)
        except _Taken:
            return
        message = f"{self._bucket} lets one writer overwrite another: it ignores If-None-Match"
        raise Incompatible(message).with_hint(
            "Use a server that has conditional writes. Names are random and never used twice, so "
            "`?unconditional=1` behind the URL takes it as it is, without that second fence."
        )

    def uncached(self) -> "BucketBlobStore":
        """Returns itself: there is no cache."""
        return self

    def forget(self, name: str | None = None, /) -> None:
        """Has nothing to let go of."""

    def _get_rest(self, name: str, *, start: int, length: int | None) -> bytes:
        key = self._key_of(name)
        if start == 0 and length is None:
            with SPANS.around("bucket.get", self._translated(name)):
                data = bytes(obstore.get(self._store, key).bytes())
            _count("get", read=len(data))
            return data
        wanted = length_of_range(name, size=self.size(name), start=start, length=length)
        return self.get(name, start=start, length=wanted) if wanted else b""

    def _create(
        self, key: str, data: bytes, taken: Callable[[], HoldfastError], *, what: str
    ) -> None:
        """Puts an object that is new; tries again where nobody can know whether it is there."""
        until, pause = time.monotonic() + _PUT_PATIENCE_S, _PUT_PAUSE_S
        for tries_left in reversed(range(_PUT_TRIES)):
            _count("put", written=len(data))
            try:
                with SPANS.around("bucket.put", self._translated(key, what=what)):
                    obstore.put(self._store, key, data, mode=self._mode, use_multipart=False)
            except _Taken:
                held = self._holds(key, data, what=what)
                if held is not None:
                    if held:
                        return
                    raise taken() from None
                # Amazon says the same of one that is still on its way in.
                failure = Unavailable(f"{what}: {self._bucket} is still busy with it")
            except (PackMissing, StorageDenied, StorageFull):
                raise
            except Unavailable as exc:
                failure = exc
            else:
                return
            if not tries_left or time.monotonic() + pause > until:
                raise failure
            time.sleep(pause)
            pause *= 2

    def _holds(self, key: str, data: bytes, *, what: str) -> bool | None:
        """Says whether an object has these bytes, and so is ours, put by a try before.

        None if there is no such object.
        """
        try:
            with self._translated(key, what=what):
                if obstore.head(self._store, key)["size"] != len(data):
                    return False
                return bytes(obstore.get(self._store, key).bytes()) == data
        except PackMissing:
            return None

    def _size_or_0(self, name: str) -> int:
        try:
            return self.size(name)
        except PackMissing:
            return 0

    def _key_of(self, name: str) -> str:
        if not is_blob_name(name):
            raise PackMissing(name)
        return _key(name)

    @contextmanager
    def _translated(self, name: str | None, *, what: str | None = None) -> Generator[None]:
        """Turns the client's errors into ours."""
        what = what or (self._bucket if name is None else f"blob {name}")
        _Owner.check()
        try:
            yield
        except FileNotFoundError as exc:
            text = str(exc)
            # Without a body, what is missing may be the bucket: that is no damage.
            if name is None or _NO_BUCKET.search(text) or not self._is_there():
                raise Unavailable(f"{what}: {self._bucket} is not there") from exc
            raise PackMissing(name) from exc
        except exceptions.AlreadyExistsError as exc:
            raise _Taken from exc
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as exc:
            raise StorageDenied(self._bucket, reason=_reason(exc)) from exc
        except (exceptions.BaseError, OSError) as exc:
            raise self._error(what, exc) from exc

    def _error(self, what: str, exc: Exception) -> HoldfastError:
        text = str(exc)
        if _NO_BUCKET.search(text):
            return Unavailable(f"{what}: {self._bucket} is not there")
        if _BEYOND.search(text):
            return _Beyond()
        if _NO_ROOM.search(text):
            return StorageFull(f"{what}: {_reason(exc)}")
        if _DENIED.search(text):
            return StorageDenied(self._bucket, reason=_reason(exc))
        return Unavailable(f"{what}: {self._bucket} does not answer: {_reason(exc)}")

    def _is_there(self) -> bool:
        try:
            next(_pages(self._quick, 1), None)
        except FileNotFoundError:
            return False
        except exceptions.BaseError as exc:
            raise self._error(self._bucket, exc) from exc
        return True


class _Taken(HoldfastError):
    """There is an object of this name already."""


class _Beyond(HoldfastError):
    """The range begins behind the end of the object."""


def _pages(store: Store, most: int) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yields what is below the prefix, `most` objects at a time."""
    # Partly of a library's types that is needed for another form of its answers alone.
    listed: Any = obstore.list(store, chunk_size=most)  # pyright: ignore[reportUnknownMemberType] - see above
    return iter(listed)


def _count(kind: str, *, read: int = 0, written: int = 0) -> None:
    """Counts a request, for whoever looks after the server."""
    TALLIES.add(f"bucket_{kind}")
    if read or written:
        TALLIES.add("bucket_read_bytes", read)
        TALLIES.add("bucket_written_bytes", written)


def _key(name: str) -> str:
    return f"{name[-2:]}/{name}{_SUFFIX}"


def _reason(exc: Exception) -> str:
    """Returns what an error says, in short: behind it the client shows its own inside."""
    said = str(exc)
    codes = [one or other for one, other in _CODE.findall(said)]
    return shorten(codes[-1] if codes else said.partition("\n")[0])


class _Owner:
    """The process that uses the client, whose threads a fork leaves behind."""

    pid: int | None = None

    @classmethod
    def check(cls) -> None:
        """Raises where a request would never end."""
        if cls.pid is None:
            cls.pid = os.getpid()
        elif cls.pid != os.getpid():
            message = "this process was forked from one that had a bucket open"
            raise Unavailable(message).with_hint("Open the vault in the child, and not before.")
