"""Text that somebody else chose, made safe to show to a person.

File names, labels and reasons are an attacker's to choose, and a terminal obeys what it is
sent: an escape sequence in a file name could rewrite the line above it, a line end could forge
a line of ours, a change of direction could make `exe.txt` of `txt.exe`. Everything that goes
to a terminal goes through here, and what goes to a model, which a client may show on one; what is
left is what it looks like.

What a program reads instead, and has to be the very bytes that somebody chose, is `as_raw`.
"""

import codecs
import re
from typing import Final

_HIDDEN: Final = (
    "\x00-\x1f\x7f-\x9f"  # C0 with ESC, tab and line ends, DEL, C1 with its one-byte CSI
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # changes of direction
    "\u2028\u2029"  # line ends that are not C0
    "\u200b\u2060\ufeff"  # nothing at all, and yet another name
    "\ud800-\udfff"  # lone surrogates: bytes that are not UTF-8
    "\U000e0000-\U000e007f"  # tags: text that cannot be seen
)
_UNSAFE: Final = re.compile(f"[{_HIDDEN}]")
_UNSAFE_IN_CONTENT: Final = re.compile(f"(?!\t)[{_HIDDEN}]")

RAW: Final = "holdfast.raw"
"""How errors of encoding are dealt with: what `as_raw` made is bytes again, and whatever else the
encoding lacks is escaped."""

_RAW_AT: Final = 0xD800
"""Above what stands for a byte in a name: nothing else becomes bytes by chance."""
_FIRST_ODD: Final = 0x80

_LAST_BYTE: Final = 0xFF
_LAST_SHORT: Final = 0xFFFF


def escaped(text: str) -> str:
    r"""Returns text with everything that a terminal would obey or hide written as `\xNN`."""
    # Nearly all names are plain, and a plain name needs no look at each of its characters.
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(_escape, text)


def escaped_line(text: str) -> str:
    """Returns one line of a file's content, safe to show; tabs stay."""
    return _UNSAFE_IN_CONTENT.sub(_escape, text)


def escaped_lines(text: str) -> str:
    """Returns content of several lines, safe to show; tabs and line feeds stay."""
    return "\n".join(map(escaped_line, text.split("\n")))


def spaced(text: str) -> str:
    """Returns text with a space for whatever cannot be printed: for what is kept as one line."""
    return "".join(c if c.isprintable() else " " for c in text)


def quoted_for_git(name: str) -> str:
    r"""Returns a path as a diff writes it: as it is, or in quotes with `\NNN` for odd bytes.

    `git apply` and `patch` read it back as the name that it was.
    """
    if not _UNSAFE.search(name) and '"' not in name and "\\" not in name:
        return name
    parts = ['"']
    for char in name:
        if char in '"\\':
            parts.append(f"\\{char}")
        elif _UNSAFE.match(char):
            raw = char.encode("utf-8", "surrogateescape")
            parts += [f"\\{byte:03o}" for byte in raw]
        else:
            parts.append(char)
    return "".join([*parts, '"'])


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    if 0xDC80 <= number <= 0xDCFF:  # noqa: PLR2004 - how Python keeps bytes that are not UTF-8
        number -= 0xDC00
    if number <= _LAST_BYTE:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= _LAST_SHORT else f"\\U{number:08x}"


def as_raw(data: bytes) -> str:
    """Returns text that is these bytes once it is written, whatever the encoding is: see `RAW`."""
    return "".join(chr(byte if byte < _FIRST_ODD else _RAW_AT + byte) for byte in data)


def _write_raw(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeEncodeError):
        byte = ord(error.object[error.start]) - _RAW_AT
        if _FIRST_ODD <= byte <= _LAST_BYTE:
            return bytes([byte]), error.start + 1
        # One at a time: the next of them may be such a byte.
        error.end = error.start + 1
    return codecs.backslashreplace_errors(error)


codecs.register_error(RAW, _write_raw)
