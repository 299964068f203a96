"""Files that come as a string of JSON, as this client writes texts.

One is unquoted piece by piece as the engine takes it: all at once it would keep the interpreter
from everybody else.
"""

import io
import re
from typing import Annotated, Any, Final

import msgspec

from holdfast.server.problems import Unfit
from holdfast.server.transfer import too_large

QuotedText = Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "string"})]
"""A text as it came: quoted, and as long as a file may be."""

UNQUOTED_BYTES: Final = 256 << 10
"""So much of a string is unquoted at a time: 1 ms at the worst."""

# Possessive: what cannot match is not tried in parts. A pair of escapes that are one character
# stays together, and half of one is none of these.
_WHOLE: Final = re.compile(
    rb"(?:[^\\]++|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u(?![dD][89a-fA-F])....|\\[^u])*+", re.DOTALL
)

_MASK, _LATER = 0b1100_0000, 0b1000_0000
"""What tells the later bytes of a character from its first."""


class Unquoted(io.RawIOBase):
    """The UTF-8 of a JSON string, as a file; reading it raises `Unfit` or `TooLarge`."""

    def __init__(self, quoted: msgspec.Raw, *, max_bytes: int) -> None:
        super().__init__()
        self._quoted, self._max_bytes = memoryview(quoted), max_bytes
        if self._quoted[0] != ord('"'):
            raise Unfit("the content of a file is text", param="content")
        self._at, self._size, self._ahead = 1, 0, b""

    def readable(self) -> bool:
        """Says that it can be read."""
        return True

    def seekable(self) -> bool:
        """Says that it can be read again."""
        return True

    def tell(self) -> int:
        """Returns how much was read."""
        return self._size - len(self._ahead)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Goes back to the beginning, and nowhere else."""
        if offset or whence:
            raise io.UnsupportedOperation("a quoted text is read from its beginning")
        self._at, self._size, self._ahead = 1, 0, b""
        return 0

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - as its base has it
        """Fills a buffer as far as there is something."""
        if not self._ahead:
            self._ahead = self._next()
        part, self._ahead = self._ahead[: len(buffer)], self._ahead[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def _next(self) -> bytes:
        start, end = self._at, len(self._quoted) - 1
        if start >= end:
            return b""
        whole = _WHOLE.match(self._quoted, start, min(start + UNQUOTED_BYTES, end))
        stop = start if whole is None else whole.end()
        while start < stop < end and self._quoted[stop] & _MASK == _LATER:
            stop -= 1  # To where a character begins.
        if stop == start:
            raise Unfit("the content holds half a character", param="content")
        try:
            text: str = msgspec.json.decode(b'"%b"' % self._quoted[start:stop], type=str)
            piece = text.encode()
        except (msgspec.DecodeError, UnicodeError) as exc:
            raise Unfit(f"the content is no text: {exc}", param="content") from exc
        self._at, self._size = stop, self._size + len(piece)
        if self._size > self._max_bytes:
            raise too_large(self._max_bytes)
        return piece
