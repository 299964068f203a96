"""Which paths a directory's `.holdfastignore` leaves out.

The file lies in the root of the directory and has the syntax of `.gitignore`. It is data like
any other file: captured, restored, and read again whenever it changes; and captured whatever it
says, so that every snapshot holds the rules that it was taken by. `digest` says whether the rules
are the same as before. What is left out is named in the coverage of every snapshot.

Whoever works in the directory can write the file, so nothing in it may keep a snapshot from being
taken. A line that cannot be read, and whatever comes after the bounds, matches nothing; `unread`
names it, and the rest holds.

What patterns mean is in `patterns.py`.
"""

import hashlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from holdfast.workspace.automaton import Automaton
from holdfast.workspace.patterns import BadPattern, Patterns

IGNORE_FILE: Final = b".holdfastignore"
_FILE: Final = IGNORE_FILE.decode("ascii")
MAX_RULES_BYTES: Final = 1 << 18
"""Of a larger file, the whole lines before this are read."""

MAX_PATTERNS: Final = 1000
"""More than anybody writes: what all of them take is bounded by `MAX_RULES_BYTES`."""

READ: Final = 4
"""Files that are kept read: each may take 20 MiB, and most take some kilobytes."""

MAX_NAMED: Final = 20
"""Lines that are named one by one because they mean nothing."""

_UNWRITTEN: Final = b"vaults, not the rules, nor a folder whose names are"
"""What is left out without a rule, and what is in spite of one: `a/*` leaves `a` in. It counts as
a rule: when this changes, all is listed anew."""


class Rules:
    """What is left out of captures: by several texts, what any of them leaves out."""

    def __init__(
        self,
        *texts: bytes,
        apart: frozenset[tuple[int, int]] = frozenset(),
        including: frozenset[bytes] = frozenset(),
        unread: tuple[str, ...] = (),
    ) -> None:
        """Takes the texts, and what of them could not even be had (`unread`)."""
        self.texts: Final = tuple(text for text in dict.fromkeys(texts) if text)
        parts = [_UNWRITTEN, *([*self.texts, *sorted(including)] if self.texts else [])]
        self.digest: Final = hashlib.blake2b(b"\0".join(parts), digest_size=16).digest()
        self.apart: Final = apart
        """Folders by (device, inode) that are never captured: the vault's own."""
        self._including = including
        self._leading = frozenset(folder[:-1] for path in including for folder in _folders(path))
        read = [_read(text) for text in self.texts if text.strip()]
        self._tests = [excludes for excludes, _ in read]
        self.missing: Final = unread
        self.unread: Final = (*unread, *(line for _, unread in read for line in unread))
        """What leaves nothing out since it cannot be read, a sentence for each; `missing` is what
        of that is in none of the texts."""

    def joined(self, other: "Rules") -> "Rules":
        """Returns rules that leave out what these do, and what the others do."""
        unread = (*self.missing, *other.missing)
        return Rules(*self.texts, *other.texts, apart=self.apart | other.apart, unread=unread)

    def including(self, paths: frozenset[bytes]) -> "Rules":
        """Returns rules that leave out the same but for some paths, and what lies in them."""
        return Rules(*self.texts, apart=self.apart, including=paths, unread=self.missing)

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


@lru_cache(maxsize=READ)
def _read(text: bytes) -> tuple[Automaton[str], tuple[str, ...]]:
    """Returns what says which paths the lines leave out, and what means nothing.

    The same for who asks again: rules are made several times in one look at a directory.
    """
    patterns, count, bad, last = Patterns(), 0, list[str](), 0
    over = f"{MAX_RULES_BYTES:,} bytes" if len(text) > MAX_RULES_BYTES else ""
    whole = text[:MAX_RULES_BYTES].rpartition(b"\n")[0] if over else text
    lines = whole.removeprefix(BOM_UTF8).decode("utf-8", "surrogateescape").split("\n")
    for number, raw in enumerate(lines, start=1):
        line = _without_blanks(raw.removesuffix("\r"))
        is_pattern = bool(line) and not line.startswith("#")
        if is_pattern and count == MAX_PATTERNS:
            over = f"{MAX_PATTERNS:,} patterns"
            break
        last = number
        if is_pattern:
            count += 1
            pattern = line.removeprefix("!")
            try:
                patterns.add(pattern, is_negated=pattern != line)
            except BadPattern as exc:
                bad.append(f"{_FILE}, line {number}, leaves nothing out: {exc}")
    unread = bad[:MAX_NAMED]
    if len(bad) > MAX_NAMED:
        unread.append(f"{_FILE} has {len(bad) - MAX_NAMED:,} more lines that leave nothing out")
    if over:
        unread.append(f"{_FILE} leaves nothing out after line {last}: {over} are the most")
    return patterns.automaton(), tuple(unread)


def _without_blanks(line: str) -> str:
    """Returns a line without blanks at its end, but for one that a backslash stands before."""
    stripped = line.rstrip(" ")
    return line[: len(stripped) + 1] if stripped.endswith("\\") else stripped
