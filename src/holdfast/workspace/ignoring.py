"""Which paths a directory's `.holdfastignore` leaves out.

The file lies in the root of the directory and has the syntax of `.gitignore`. It is data like
any other file: captured, restored, and read again whenever it changes; and captured whatever it
says, so that every snapshot holds the rules that it was taken by. `digest` says whether the rules
are the same as before. What is left out is named in the coverage of every snapshot.

Whoever works in the directory can write the file, so nothing in it may keep a snapshot from being
taken. A line that cannot be read, and whatever comes after the bounds, matches nothing; `unread`
names it, and the rest holds.

Patterns of a `.gitignore`, as regular expressions that cannot be made slow.

A `*` that is followed by something fixed takes the first place where that fits, and never comes
back to it (an atomic group): for these patterns the first place is as good as any. So the time to
match a name grows with the name, whatever the pattern is. Where git and this module could differ, a
test asks git.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Final, NamedTuple

from holdfast.errors import shorten

IGNORE_FILE: Final = b".holdfastignore"
_FILE: Final = IGNORE_FILE.decode("ascii")
MAX_RULES_BYTES: Final = 1 << 18
"""Of a larger file, the whole lines before this are read."""

MAX_PATTERNS: Final = 1000
"""Every path that is new is held against every pattern."""

MAX_NAMED: Final = 20
"""Lines that are named one by one because they mean nothing."""

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
        compiled = [_compile(text) for text in self.texts if text.strip()]
        self._tests = [excludes for excludes, _ in compiled]
        self.missing: Final = unread
        self.unread: Final = (*unread, *(line for _, unread in compiled for line in unread))
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


class _Line(NamedTuple):
    """A pattern as it stands in the file."""

    is_negated: bool
    regex: str


def _compile(text: bytes) -> tuple[Callable[[str], bool], list[str]]:
    """Returns a test for paths, and what means nothing.

    The last line that matches a path says whether it is left out.
    """
    lines, unread = _lines(text)
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

    return excludes, unread


def _lines(text: bytes) -> tuple[list[_Line], list[str]]:
    """Returns the lines that mean something, and what does not."""
    lines, bad, last = list[_Line](), list[str](), 0
    over = f"{MAX_RULES_BYTES:,} bytes" if len(text) > MAX_RULES_BYTES else ""
    whole = text[:MAX_RULES_BYTES].rpartition(b"\n")[0] if over else text
    for number, raw in enumerate(whole.decode("utf-8", "surrogateescape").split("\n"), start=1):
        line = _TRAILING.sub("", raw.removesuffix("\r"))
        is_pattern = bool(line) and not line.startswith("#")
        if is_pattern and len(lines) + len(bad) == MAX_PATTERNS:
            over = f"{MAX_PATTERNS:,} patterns"
            break
        last = number
        if is_pattern:
            pattern = line.removeprefix("!")
            try:
                lines.append(_Line(pattern != line, to_regex(pattern)))
            except BadPattern as exc:
                bad.append(f"{_FILE}, line {number}, leaves nothing out: {exc}")
    unread = bad[:MAX_NAMED]
    if len(bad) > MAX_NAMED:
        unread.append(f"{_FILE} has {len(bad) - MAX_NAMED:,} more lines that leave nothing out")
    if over:
        unread.append(f"{_FILE} leaves nothing out after line {last}: {over} are the most")
    return lines, unread


MAX_CHARS: Final = 1000
"""In a pattern: the time to match a name grows with both."""

_FOLDERS: Final = "(?:[^/]+/)*?"
_CLASSES: Final = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@[-`{-~",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_ANY_FOLDERS: Final = re.compile(r"\*\*+")
_NAMED: Final = re.compile(r"\[:(\w*):\]")
_NOTHING: Final = "(?!)"
_STAR: Final = ""
"""Stands for a star among the parts of a name; no part that was written is empty."""


class BadPattern(ValueError):
    """A pattern that matches nothing, whatever its author had in mind."""


def to_regex(pattern: str) -> str:
    """Returns what matches the paths that a pattern means; those of folders end in a slash.

    Raises `BadPattern`. Whether the pattern is negated is not its business.
    """
    if not pattern:
        raise BadPattern("there is no pattern")
    if len(pattern) > MAX_CHARS:
        raise BadPattern(f"it has more than {MAX_CHARS} characters")
    only_folders = pattern.endswith("/")
    names = pattern.removesuffix("/").split("/")
    is_anchored = len(names) > 1
    if names[0] == "" and is_anchored:
        names = names[1:]
    if not is_anchored:
        names = ["**", *names]
    return _path(names) + ("/" if only_folders else "/?")


def _path(names: list[str]) -> str:
    """Returns the expression for names one below the other."""
    blocks: list[list[str]] = [[]]
    for name in names:
        if _ANY_FOLDERS.fullmatch(name):
            blocks.append([])
        else:
            blocks[-1].append(_name(name))
    *front, last = blocks
    # A block that is not the last one ends where a folder ends, and the first such place will do.
    parts = [
        f"(?>{_FOLDERS if number else ''}{''.join(f'{name}/' for name in block)})"
        for number, block in enumerate(front)
        if block
    ]
    if not last:
        return "".join([*parts, "[^/].*?"])
    return "".join([*parts, _FOLDERS if front else "", "/".join(last)])


def _name(name: str) -> str:
    """Returns the expression for one name."""
    if not name:
        return _NOTHING
    fixed = [""]
    for part in _parts(name):
        if part == _STAR:
            fixed.append("")
        else:
            fixed[-1] += part
    first, *rest = fixed
    if not rest:
        return first
    *middle, last = rest
    stars = "".join(f"(?>[^/]*?{part})" for part in middle if part)
    # The last star takes as much as it can: what follows it ends the name, or does not match.
    return f"(?>{first}{stars}[^/]*{last})"


def _parts(name: str) -> Iterator[str]:
    """Yields the expressions of a name, one for each of its characters, and `_STAR`."""
    at = 0
    while at < len(name):
        char = name[at]
        at += 1
        match char:
            case "*":
                yield _STAR
            case "?":
                yield "[^/]"
            case "[":
                text, at = _class(name, at)
                yield text
            case "\\":
                if at == len(name):
                    raise BadPattern("it ends with a backslash")
                yield re.escape(name[at])
                at += 1
            case _:
                yield re.escape(char)


def _class(name: str, at: int) -> tuple[str, int]:
    """Returns the expression for what is between brackets, and where it ends."""
    is_negated = name[at : at + 1] in ("!", "^")
    at += is_negated
    inside, start = list[str](), at
    while True:
        if at >= len(name):
            raise BadPattern("a bracket is not closed")
        if name[at] == "]" and at > start:
            break
        named = _NAMED.match(name, at)
        if named is not None:
            if named[1] not in _CLASSES:
                raise BadPattern(f"there is no class {shorten(named[1])}")
            inside.append(_CLASSES[named[1]])
            at = named.end()
            continue
        first, at = _literal(name, at)
        if name[at : at + 1] == "-" and name[at + 1 : at + 2] not in ("", "]"):
            last, at = _literal(name, at + 1)
            inside += [f"{re.escape(first)}-{re.escape(last)}"] if first <= last else []
        else:
            inside.append(re.escape(first))
    if not inside:
        return ("[^/]" if is_negated else _NOTHING), at + 1
    return f"(?!/)[{'^' if is_negated else ''}{''.join(inside)}]", at + 1


def _literal(name: str, at: int) -> tuple[str, int]:
    if name[at] == "\\":
        at += 1
    if at >= len(name):
        raise BadPattern("a bracket is not closed")
    return name[at], at + 1
