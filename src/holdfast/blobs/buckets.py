"""Speaks to a bucket: where it is, how long it is waited for, and what its errors mean.

S3 and what speaks as it does (`s3://bucket/prefix`), Google Cloud Storage (`gs://`), Azure
(`az://container/…`); keys, regions and endpoints are what obstore finds in the environment
(`AWS_*`, `GOOGLE_*`, `AZURE_*`). What is kept there is for others to know: packs are `bucket`'s,
backups `bucketplace`'s.
"""

import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property, partial
from typing import Any, Final, Literal, NamedTuple, TypedDict
from urllib.parse import parse_qsl, urlsplit

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from holdfast.blobs.port import BUCKET_SCHEMES
from holdfast.errors import (
    HoldfastError,
    InvalidValue,
    PackMissing,
    StorageDenied,
    StorageFull,
    Unavailable,
    shorten,
)
from holdfast.instruments import SPANS, TALLIES
from holdfast.settings import without_password

Store = AzureStore | GCSStore | MemoryStore | S3Store

AT_ONCE: Final = 16
"""Requests that are made at once."""

PAGE: Final = 1000
"""Names that one answer to a question for all of them holds."""

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


class Version(TypedDict, total=False):
    """What tells an object from the one that takes its place."""

    e_tag: str | None
    version: str | None


def version_of(e_tag: str | None, version: str | None) -> Version:
    """Returns what a server has said of a version: some say one thing, some both."""
    said = Version()
    if e_tag is not None:
        said["e_tag"] = e_tag
    if version is not None:
        said["version"] = version
    return said


Mode = Literal["create", "overwrite"] | Version


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
            named = shorten(without_password(url))
            message = f"a bucket is s3://BUCKET/PREFIX, gs://… or az://…, not {named}"
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
            "pool_max_idle_per_host": str(AT_ONCE),
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
            message = f"the bucket {self.bucket} cannot be used: {reason(exc)}"
            raise InvalidValue(message) from exc

    def open(self) -> "Bucket":
        """Returns the bucket; nothing is asked yet."""
        return Bucket(
            self.connect(QUICK),
            patient=partial(self.connect, PATIENT),
            name=f"{self.scheme}://{self.bucket}",
            is_conditional=self.is_conditional,
        )

    def overlaps(self, other: "Address") -> bool:
        """Says whether what is below one of them is below the other as well."""
        if (self.scheme, self.bucket) != (other.scheme, other.bucket):
            return False
        mine, theirs = (f"{each.prefix}/".lstrip("/") for each in (self, other))
        return mine.startswith(theirs) or theirs.startswith(mine)


class Bucket:
    """A bucket, or the part of one below a prefix.

    Two clients with different patience: what somebody waits for is asked of the quick one. The
    other is made for who first needs it: that takes 8 ms, and who only reads never does.
    """

    def __init__(
        self,
        quick: Store,
        *,
        patient: Callable[[], Store] | None = None,
        name: str = "the bucket",
        is_conditional: bool = True,
    ) -> None:
        self.quick, self._patient = quick, patient
        self.name, self.is_conditional = name, is_conditional

    @cached_property
    def store(self) -> Store:
        """The patient one; without it, the one for all."""
        return self.quick if self._patient is None else self._patient()

    def iter_keys(self) -> Iterator[tuple[str, int]]:
        """Yields the name of every object with its size, a thousand to a request."""
        pages = _pages(self.store, PAGE)
        while True:
            count("list")
            with SPANS.around("bucket.list", self.translated(None)):
                page = next(pages, None)
            if page is None:
                return
            for found in page:
                yield found["path"], found["size"]

    def create(
        self,
        key: str,
        data: bytes,
        taken: Callable[[], HoldfastError],
        *,
        what: str,
        over: Version | None = None,
    ) -> None:
        """Puts an object that is new, or takes the place of the one that it is put `over`.

        Tries again where nobody can know whether it is there; raises `taken` where another is.
        """
        mode: Mode = "create" if over is None else over or "overwrite"
        if not self.is_conditional:
            mode = "overwrite"
        until, pause = time.monotonic() + _PUT_PATIENCE_S, _PUT_PAUSE_S
        for tries_left in reversed(range(_PUT_TRIES)):
            count("put", written=len(data))
            try:
                with SPANS.around("bucket.put", self.translated(key, what=what)):
                    obstore.put(self.store, key, data, mode=mode, use_multipart=False)
            except Taken:
                held = self._holds(key, data, what=what)
                if held is not None:
                    if held:
                        return
                    raise taken() from None
                # Amazon says the same of one that is still on its way in.
                failure = Unavailable(f"{what}: {self.name} is still busy with it")
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
            with self.translated(key, what=what):
                if obstore.head(self.store, key)["size"] != len(data):
                    return False
                return bytes(obstore.get(self.store, key).bytes()) == data
        except PackMissing:
            return None

    @contextmanager
    def translated(self, name: str | None, *, what: str | None = None) -> Generator[None]:
        """Turns the client's errors into ours."""
        what = what or (self.name if name is None else f"blob {name}")
        _Owner.check()
        try:
            yield
        except FileNotFoundError as exc:
            text = str(exc)
            # Without a body, what is missing may be the bucket: that is no damage.
            if name is None or _NO_BUCKET.search(text) or not self._is_there():
                raise Unavailable(f"{what}: {self.name} is not there") from exc
            raise PackMissing(name) from exc
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as exc:
            raise Taken from exc
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as exc:
            raise StorageDenied(self.name, reason=reason(exc)) from exc
        except (exceptions.BaseError, OSError) as exc:
            raise self._error(what, exc) from exc

    def _error(self, what: str, exc: Exception) -> HoldfastError:
        text = str(exc)
        if _NO_BUCKET.search(text):
            return Unavailable(f"{what}: {self.name} is not there")
        if _BEYOND.search(text):
            return Beyond()
        if _NO_ROOM.search(text):
            return StorageFull(f"{what}: {reason(exc)}")
        if _DENIED.search(text):
            return StorageDenied(self.name, reason=reason(exc))
        return Unavailable(f"{what}: {self.name} does not answer: {reason(exc)}")

    def _is_there(self) -> bool:
        try:
            next(_pages(self.quick, 1), None)
        except FileNotFoundError:
            return False
        except exceptions.BaseError as exc:
            raise self._error(self.name, exc) from exc
        return True


class Taken(HoldfastError):
    """There is an object of this name already."""


class Beyond(HoldfastError):
    """The range begins behind the end of the object."""


def _pages(store: Store, most: int) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yields what is below the prefix, `most` objects at a time."""
    # Partly of a library's types that is needed for another form of its answers alone.
    listed: Any = obstore.list(store, chunk_size=most)  # pyright: ignore[reportUnknownMemberType] - see above
    return iter(listed)


def count(kind: str, *, read: int = 0, written: int = 0) -> None:
    """Counts a request, for whoever looks after the server."""
    TALLIES.add(f"bucket_{kind}")
    if read or written:
        TALLIES.add("bucket_read_bytes", read)
        TALLIES.add("bucket_written_bytes", written)


def reason(exc: Exception) -> str:
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
