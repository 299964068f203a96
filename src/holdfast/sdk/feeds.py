"""Events as a server tells them (`text/event-stream`), and where to go on when it falls silent."""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

import httpx2

from holdfast.errors import Incompatible, Unreachable
from holdfast.sdk.calls import Call, Feed
from holdfast.sdk.lines import Line
from holdfast.sdk.patience import longer_pause
from holdfast.sdk.problems import UNREADABLE

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
        elif not line and self._data:
            data, self._data, self._size = b"\n".join(self._data), [], 0
            self._seen = self._id or self._seen
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
