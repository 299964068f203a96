"""Says how well a memory answers a question: 0 is not at all, 1 is wholly.

It is BM25, divided by the most that any text could reach for the question, and bent so that a
fixed threshold of 0.7 separates what is obvious from what is not:

    weight(w)  = ln((N + 20) / (n(w) + 1))       N memories, n of which hold the word w
    held(w)    = t / (t + k)                     t times in this memory; less if it is long
    k          = 0.15 · (½ + ½ · min(length / 20, 8))
    x          = Σ weight(w) · held(w) / Σ weight(w)      over the words of the question
    score      = 1 - (1 - x)^1.5

So a short memory that holds every word of a question scores 0.97, one that holds two of three
equally rare ones 0.75, one of two 0.6; one that holds everything but is very long, 0.75. Words
that hardly any memory holds weigh more: to mention the user is nothing where every memory does.
The 20 stand for memories yet to come. Without them the only memory there is would make each of
its own words worthless.

A word that only begins like the one in question counts in proportion, and so much less that it
is never obvious by itself: `plane` is most of `planet`, and something else.

Pure: no rows, no clock. `tests/unit/test_ranking.py` has a table of examples.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Final, TypeVar

import msgspec

from holdfast.model.memories import MemoryPlace

MOST_WORDS: Final = 64
"""Words of a question that count: the first ones. A whole page would be no question."""

_YET_TO_COME: Final = 20
_SATURATION: Final = 0.15
"""Small, where web search takes 1.2: in one or two sentences a word is there or is not, and how
often says little."""

_USUAL_WORDS: Final = 20
_LONGEST_TIMES: Final = 8
_BEND: Final = 1.5

_LEAST_PREFIX: Final = 3
_LEAST_SHARE: Final = 0.5
"""A word that is more than twice as long is another word."""

_BEGINNING: Final = 0.6
"""What a beginning counts: with nothing else, a score below 0.7 whatever is missing."""


P = TypeVar("P", int, MemoryPlace)
"""Where a memory stands: what is newer sorts behind what is older."""


class Question(msgspec.Struct, frozen=True):
    """The words that are asked for, and what each weighs; the heaviest first."""

    weights: tuple[tuple[str, float], ...]
    total: float

    @classmethod
    def of(cls, words: Sequence[str], *, held: Mapping[str, int], memories: int) -> "Question":
        """Returns the question of these words, where so many memories hold each."""
        weights = [
            (word, log((memories + _YET_TO_COME) / (held.get(word, 0) + 1)))
            for word in words[:MOST_WORDS]
        ]
        weights.sort(key=lambda pair: -pair[1])
        return cls(tuple(weights), sum(weight for _, weight in weights))

    def needed(self, threshold: float) -> list[str]:
        """Returns words of which a memory holds at least one if it reaches the threshold.

        All but the lightest: those who hold nothing else stay below it, and they are the many
        that need not be looked at. One that may be the beginning of another ends with `*`.
        """
        allowed = (1 - (1 - threshold) ** (1 / _BEND)) * self.total
        needed, left_out = list(self.weights), 0.0
        while needed and left_out + needed[-1][1] < allowed:
            left_out += needed.pop()[1]
        return [f"{word}*" if _may_begin(word) else word for word, _ in needed]

    def score(self, terms: str) -> float:
        """Returns how well the memory with these words answers."""
        there = terms.split(" ")
        times = min(len(there) / _USUAL_WORDS, _LONGEST_TIMES)
        k = _SATURATION * (0.5 + 0.5 * times)
        reached = 0.0
        for word, weight in self.weights:
            count = there.count(word)
            if count:
                reached += weight * count / (count + k)
            elif _may_begin(word) and word in terms:
                reached += weight * _share(word, there) / (1 + k)
        return bent(reached / self.total)


def bent(share: float) -> float:
    """Returns the score of what has this share of all that could be wanted."""
    return 1 - (1 - min(share, 1.0)) ** _BEND


def best(
    scores: Iterable[tuple[P, float]], *, threshold: float, most: int
) -> list[tuple[P, float]]:
    """Returns the best, best first, of the same score the newest; those above 0 alone."""
    enough = (pair for pair in scores if pair[1] >= threshold and pair[1] > 0)
    return sorted(enough, key=lambda pair: (pair[1], pair[0]), reverse=True)[:most]


def _may_begin(word: str) -> bool:
    """Says whether a word may stand for longer ones: 30 is not the beginning of 300."""
    return len(word) >= _LEAST_PREFIX and word.isascii() and word.isalpha()


def _share(word: str, there: Sequence[str]) -> float:
    """Returns how much of a longer word this one is; of the nearest, 0 if none is near."""
    shares = [len(word) / len(each) for each in there if each.startswith(word)]
    nearest = max(shares, default=0.0)
    return nearest * _BEGINNING if nearest >= _LEAST_SHARE else 0.0
