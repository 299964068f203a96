"""Patterns of paths, all of them held against a name at once, in bounded work.

A `*` stands for anything, also for slashes, a `?` for one byte, and brackets for one of some, as
`fnmatch` has it. All patterns are one automaton: where each of them is after a part of a name is a
bit of one number, and what follows a byte is computed once and kept. So a name that looks like
those before it takes a lookup for each of its bytes, however many patterns there are.

Whoever chooses patterns and names can have every byte lead somewhere new. What that costs is
counted, in bits and not by the clock: the same question is refused always, or never.
"""

import fnmatch
import re
from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.errors import InvalidValue

MOST_WORK: Final = 10_000_000_000
STEP_WORK: Final = 10_000
"""The bits of all steps that may be computed, and what a step counts beside its own. A step took
4 us with patterns of 12,000 places, and 13 us with 62,000: all of it less than two seconds."""

KEPT_BITS: Final = 64 << 20
"""What is kept of it, with as much again around it: 8 MiB."""

KEPT_AROUND: Final = 4096
"""Bits of memory that a step takes beside its number."""

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
        self._stars, self._ends = _number(stars, self._size), _number(ends, self._size)
        self._left = MOST_WORK
        self._states = dict[int, _State]()
        self._kept = 0
        self._begin = self._state(_number(starts, self._size))

    def __call__(self, name: bytes) -> bool:
        """Says whether a name matches; raises `InvalidValue` when that took too much in all."""
        state = self._begin
        for byte in name:
            state = state[byte]
        return state.is_end

    def after(self, state: "_State", byte: int) -> "_State":
        """Computes where a byte leads to."""
        self._left -= self._size + STEP_WORK
        if self._left < 0:
            raise InvalidValue(
                "these patterns take too long to hold against all the names that are here"
            ).with_hint("Name the folders that are meant, or fewer patterns.")
        places = state.places
        return self._state(((places & self._steps[byte]) << 1) | (places & self._stars))

    def _state(self, places: int) -> "_State":
        self._kept += KEPT_AROUND
        found = self._states.get(places)
        if found is not None:
            return found
        self._kept += self._size
        if self._kept > KEPT_BITS:
            self._forget()
        made = self._states[places] = _State(self, places, is_end=bool(places & self._ends))
        return made

    def _forget(self) -> None:
        """Lets go of what is kept; the first state stays, and is as good as new."""
        for state in self._states.values():
            state.clear()  # They lead to each other: nothing else would let go of them soon.
        self._states = {self._begin.places: self._begin}
        self._kept = 0


class _State(dict[int, "_State"]):
    """The places that a name may have come to in the patterns, and where each byte leads to."""

    __slots__ = ("_globs", "is_end", "places")

    def __init__(self, globs: Globs, places: int, *, is_end: bool) -> None:
        super().__init__()
        self._globs, self.places, self.is_end = globs, places, is_end

    def __missing__(self, byte: int) -> "_State":
        """Computes where a byte leads to that has not come here before."""
        self[byte] = following = self._globs.after(self, byte)
        return following


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


def _number(places: Iterable[int], size: int) -> int:
    """Returns places as the bits of a number."""
    bits = bytearray(size // 8 + 1)
    for place in places:
        bits[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(bits, "little")
