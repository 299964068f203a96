"""Which paths a directory's `.holdfastignore` leaves out.

The file lies in the root of the directory and has the syntax of `.gitignore`. It is data like
any other file: captured, restored, and read again whenever it changes; and captured whatever it
says, so that every snapshot holds the rules that it was taken by. `digest` says whether the rules
are the same as before. What is left out is named in the coverage of every snapshot.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Final, NamedTuple

from holdfast.errors import InvalidValue, shorten
from holdfast.workspace.patterns import BadPattern, to_regex

IGNORE_FILE: Final = b".holdfastignore"
MAX_RULES_BYTES: Final = 1 << 18
"""A larger file is no list of rules: it is refused rather than half read."""

MAX_PATTERNS: Final = 1000
"""Every path that is new is held against every pattern."""

_TRAILING: Final = re.compile(r"(?<!\\)[ ]+\Z")
"""Blanks at the end of a line mean nothing, unless a backslash says that they do."""

_UNWRITTEN: Final = b"vaults, not the rules"
"""What is left out without a rule, and what is in spite of one. It counts as one: when this
changes, all is listed anew."""


class Rules:
    """What is left out of captures: by several texts, what any of them leaves out."""

    def __init__(
        self,
        *texts: bytes,
        apart: frozenset[tuple[int, int]] = frozenset(),
        including: frozenset[bytes] = frozenset(),
    ) -> None:
        self.texts: Final = tuple(text for text in dict.fromkeys(texts) if text)
        parts = [_UNWRITTEN, *([*self.texts, *sorted(including)] if self.texts else [])]
        self.digest: Final = hashlib.blake2b(b"\0".join(parts), digest_size=16).digest()
        self.apart: Final = apart
        """Folders by (device, inode) that are never captured: the vault's own."""
        self._including = including
        self._leading = frozenset(folder[:-1] for path in including for folder in _folders(path))
        self._tests = [_compile(text) for text in self.texts if text.strip()]

    @classmethod
    def readable(
        cls,
        text: bytes,
        *,
        apart: frozenset[tuple[int, int]] = frozenset(),
        including: frozenset[bytes] = frozenset(),
    ) -> "Rules":
        """Returns the rules of a text, or none at all if it is not one of rules."""
        try:
            return cls(text, apart=apart, including=including)
        except InvalidValue:
            return cls(apart=apart, including=including)

    def joined(self, other: "Rules") -> "Rules":
        """Returns rules that leave out what these do, and what the others do."""
        return Rules(*self.texts, *other.texts, apart=self.apart | other.apart)

    def including(self, paths: frozenset[bytes]) -> "Rules":
        """Returns rules that leave out the same but for some paths, and what lies in them."""
        return Rules(*self.texts, apart=self.apart, including=paths)

    def excludes(self, path: bytes, *, is_folder: bool) -> bool:
        """Says whether the rules leave a path out."""
        if not self._tests or path == IGNORE_FILE or self._is_included(path):
            return False
        # A folder that leads to what is included is looked into: all else in it stays left out.
        around = _folders(path) if self._including else ()
        name = path + b"/" if is_folder else path
        tried = [each.decode("utf-8", "surrogateescape") for each in (*around, name)]
        return any(excludes(each) for excludes in self._tests for each in tried)

    def excludes_within(self, path: bytes) -> bool:
        """Says whether the rules leave a path out, or a folder that it lies in."""
        if not self._tests:
            return False
        if any(self.excludes(folder[:-1], is_folder=True) for folder in _folders(path)):
            return True
        return self.excludes(path, is_folder=False)

    def _is_included(self, path: bytes) -> bool:
        """Says whether a path is, lies in, or leads to one that is captured all the same."""
        if not self._including:
            return False
        around = (folder[:-1] for folder in _folders(path))
        return path in self._leading or any(each in self._including for each in (path, *around))


def _folders(path: bytes) -> Iterator[bytes]:
    """Yields the folders that a path lies in, outermost first, each with its slash."""
    at = path.find(b"/")
    while at != -1:
        yield path[: at + 1]
        at = path.find(b"/", at + 1)


class _Line(NamedTuple):
    """A pattern as it stands in the file."""

    is_negated: bool
    regex: str


def _compile(text: bytes) -> Callable[[str], bool]:
    """Returns a test for paths: the last line that matches one says whether it is left out."""
    lines = list(_lines(text))
    if len(lines) > MAX_PATTERNS:
        message = f".holdfastignore has {len(lines)} patterns: {MAX_PATTERNS} at the most"
        raise InvalidValue(message).with_hint("Take some of its lines out.")
    # Neighbours that say the same are one expression: most files are one in all.
    groups = [
        (is_negated, re.compile("|".join(line.regex for line in group), re.DOTALL).fullmatch)
        for is_negated, group in groupby(lines, key=lambda line: line.is_negated)
    ][::-1]

    def excludes(path: str) -> bool:
        for is_negated, matches in groups:
            if matches(path):
                return not is_negated
        return False

    return excludes


def _lines(text: bytes) -> Iterator[_Line]:
    for number, raw in enumerate(text.decode("utf-8", "surrogateescape").split("\n"), start=1):
        line = _TRAILING.sub("", raw.removesuffix("\r"))
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!")
        try:
            yield _Line(pattern != line, to_regex(pattern))
        except BadPattern as exc:
            message = f".holdfastignore, line {number}: {shorten(pattern)} cannot be read: {exc}"
            hint = "Mend that line, or make it a comment with a # before it."
            raise InvalidValue(message).with_hint(hint) from exc
