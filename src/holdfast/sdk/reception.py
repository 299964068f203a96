"""An answer that comes in pieces: how much is there, and how to get the rest.

A connection that breaks in the middle of a file is no reason to begin again. The rest is asked
for with `Range`, and only of the very content that began to come: `If-Range` names it. A server
that has another by now says so, and that is an error: two halves make no file. Where it goes is a
file that is there whole or not at all, or whatever is open already.

Of an archive, which is made while it is sent, there is no rest: it begins again, where what it is
written to can be taken back to where it began.

Events (`text/event-stream`) come in pieces, too: what was seen says where to go on.
"""

import os
import re
import secrets
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, Final, Generic, TypeVar

import httpx2
from msgspec.structs import replace

from holdfast.errors import Conflict, Incompatible, InvalidValue, Unreachable, shorten
from holdfast.sdk.calls import Call, Feed
from holdfast.sdk.content import Target, local_error
from holdfast.sdk.lines import Line
from holdfast.sdk.patience import longer_pause
from holdfast.sdk.problems import UNREADABLE
from holdfast.targets import target_of

_SIZE: Final = re.compile("[0-9]{1,18}")


class Reception:
    """One answer on its way in."""

    def __init__(
        self, call: Call[bytes], line: Line, *, take_back: Callable[[], None] | None = None
    ) -> None:
        self._call, self._line, self._take_back = call, line, take_back
        self._tag: str | None = None
        self.size: int | None = None
        """How many bytes there are in all; None if only the end will tell."""
        self.received = 0
        """How many bytes came so far."""
        self._failures = 0

    def _begin(self, response: httpx2.Response) -> None:
        """Notes what is coming, and how much of it."""
        self._tag = self.size = None
        if "content-encoding" in response.headers:
            return  # What is counted here is unpacked: other offsets, and another size.
        tag, size = (response.headers.get(name, "") for name in ("etag", "content-length"))
        # A weak tag may be that of two contents.
        self._tag = tag if tag.startswith('"') else None
        self.size = int(size) if _SIZE.fullmatch(size) else None

    def take(self, piece: bytes) -> Iterator[bytes]:
        """Counts a piece, and passes it on."""
        self.received += len(piece)
        if self._take_back is None:  # Else what came is no step forward: it may all come again.
            self._failures = 0
        yield piece

    def check_complete(self) -> None:
        """Raises `Unreachable` if less came than was announced."""
        if self.size is not None and self.received < self.size:
            message = f"{self._line.url}: {self.received} of {self.size} bytes came"
            raise Unreachable(message)

    def after(self, error: httpx2.RequestError) -> float:
        """Returns how long to wait before asking for the rest; raises if there is no point."""
        self._failures += 1
        broke = f"the connection broke after {self.received} bytes"
        is_pointless = self._tag is None or not self._call.is_resumable
        if self._take_back is not None:
            self._take_back()
            self.received, is_pointless = 0, False
        if is_pointless or self._failures > self._line.most_breaks:
            message = f"{self._line.url}: {broke}: {error or type(error).__name__}"
            raise Unreachable(message) from None
        return longer_pause(self._failures)

    def rest(self) -> Call[bytes]:
        """Returns the call for what is missing; as long as nothing came, for all of it."""
        if not self.received:
            return self._call
        headers = {"Range": f"bytes={self.received}-", "If-Range": self._tag or ""}
        return replace(self._call, headers={**self._call.headers, **headers})

    def go_on(self, response: httpx2.Response) -> None:
        """Notes what begins, or makes sure that what comes is the rest of what came before."""
        if not self.received:
            self._begin(response)
            return
        is_rest = response.status_code == HTTPStatus.PARTIAL_CONTENT
        # Not every server between here and there knows `If-Range`: what it sends says what it is.
        is_same = response.headers.get("etag") == self._tag
        place = response.headers.get("content-range", "")
        if not (is_rest and is_same and place.startswith(f"bytes {self.received}-")):
            raise Conflict("the file changed while it was being read: read it again")


T = TypeVar("T")

MAX_EVENT_BYTES: Final = 1 << 24
"""Longer than any event: what never ends one is no server of ours."""


class FeedReader(Generic[T]):
    """What was told so far, as far as it is needed to go on."""

    def __init__(self, feed: Feed[T]) -> None:
        self._feed = feed
        self._seen = feed.seen
        self._rest = b""
        self._id: str | None = None
        self._data: list[bytes] = []
        self._size = 0

    def call(self) -> Call[bytes]:
        """Returns the call that goes on after what was seen."""
        self._rest, self._id, self._data, self._size = b"", None, [], 0
        return self._feed.call(self._seen)

    def pause(self, failures: int) -> float:
        """Returns how long to wait before connecting again."""
        return longer_pause(failures)

    def take(self, piece: bytes) -> Iterator[T]:
        """Yields the events that are complete with this piece."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) + self._size > MAX_EVENT_BYTES:
            raise Unreachable("what came is no stream of events")
        for line in lines:
            event = self._line(line.removesuffix(b"\r"))
            if event is not None:
                yield event

    def _line(self, line: bytes) -> T | None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id":
            self._id = value.decode("utf-8", "replace")
        elif name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
        elif not line:
            # Also without an event: what was passed over need not be looked at again.
            self._seen = self._id or self._seen
            if not self._data:
                return None
            data, self._data, self._size = b"\n".join(self._data), [], 0
            try:
                return self._feed.read(data)
            except UNREADABLE as exc:
                message = f"what came is no event that is known here: {exc}"
                raise Incompatible(message) from exc
        return None


def waits_for(failures: int, line: Line, error: httpx2.RequestError) -> None:
    """Raises `Unreachable` once a server was away too often in a row."""
    if failures > line.most_breaks:
        message = f"{line.url}: {error or type(error).__name__}"
        raise Unreachable(message) from None


@contextmanager
def opened(target: Target) -> Generator[BinaryIO]:
    """Opens what a download is written to; a path gets its content when all of it is there."""
    if not isinstance(target, str | os.PathLike):
        yield target
        return
    path = Path(target).expanduser()
    try:
        path = target_of(path)
        # Beside it, so that the last step is a rename, which happens or does not.
        part = path.parent / f".{path.name[:80]}.{secrets.token_hex(8)}"
        # With the permissions of any new file: a process has one umask, and threads share it.
        file = part.open("xb")
    except OSError as exc:
        raise local_error(exc, path) from exc
    except ValueError as exc:
        message = f"{shorten(str(path))}: {exc}"
        raise InvalidValue(message) from exc
    try:
        with file:
            _keep_mode(file, path)
            yield file
            file.flush()
            os.fsync(file.fileno())
        try:
            part.replace(path)
        except OSError as exc:
            raise local_error(exc, path) from exc
    finally:
        # Also of a download that was cancelled; after the rename there is none.
        part.unlink(missing_ok=True)


def taking_back(file: BinaryIO) -> Callable[[], None] | None:
    """Returns what takes a file back to where it stands and as long as it is; None if it cannot."""
    try:
        if not file.seekable():
            return None
        start = file.tell()
        end = file.seek(0, os.SEEK_END)
        file.seek(start)
    except (AttributeError, OSError, ValueError):
        return None  # What packs as it writes, or is no file.

    def take_back() -> None:
        file.seek(start)
        file.truncate(max(start, end))

    return take_back


def _keep_mode(file: BinaryIO, path: Path) -> None:
    """Lets what replaces a file be for nobody's eyes but those that it was for."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # There is none: a new file has what new files have.
    os.fchmod(file.fileno(), mode & 0o777)
