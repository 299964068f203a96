"""How text is cut into words, and which forms of a word are one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.memory.words import LONGEST, stem, words_asked, words_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("preferences", "prefers"),
        ("preferred", "prefer"),
        ("cities", "city"),
        ("running", "runs"),
        ("hopping", "hop"),
        ("hoping", "hope"),
        ("agreed", "agree"),
        ("addresses", "address"),
        ("relational", "relate"),
        ("usefulness", "useful"),
        ("deployment", "deploys"),
        ("configuration", "configure"),
        ("ties", "tie"),
        ("status", "statuses"),
        ("favourite", "favorite"),
        ("colours", "color"),
        ("organised", "organizing"),
        ("analyse", "analyzing"),
        ("centres", "center"),
        ("dialogue", "dialogs"),
        ("travelling", "traveled"),
        ("children", "child"),
        ("grey", "gray"),
        ("allergies", "allergic"),
        ("economy", "economical"),
        ("photography", "photographic"),
    ],
)
def test_forms_of_one_word_have_one_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("hours", "horse"),
        ("wand", "wander"),
        ("sing", "sung"),
        ("bus", "bush"),
        ("policy", "police"),
        ("as", "a"),
    ],
)
def test_other_words_have_other_stems(one: str, other: str) -> None:
    assert stem(one) != stem(other)


@pytest.mark.parametrize("word", ["us", "straße", "naïve", "привет", "a1s", "2024s", ""])
def test_what_is_no_english_word_is_left_alone(word: str) -> None:
    assert stem(word) == word


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The user's favourite COLOUR", ["the", "user", "favorit", "color"]),
        ("don\u2019t, mustn't", ["dont", "mustnt"]),
        ("snake_case and kebab-case", ["snake", "case", "and", "kebab", "case"]),
        ("call +49 30/1234 v3.11", ["call", "49", "30", "1234", "v3", "11"]),
        ("Café CRÈME brûlée", ["cafe", "creme", "brule"]),
        ("Straße", ["strass"]),
        ("ﬁle № \uff15", ["file", "no", "5"]),
        ("Привет, мир!", ["привет", "мир"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("東京タワー", ["東", "京", "タ", "ワ", "ー", "東京", "京タ", "タワ", "ワー"]),
        ("iPhone用ケース", ["iphon", "用", "ケ", "ー", "ス", "用ケ", "ケー", "ース"]),
        ("한국어", ["한", "국", "어", "한국", "국어"]),
        ("😀 -- !!! \0 \ud800", []),
        ("", []),
    ],
)
def test_text_of_any_kind_is_cut_into_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("What is the user's favourite colour?", ["user", "favorit", "color"]),
        ("Do you remember what I told you about Anna?", ["told", "anna"]),
        ("blue blue BLUE", ["blue"]),
        ("who am I", ["who", "am", "i"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("猫", ["猫"]),
        ('" OR NEAR(* ) -- ^', ["near"]),
        ("   ", []),
    ],
)
def test_a_question_is_about_the_words_that_say_something(query: str, words: list[str]) -> None:
    assert words_asked(query) == words


@given(st.text(max_size=200))
def test_no_word_holds_what_a_query_language_knows(text: str) -> None:
    for word in words_of(text):
        assert word
        assert len(word) <= LONGEST
        assert all(ord(c) > 127 or c.isdigit() or ("a" <= c <= "z") for c in word)
        assert not any(c.isspace() for c in word)


@given(st.text(max_size=200))
def test_what_is_asked_for_in_its_own_words_is_among_them(text: str) -> None:
    assert set(words_asked(text)) <= set(words_of(text))
