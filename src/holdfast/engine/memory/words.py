"""Cuts text into words as they are looked for.

Text of any kind becomes a list of words that hold letters, digits and their marks, and nothing
else: folded to one case, without accents, English ones as their stems. Scripts that put no
spaces between words are cut into single characters and pairs of neighbours. The same text gives
the same words everywhere, and nothing that a text holds has a meaning in a database's query
language, since no such character is left.

All words are kept, also those that say little; a question leaves them out, unless it has no
others. Not here: how much a word counts (`ranking.py`).
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Final

from holdfast.engine.memory.stemming import stem

LONGEST: Final = 64
"""Characters of a word that are looked at: what is longer is no word of a language, and
PostgreSQL refuses to index much longer ones."""

_ASCII_WORD: Final = re.compile(r"[a-z0-9]+")
_APOSTROPHES: Final = re.compile("['\u2019\u02bc](?:s\\b)?")
"""Go with the s that follows: the user's colour is the colour of the user."""

_ACCENTS: Final = re.compile("[\u0300-\u036f]")

_WITHOUT_SPACES: Final = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"  # CJK and Hangul
    "\U00020000-\U0003ffff]+"
)

_SAYS_LITTLE_TEXT: Final = """
    a about above after again against all also am an and any anything are aren as at be
    because been before being below between both but by can can't cannot could couldn't did
    didn't do does doesn't doing don't down during each else ever every everything few for
    from further get give go got had hadn't has hasn't have haven't having he her here hers
    herself hi him himself his how however i i'd i'll i'm i've if in into is isn't it its
    itself just know known let let's many may me might mine more most much must my myself need
    neither no nor not now of off on once one only or other our ours ourselves out over own
    please really recall remember remind said same say shall she should shouldn't show so some
    something such tell than thank thanks that the their theirs them themselves then there
    these they they're thing things this those through to too under until up upon us very want
    was wasn't we well went were weren't what what's when where where's which while who who's
    whom whose why will with won't would wouldn't yes you you're your yours yourself
    yourselves
"""
_SAYS_LITTLE: Final = frozenset(_SAYS_LITTLE_TEXT.replace("'", "").split())


def words_of(text: str) -> list[str]:
    """Returns the words of a text in their order."""
    return [word for word, _ in _words(text)]


def words_asked(query: str) -> list[str]:
    """Returns the distinct words that a question is about, in their order.

    Those that say little count only if there are no others: `who am I` is a question, too.
    """
    found = list(_words(query, alone=False))
    about = [word for word, is_little in found if not is_little]
    return list(dict.fromkeys(about or [word for word, _ in found]))


def _words(text: str, *, alone: bool = True) -> Iterator[tuple[str, bool]]:
    """Yields words, and whether each says little.

    Where a script has no spaces, pairs of characters are words, and `alone` every single one.
    """
    folded = _APOSTROPHES.sub("", _fold(text))
    plain = _ASCII_WORD.findall(folded) if folded.isascii() else _cut(folded)
    for word in plain:
        if word.isascii():
            yield stem(word[:LONGEST]), word in _SAYS_LITTLE
            continue
        at = 0
        for run in _without_spaces().finditer(word):
            if run.start() > at:
                yield stem(word[at : run.start()][:LONGEST]), False
            yield from ((pair, False) for pair in _pairs(run[0], alone=alone))
            at = run.end()
        if at < len(word):
            yield stem(word[at:][:LONGEST]), False


@cache
def _without_spaces() -> re.Pattern[str]:
    # Not before it is needed: so many characters take 3 ms to compile.
    return re.compile(_WITHOUT_SPACES)


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Taken apart, freed of accents, and put together again: Hangul would else stay in pieces.
    apart = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return unicodedata.normalize("NFKC", apart).casefold()


def _cut(text: str) -> Iterator[str]:
    """Yields runs of letters, digits, and the marks that belong to them."""
    word = ""
    for character in text:
        # A mark is a vowel in many scripts: without it, Hindi would be cut inside of words.
        if character.isalnum() or (word and unicodedata.category(character).startswith("M")):
            word += character
        elif word:
            yield word
            word = ""
    if word:
        yield word


def _pairs(run: str, *, alone: bool) -> Iterator[str]:
    if alone or len(run) == 1:
        yield from run
    for at in range(len(run) - 1):
        yield run[at : at + 2]
