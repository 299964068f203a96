"""Many patterns, all of them held against a name at once.

Where each pattern is after a part of a name is a bit of one number, its *place*. What follows a
symbol is computed once and kept: a name that looks like those before it takes a lookup for each of
its symbols, however many patterns there are. A name that leads somewhere new at every symbol takes
a few operations for each, on numbers that have a bit for each place: never more than the length of
the name times that of the patterns, and what is kept of it is bounded.

Not here: what patterns mean (`patterns.py` and `engine/core/globs.py`).
"""

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

Symbol = TypeVar("Symbol")

KEPT_BITS: Final = 64 << 20
"""What is kept of numbers, with as much again around it: 8 MiB."""

KEPT_AROUND: Final = 4096
"""Bits of memory that a step takes beside its number."""


class Automaton(Generic[Symbol]):
    """Patterns; each call says what they make of a name.

    Safe to use from many threads: what one of them forgets, another computes again.
    """

    def __init__(
        self,
        begin: int,
        *,
        size: int,
        follow: Callable[[int, Symbol], int],
        decide: Callable[[int], bool],
    ) -> None:
        """Takes the places before a name, how many there are, and what they mean.

        `follow` returns the places after a symbol, `decide` what it means that a name ends there.
        """
        self._size, self._follow, self._decide = size, follow, decide
        self._states = dict[int, _State[Symbol]]()
        self._kept = 0
        self._begin = self._state(begin)

    def __call__(self, name: Iterable[Symbol]) -> bool:
        """Returns what was decided of the places to which a name leads."""
        state = self._begin
        for symbol in name:
            state = state[symbol]
        return state.decision

    def after(self, state: "_State[Symbol]", symbol: Symbol) -> "_State[Symbol]":
        """Computes where a symbol leads to."""
        return self._state(self._follow(state.places, symbol))

    def _state(self, places: int) -> "_State[Symbol]":
        self._kept += KEPT_AROUND
        known = self._states.get(places)
        if known is not None:
            return known
        self._kept += self._size
        if self._kept > KEPT_BITS:
            self._forget()
        made = self._states[places] = _State(self, places, decision=self._decide(places))
        return made

    def _forget(self) -> None:
        """Lets go of what is kept; the first state stays, and is as good as new."""
        for state in list(self._states.values()):
            state.clear()  # They lead to each other: nothing else would let go of them soon.
        self._states = {self._begin.places: self._begin}
        self._kept = 0


class _State(dict[Symbol, "_State[Symbol]"]):
    """The places that a name may have come to in the patterns, and where each symbol leads to."""

    __slots__ = ("_automaton", "decision", "places")

    def __init__(self, automaton: Automaton[Symbol], places: int, *, decision: bool) -> None:
        super().__init__()
        self._automaton, self.places, self.decision = automaton, places, decision

    def __missing__(self, symbol: Symbol) -> "_State[Symbol]":
        """Computes where a symbol leads to that has not come here before."""
        self[symbol] = following = self._automaton.after(self, symbol)
        return following


def number_of(places: Iterable[int], size: int) -> int:
    """Returns places as the bits of a number."""
    bits = bytearray(size // 8 + 1)
    for place in places:
        bits[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(bits, "little")
