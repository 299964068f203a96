"""Finds the stem that forms of an English word share.

The rules are those that M. F. Porter published in 1980 ("An algorithm for suffix stripping"),
after two small steps of our own, American spelling for British and some plurals that no rule
makes, and before a third, which joins `allergy` and `allergic`. Here, and not in the database:
what SQLite and PostgreSQL call English stems are two different things, and a memory would be
found in the one and not in the other.

Changing what comes out changes what is found: rows hold stems. It needs a migration that makes
them anew.
"""

import re
from functools import lru_cache
from typing import Final

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
