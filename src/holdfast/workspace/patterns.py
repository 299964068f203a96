"""Patterns of a `.gitignore`, all of them held against a path at once.

What a pattern means is git's to say, and where this module could differ a test asks git; but that a
`?` and brackets stand for a character here, and for a byte there. Paths of folders end in a slash.

Whoever works in a directory can write patterns and names. A path takes no longer than its length
times that of all patterns (`automaton.py`), whatever they are; a character that no path has had
takes a look at what is in brackets, which is bounded for all patterns together.
"""

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

from holdfast.errors import shorten
from holdfast.workspace.automaton import KEPT_AROUND, KEPT_BITS, Automaton, number_of

MAX_CHARS: Final = 1000
"""In a pattern: the time to match a name grows with it."""

MAX_IN_BRACKETS: Final = 10_000
"""Brackets that differ, and what is in them: a new character is held against each, which took 1 ms
for so many."""

_BEGIN: Final = 1
"""The bit of place 0, which says that a name of the path begins."""

_RANGES: Final = {
    "alnum": ("09", "AZ", "az"),
    "alpha": ("AZ", "az"),
    "blank": ("  ", "\t\t"),
    "cntrl": ("\x00\x1f", "\x7f\x7f"),
    "digit": ("09",),
    "graph": ("!~",),
    "lower": ("az",),
    "print": (" ~",),
    "punct": ("!/", ":@", "[`", "{~"),
    "space": ("\t\r", "  "),
    "upper": ("AZ",),
    "xdigit": ("09", "AF", "af"),
}
"""Of each class its ranges: their first character and their last."""

_ANY_FOLDERS: Final = re.compile(r"\*\*+")
_NAMED: Final = re.compile(r"\[:(\w*):\]")


class BadPattern(ValueError):
    """A pattern that matches nothing, whatever its author had in mind."""


class _Sign(Enum):
    """What stands for more than itself."""

    ANY = auto()
    """One character."""
    STAR = auto()
    """Any number of characters of a name."""
    FOLDERS = auto()
    """Any number of folders."""
    REST = auto()
    """Whatever follows."""


class _Brackets(NamedTuple):
    """One character of some, or any but those: never a slash."""

    is_negated: bool
    ranges: tuple[str, ...]

    def takes(self, char: str) -> bool:
        return any(first <= char <= last for first, last in self.ranges) is not self.is_negated


_Token = str | _Brackets | _Sign

_NOTHING: Final = _Brackets(is_negated=False, ranges=())


class Patterns:
    """Patterns in their order: the last one that fits a path decides."""

    def __init__(self) -> None:
        self._size = 1
        self._left = MAX_IN_BRACKETS
        self._begins, self._ends, self._negated = list[int](), list[int](), list[int]()
        self._takers = dict[str | _Brackets | _Sign, list[int]]()
        """The places that something leads on from: a character, one of some, any."""
        self._stars, self._wide = list[int](), list[int]()
        """The places that stay as they are at every character but a slash, and at all of them."""
        self._gated = list[int]()
        """The places that something leads on from only where a name begins."""

    def add(self, pattern: str, *, is_negated: bool = False) -> None:
        """Adds a pattern; raises `BadPattern`, and is as it was then."""
        if not pattern:
            raise BadPattern("there is no pattern")
        if len(pattern) > MAX_CHARS:
            raise BadPattern(f"it has more than {MAX_CHARS} characters")
        only_folders = pattern.endswith("/")
        tokens = list(_tokens(pattern))
        self._count(tokens)
        place = self._size
        self._begins.append(place)
        for token in tokens:
            match token:
                case _Sign.STAR:
                    self._stars.append(place)
                    if self._gated[-1:] == [place]:
                        del self._gated[-1]  # It takes the beginning of the name as well.
                case _Sign.FOLDERS:
                    self._wide.append(place)
                    self._gated.append(place)
                case _Sign.REST:
                    self._wide.append(place)
                case _:
                    self._takers.setdefault(token, []).append(place)
                    place += 1
        self._takers.setdefault("/", []).append(place)
        ends = [place + 1] if only_folders else [place, place + 1]
        self._ends += ends
        self._negated += ends if is_negated else []
        self._size = place + 2

    def automaton(self) -> Automaton[str]:
        """Returns what says of paths whether the last pattern that fits is one that is not negated.

        It says no where none fits.
        """
        moves = _Moves(self._takers, self._gated, self._size)
        stars, wide = number_of(self._stars, self._size), number_of(self._wide, self._size)
        ends, negated = number_of(self._ends, self._size), number_of(self._negated, self._size)

        def follow(places: int, char: str) -> int:
            on, on_inside = moves.of(char)
            leads = (places & (on if places & _BEGIN else on_inside)) << 1
            if char == "/":
                return leads | (places & wide) | _BEGIN
            return leads | (places & (wide | stars))

        def decide(places: int) -> bool:
            fitting = places & ends
            return bool(fitting) and not negated >> (fitting.bit_length() - 1) & 1

        begin = _BEGIN | number_of(self._begins, self._size)
        return Automaton(begin, size=self._size, follow=follow, decide=decide)

    def _count(self, tokens: list[_Token]) -> None:
        brackets = {token for token in tokens if isinstance(token, _Brackets)}
        left = self._left - sum(1 + len(each.ranges) for each in brackets - self._takers.keys())
        if left < 0:
            raise BadPattern(f"there are more than {MAX_IN_BRACKETS:,} in brackets up to here")
        self._left = left


class _Moves:
    """The places that a character leads on from: where a name begins, and inside of one."""

    def __init__(
        self, takers: dict[str | _Brackets | _Sign, list[int]], gated: list[int], size: int
    ) -> None:
        self._takers, self._size = takers, size
        self._brackets = [token for token in takers if isinstance(token, _Brackets)]
        self._any = number_of(takers.get(_Sign.ANY, ()), size)
        self._gated = number_of(gated, size)
        self._kept = dict[str, tuple[int, int]]()

    def of(self, char: str) -> tuple[int, int]:
        known = self._kept.get(char)
        if known is not None:
            return known
        places = list(self._takers.get(char, ()))
        if char != "/":
            for brackets in self._brackets:
                if brackets.takes(char):
                    places += self._takers[brackets]
        on = number_of(places, self._size) | (self._any if char != "/" else 0)
        if len(self._kept) * (2 * self._size + KEPT_AROUND) > KEPT_BITS:
            self._kept.clear()
        self._kept[char] = made = on, on & ~self._gated
        return made


def _tokens(pattern: str) -> Iterator[_Token]:
    """Yields what a pattern consists of, without the slash that it may end with."""
    names = pattern.removesuffix("/").split("/")
    is_anchored = len(names) > 1
    if not names[0] and is_anchored:
        del names[0]
    if not is_anchored:
        names.insert(0, "**")
    *front, last = names
    was_any = False
    for name in front:
        is_any = _ANY_FOLDERS.fullmatch(name) is not None
        if not is_any:
            yield from _name(name)
            yield "/"
        elif not was_any:
            yield _Sign.FOLDERS
        was_any = is_any
    if _ANY_FOLDERS.fullmatch(last):
        yield from (_Sign.ANY, _Sign.REST)
    else:
        yield from _name(last)


def _name(name: str) -> Iterator[_Token]:
    """Yields what one name of a pattern consists of."""
    if name == "*":
        yield _Sign.ANY  # No name is empty: `a/*` does not mean `a/`.
    if not name:
        yield _NOTHING
    at = 0
    while at < len(name):
        char = name[at]
        at += 1
        match char:
            case "*":
                yield _Sign.STAR
            case "?":
                yield _Sign.ANY
            case "[":
                brackets, at = _read_brackets(name, at)
                yield brackets
            case "\\":
                if at == len(name):
                    raise BadPattern("it ends with a backslash")
                yield name[at]
                at += 1
            case _:
                yield char


def _read_brackets(name: str, at: int) -> tuple[_Brackets, int]:
    """Returns what is between brackets, and where they end."""
    is_negated = name[at : at + 1] in ("!", "^")
    at += is_negated
    ranges, start = list[str](), at
    while True:
        if at >= len(name):
            raise BadPattern("a bracket is not closed")
        if name[at] == "]" and at > start:
            break
        named = _NAMED.match(name, at)
        if named is not None:
            if named[1] not in _RANGES:
                raise BadPattern(f"there is no class {shorten(named[1])}")
            ranges += _RANGES[named[1]]
            at = named.end()
            continue
        first, at = _literal(name, at)
        last = first
        if name[at : at + 1] == "-" and name[at + 1 : at + 2] not in ("", "]"):
            last, at = _literal(name, at + 1)
        ranges += [first + last] if first <= last else []
    return _Brackets(is_negated, tuple(dict.fromkeys(ranges))), at + 1


def _literal(name: str, at: int) -> tuple[str, int]:
    if name[at] == "\\":
        at += 1
    if at >= len(name):
        raise BadPattern("a bracket is not closed")
    return name[at], at + 1
