"""An answer that comes in pieces: how much is there, and how to get the rest.

A connection that breaks in the middle of a file is no reason to begin again. The rest is asked
for with `Range`, and only of the very content that began to come: `If-Range` names it. A server
that has another by now says so, and that is an error: two halves make no file.
"""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

import httpx2
from msgspec.structs import replace

from holdfast.errors import Conflict, Unreachable
from holdfast.sdk.calls import Call
from holdfast.sdk.lines import Line
from holdfast.sdk.patience import longer_pause

_SIZE: Final = re.compile("[0-9]{1,18}")


class Reception:
    """One answer on its way in."""

    def __init__(self, call: Call[bytes], line: Line) -> None:
        self._call, self._line = call, line
        self._tag: str | None = None
        self.size: int | None = None
        """How many bytes there are in all; None if only the end will tell."""
        self._received = 0
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
        self._received += len(piece)
        self._failures = 0
        yield piece

    def check_complete(self) -> None:
        """Raises `Unreachable` if less came than was announced."""
        if self.size is not None and self._received < self.size:
            message = f"{self._line.url}: {self._received} of {self.size} bytes came"
            raise Unreachable(message)

    def after(self, error: httpx2.RequestError) -> float:
        """Returns how long to wait before asking for the rest; raises if there is no point."""
        self._failures += 1
        is_pointless = self._tag is None or not self._call.is_resumable
        if is_pointless or self._failures > self._line.most_breaks:
            broke = f"the connection broke after {self._received} bytes"
            message = f"{self._line.url}: {broke}: {error or type(error).__name__}"
            raise Unreachable(message) from None
        return longer_pause(self._failures)

    def rest(self) -> Call[bytes]:
        """Returns the call for what is missing; as long as nothing came, for all of it."""
        if not self._received:
            return self._call
        headers = {"Range": f"bytes={self._received}-", "If-Range": self._tag or ""}
        return replace(self._call, headers={**self._call.headers, **headers})

    def go_on(self, response: httpx2.Response) -> None:
        """Notes what begins, or makes sure that what comes is the rest of what came before."""
        if not self._received:
            self._begin(response)
            return
        is_rest = response.status_code == HTTPStatus.PARTIAL_CONTENT
        # Not every server between here and there knows `If-Range`: what it sends says what it is.
        is_same = response.headers.get("etag") == self._tag
        place = response.headers.get("content-range", "")
        if not (is_rest and is_same and place.startswith(f"bytes {self._received}-")):
            raise Conflict("the file changed while it was being read: read it again")
