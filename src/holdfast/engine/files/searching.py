"""Searches in files: which lines hold a text or match an expression, which paths fit a pattern.

Patterns and files are an attacker's to choose, and the work is bounded all the same. A text is
found in time that grows with what is searched alone; an expression is RE2's, which never goes
back, and is held against pieces of a file. Where a line is longer than a piece, pieces overlap;
what matches more of such a line than they share is not found. A search ends after a while, and says
where it goes on.
"""

import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from holdfast.engine.core.limits import check_limit
from holdfast.engine.core.paths import to_bytes, to_folder, to_text
from holdfast.engine.files.reader import Opened, Times, check_folder, find_entry, info_of
from holdfast.engine.objects import content
from holdfast.engine.objects.content import ChunkSource
from holdfast.engine.planes.view import View
from holdfast.entries import Blob, Entry, Inline, decode_entry
from holdfast.errors import InvalidValue, NotBuilt
from holdfast.fetching import anew
from holdfast.model.files import FileInfo, Finding, Findings
from holdfast.operations.files import GlobFiles, SearchFiles
from holdfast.tree import prefix_stop
from holdfast.workspace.patterns import BadPattern, Patterns

SEARCH_S: Final = 1.5
"""How long one search takes at the most, but for the piece that it is at."""

MAX_PATTERN_CHARS: Final = 500
MAX_FILE_BYTES: Final = 16 << 20
"""Larger files are passed by, and counted."""

MAX_LINE_CHARS: Final = 500
"""What is shown of a line."""

_PIECE_BYTES: Final = 16 << 10
"""What an expression is held against at once: the dearest that was tried took 0.3 s for it."""

_OVERLAP_BYTES: Final = 4 << 10
"""What two pieces of one line share: more than any text that is searched for."""

_BATCH: Final = 1000
"""Files that are looked up in one transaction."""

_LOOKS_BINARY: Final = 8 << 10
"""A NUL among so many bytes: this is no text."""

_EXPRESSION_BYTES: Final = 1 << 20
"""Memory that an expression may take."""

_MAGIC: Final = re.compile(r"[*?\[\\]")

_CURSOR: Final = re.compile(r"([A-Za-z0-9_=-]*)\.(\d{1,15})\.(\d{1,15})", re.ASCII)

Find = Callable[[bytes, int, int], int]
"""Returns where in a piece of content something is found first; -1 if it is not."""


class _Place(NamedTuple):
    """How far a search has come: everything before it has been looked at."""

    key: bytes
    at: int = 0
    line: int = 1

    def cursor(self) -> str:
        """Returns it as text, for whoever goes on."""
        return f"{urlsafe_b64encode(self.key).decode('ascii')}.{self.at}.{self.line}"

    @classmethod
    def read(cls, cursor: str) -> "_Place":
        """Returns the place that a cursor names; it is only ever believed of who asks."""
        found = _CURSOR.fullmatch(cursor)
        try:
            if found is not None:
                return cls(urlsafe_b64decode(found[1]), int(found[2]), max(int(found[3]), 1))
        except ValueError:
            pass
        raise InvalidValue("the cursor is none that a search has given")


def search(opened: Opened, wanted: SearchFiles) -> Findings:
    """Returns the lines that hold a text, by path and number, as far as the time goes.

    Content is read with no transaction open: it may lie in a bucket.
    """
    find, piece_bytes = _finder(wanted)
    selects = _selects(wanted.glob)
    begun = _Place(b"") if wanted.cursor is None else _Place.read(wanted.cursor)
    until = time.monotonic() + SEARCH_S
    matches, passed_by = list[Finding](), 0

    def findings(place: _Place | None) -> Findings:
        cursor = None if place is None else place.cursor()
        return Findings(matches=matches, next_cursor=cursor, passed_by=passed_by)

    for key, entry, objects in _files(opened, to_folder(wanted.path), begun.key):
        place = begun if key == begun.key else _Place(key)
        if time.monotonic() > until:
            return findings(place)
        if not selects(key):
            continue
        if entry.size > MAX_FILE_BYTES:
            passed_by += 1
            continue
        data = content.read(objects, entry)
        if b"\0" in data[:_LOOKS_BINARY]:
            continue
        for found, reached in _looked_at(data, place, find, piece_bytes):
            if found is not None:
                matches.append(_finding(key, data, found))
            if len(matches) >= wanted.limit or time.monotonic() > until:
                return findings(reached)
    return findings(None)


def _finding(key: bytes, data: bytes, found: tuple[int, int]) -> Finding:
    line, begin = found
    end = data.find(b"\n", begin)
    text = data[begin : len(data) if end < 0 else end].removesuffix(b"\r")
    shown = text[: 4 * MAX_LINE_CHARS].decode("utf-8", "replace")[:MAX_LINE_CHARS]
    return Finding(path=to_text(key), line=line, text=shown)


def glob(view: View, wanted: GlobFiles) -> list[FileInfo]:
    """Returns files and links whose paths fit a pattern, in the order of their bytes."""
    check_limit(wanted.limit)
    selects, times = _selects(wanted.pattern), Times(view)
    first = _fixed(wanted.pattern)
    start = first if wanted.after is None else max(first, to_bytes(wanted.after) + b"\0")
    entries = ((key, data) for key, data in view.iterate(start, prefix_stop(first)) if selects(key))
    return [
        times.dated(key, info_of(key, decode_entry(data)))
        for key, data in islice(entries, wanted.limit)
    ]


def _files(
    opened: Opened, place: bytes, begin: bytes
) -> Iterator[tuple[bytes, Inline | Blob, ChunkSource]]:
    """Yields the files in which is searched, with what has their content."""
    while True:
        batch, objects = anew(partial(_batch, opened, place, begin))
        for key, entry in batch:
            yield key, entry, objects
        if len(batch) < _BATCH:
            return
        begin = batch[-1][0] + b"\0"


def _batch(
    opened: Opened, place: bytes, begin: bytes
) -> tuple[list[tuple[bytes, Inline | Blob]], ChunkSource]:
    with opened() as view:
        return [*islice(_listed(view, place, begin), _BATCH)], view.objects.unbound()


def _listed(view: View, place: bytes, begin: bytes) -> Iterator[tuple[bytes, Inline | Blob]]:
    """Yields one file, or those of a directory, from a path on; links lead nowhere."""
    entry = find_entry(view, place) if place else None
    if isinstance(entry, Inline | Blob):
        yield place, entry
        return
    check_folder(view, place)
    inside = place + b"/" if place else b""
    for key, data in view.iterate(max(inside, begin), prefix_stop(inside)):
        found: Entry = decode_entry(data)
        if isinstance(found, Inline | Blob):
            yield key, found


def _looked_at(
    data: bytes, place: _Place, find: Find, piece_bytes: int
) -> Iterator[tuple[tuple[int, int] | None, _Place]]:
    """Yields what is found piece by piece: a line's number and where it begins, or None.

    With each, where to go on.
    """
    key, start, line = place
    while start < len(data):
        stop, shared = len(data), 0
        if piece_bytes and stop - start > piece_bytes:
            # Up to the end of a line; one that is longer than a piece is cut.
            end = data.rfind(b"\n", start, start + piece_bytes)
            stop = end + 1 if end >= start else start + piece_bytes
            shared = 0 if end >= start else _OVERLAP_BYTES
        at = find(data, start, stop)
        found = None
        if at >= 0:
            begin = max(data.rfind(b"\n", start, at) + 1, start)
            found = line + data.count(b"\n", start, begin), begin
            end = data.find(b"\n", at)
            stop, shared = len(data) if end < 0 else end + 1, 0
        line += data.count(b"\n", start, stop)
        start = stop - shared
        yield found, _Place(key, start, line)


def _finder(wanted: SearchFiles) -> tuple[Find, int]:
    """Returns what finds a text or an expression, and how much it is held against at once."""
    pattern = wanted.pattern
    if not pattern or len(pattern) > MAX_PATTERN_CHARS or "\n" in pattern or "\0" in pattern:
        message = f"what is searched for has 1 to {MAX_PATTERN_CHARS} characters, on one line"
        raise InvalidValue(message)
    try:
        text = pattern.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as exc:
        raise InvalidValue("what is searched for holds half a character") from exc
    if wanted.regex:
        return partial(_find_expression, _expression(text, wanted)), _PIECE_BYTES
    if not wanted.ignore_case:
        return lambda data, start, stop: data.find(text, start, stop), 0
    return partial(_find_lowered, text.lower()), _PIECE_BYTES


def _find_lowered(text: bytes, data: bytes, start: int, stop: int) -> int:
    at = data[start:stop].lower().find(text)
    return at if at < 0 else start + at


def _find_expression(expression: Any, data: bytes, start: int, stop: int) -> int:  # noqa: ANN401 - RE2 has no types
    found = expression.search(data[start:stop])
    return -1 if found is None else start + found.start()


def _expression(pattern: bytes, wanted: SearchFiles) -> Any:  # noqa: ANN401 - as above
    try:
        import re2  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] - an extra, without types
    except ImportError as exc:
        message = "expressions are searched for with RE2, which is not installed"
        hint = "`pip install 'holdfast[search]'`, or search for a plain text."
        raise NotBuilt(message).with_hint(hint) from exc
    library: Any = re2
    options = library.Options()
    options.log_errors, options.never_nl, options.never_capture = False, True, True
    options.max_mem, options.case_sensitive = _EXPRESSION_BYTES, not wanted.ignore_case
    try:
        return library.compile(b"(?m)" + pattern, options)
    except library.error as exc:
        message = f"this expression cannot be used: {_said(exc)}"
        raise InvalidValue(message) from exc


def _said(error: Exception) -> str:
    said = error.args[0] if error.args else b""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return text.replace("(?m)", "", 1)


def _selects(pattern: str | None) -> Callable[[bytes], bool]:
    """Returns a test for paths; a pattern is read as in `.gitignore`."""
    if pattern is None:
        return lambda _key: True
    patterns = Patterns()
    try:
        patterns.add(pattern)
    except BadPattern as exc:
        message = f"this pattern cannot be read: {exc}"
        raise InvalidValue(message) from exc
    fits = patterns.automaton()
    return lambda key: fits(to_text(key))


def _fixed(pattern: str) -> bytes:
    """Returns the folders that all paths begin with which fit a pattern."""
    if "/" not in pattern.rstrip("/"):
        return b""  # It fits at any depth.
    magic = _MAGIC.search(pattern)
    begin = pattern[: magic.start()] if magic else pattern
    folders, slash, _ = begin.lstrip("/").rpartition("/")
    return to_bytes(f"{folders}{slash}")
