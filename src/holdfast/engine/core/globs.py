"""Patterns of paths, all of them held against a name at once, in bounded work.

A `*` stands for anything, also for slashes, a `?` for one byte, and brackets for one of some, as
`fnmatch` has it. All patterns are one automaton (`workspace/automaton.py`): a name that looks like
those before it takes a lookup for each of its bytes, however many patterns there are.

Whoever chooses patterns and names can have every byte lead somewhere new. What that costs is
counted, in bits and not by the clock: the same question is refused always, or never.
"""

import fnmatch
import re
from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.errors import InvalidValue
from holdfast.workspace.automaton import Automaton, number_of

MOST_WORK: Final = 10_000_000_000
STEP_WORK: Final = 10_000
"""The bits of all steps that may be computed, and what a step counts beside its own. A step took
4 us with patterns of 12,000 places, and 13 us with 62,000: all of it less than two seconds."""

_EVERY: Final = bytes(range(256))
_STAR, _ANY = b"*?"
_PLAIN: Final = re.compile(rb"[^*?\[]+")


class Globs:
    """Patterns; each call says whether a name matches one of them."""

    def __init__(self, patterns: Iterable[bytes]) -> None:
        starts, ends, stars = list[int](), list[int](), list[int]()
        tokens = list[bytes]()
        for pattern in patterns:
            starts.append(len(tokens))
            for token in _tokens(pattern):
                if token is None:
                    stars.append(len(tokens))
                else:
                    tokens.append(token)
            ends.append(len(tokens))
            tokens.append(b"")  # Nothing leads on from the end of a pattern.
        self._size = len(tokens)
        self._steps = _steps(tokens)
        """For each byte, the places from which it leads to the next one."""
        self._stars, self._ends = number_of(stars, self._size), number_of(ends, self._size)
        self._left = MOST_WORK
        self._matches = Automaton[int](
            number_of(starts, self._size),
            size=self._size,
            follow=self._after,
            decide=lambda places: bool(places & self._ends),
        )

    def __call__(self, name: bytes) -> bool:
        """Says whether a name matches; raises `InvalidValue` when that took too much in all."""
        return self._matches(name)

    def _after(self, places: int, byte: int) -> int:
        self._left -= self._size + STEP_WORK
        if self._left < 0:
            raise InvalidValue(
                "these patterns take too long to hold against all the names that are here"
            ).with_hint("Name the folders that are meant, or fewer patterns.")
        return ((places & self._steps[byte]) << 1) | (places & self._stars)


def _tokens(pattern: bytes) -> Iterator[bytes | None]:
    """Yields the bytes that each place of a pattern takes; None for a star."""
    at = 0
    while at < len(pattern):
        plain = _PLAIN.match(pattern, at)
        if plain is not None:
            yield from (pattern[each : each + 1] for each in range(at, plain.end()))
            at = plain.end()
            continue
        sign, at = pattern[at], at + 1
        if sign == _STAR:
            yield None
        elif sign == _ANY:
            yield _EVERY
        else:
            end = _close(pattern, at)
            yield b"[" if end < 0 else _inside(pattern[at:end])
            at = max(at, end + 1)


def _close(pattern: bytes, at: int) -> int:
    """Returns where a bracket is closed; -1 if it is not, and means itself."""
    at += pattern[at : at + 1] == b"!"
    at += pattern[at : at + 1] == b"]"
    return pattern.find(b"]", at)


def _inside(text: bytes) -> bytes:
    """Returns the bytes that brackets around a text stand for."""
    if b"-" in text:  # What ranges mean, and those that mean nothing, is not for us to say.
        regex = fnmatch.translate(f"[{text.decode('latin-1')}]")
        one = re.compile(regex.removesuffix(r"\Z").removesuffix(r"\z"))
        return "".join(one.findall(_EVERY.decode("latin-1"))).encode("latin-1")
    if text.startswith(b"!"):
        return _EVERY.translate(None, text[1:])
    return bytes(set(text))


def _steps(tokens: list[bytes]) -> list[int]:
    """Returns for each byte the places that take it."""
    size = len(tokens) // 8 + 1
    found = {byte: bytearray(size) for byte in set[int]().union(*tokens)}
    every = bytearray(size)
    for place, token in enumerate(tokens):
        where, bit = place >> 3, 1 << (place & 7)
        if token is _EVERY:
            every[where] |= bit
            continue
        for byte in token:
            found[byte][where] |= bit
    always = int.from_bytes(every, "little")
    return [
        always | int.from_bytes(found[byte], "little") if byte in found else always
        for byte in range(256)
    ]
