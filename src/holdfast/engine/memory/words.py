"""Cuts text into words as they are looked for.

Text of any kind becomes a list of words that hold letters, digits and their marks, and nothing
else: folded to one case, without accents, English ones as their stems. Scripts that put no
spaces between words are cut into single characters and pairs of neighbours. The same text gives
the same words everywhere, and nothing that a text holds has a meaning in a database's query
language, since no such character is left.

All words are kept, also those that say little; a question leaves them out, unless it has no
others. Not here: how much a word counts (`recall.py`).

Finds the stem that forms of an English word share.

The rules are those that M. F. Porter published in 1980 ("An algorithm for suffix stripping"),
after two small steps of our own, American spelling for British and some plurals that no rule
makes, and before a third, which joins `allergy` and `allergic`. Here, and not in the database:
what SQLite and PostgreSQL call English stems are two different things, and a memory would be
found in the one and not in the other.

Changing what comes out changes what is found: rows hold stems. It needs a migration that makes
them anew.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Final

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


_SHORTEST: Final = 3
"""Shorter words are left alone: `is`, `as`, `us` have no ending."""

_IRREGULAR: Final = {
    "children": "child",
    "feet": "foot",
    "grey": "gray",
    "men": "man",
    "mice": "mouse",
    "people": "person",
    "teeth": "tooth",
    "wives": "wife",
    "women": "woman",
}

_SPELLINGS: Final = (
    # A vowel has to come before: `colour` and `favourite`, not `hour`, `source`, `journal`.
    (re.compile(r"^(.*[aeiouy].*)our"), r"\1or"),
    (re.compile(r"^(..+[a-z])is(e|es|ed|er|ing|ation|ations)$"), r"\1iz\2"),
    (re.compile(r"ys(e|es|ed|er|ing)$"), r"yz\1"),
    (re.compile(r"^(..+)tre(s?)$"), r"\1ter\2"),  # codespell:ignore tre
    (re.compile(r"ogue(s?)$"), r"og\1"),
)

_SECOND: Final = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "abli": "able",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
}
_THIRD: Final = {
    "icate": "ic",
    "ative": "",  # codespell:ignore ative
    "alize": "al",
    "iciti": "ic",
    "ical": "ic",
    "ful": "",
    "ness": "",
}
_FOURTH: Final[dict[str, str]] = dict.fromkeys(
    (
        *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ent"),
        "ment",  # codespell:ignore ment
        *("ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"),
    ),
    "",
)


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """Returns the stem of a word in small letters; of one in another alphabet, the word."""
    if len(word) < _SHORTEST or not (word.isascii() and word.isalpha()):
        return word
    word = _IRREGULAR.get(word, word)
    for spelling, american in _SPELLINGS:
        word = spelling.sub(american, word)
    word = _without_participle(_without_plural(word))
    if word.endswith("y") and len(word) > _SHORTEST - 1 and _shape(word)[-2] == "c":
        word = word[:-1] + "i"
    word = _exchange(word, _SECOND, least=1)
    word = _exchange(word, _THIRD, least=1)
    word = _exchange(word, _FOURTH, least=2)
    return _tidy(word)


def _shape(word: str) -> str:
    """Returns the word with every letter as `c` or `v`; after a consonant, y is a vowel."""
    shape = ""
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if is_vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Returns how often vowels are followed by consonants: about the number of syllables."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Says whether a word ends as `hop` does: it had an `e` before `-ing`, or would need one."""
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _without_plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith("ies"):
        # `ties` keeps its e, as `tie` does.
        return word[:-1] if len(word) <= len("ties") else word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us")):
        return word[:-1]
    return word


def _without_participle(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        rest = word.removesuffix(ending)
        if rest != word and "v" in _shape(rest):
            break
    else:
        return word
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if rest[-1:] == rest[-2:-1] and rest[-1] not in "aeioulsz":
        return rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _ends_short(rest) else rest


def _exchange(word: str, endings: dict[str, str], *, least: int) -> str:
    """Returns the word with the longest ending that it has replaced, if enough is before it."""
    found = [ending for ending in endings if word.endswith(ending)]
    if not found:
        return word
    ending = max(found, key=len)
    rest = word.removesuffix(ending)
    if _measure(rest) < least or (ending == "ion" and rest[-1:] not in ("s", "t")):
        return word
    return rest + endings[ending]


def _tidy(word: str) -> str:
    if word.endswith(("gi", "omi", "aphi")) and _measure(word[:-1]) > 1:
        # An allergy is what is allergic, an economy what is economic.
        word = word[:-1]
    if word.endswith("e"):
        rest = word[:-1]
        measure = _measure(rest)
        if measure > 1 or (measure == 1 and not _ends_short(rest)):
            word = rest
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word
