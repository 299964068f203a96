"""What a score means: the table of examples behind the formula in `engine/memory/recall.py`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.memory.recall import MOST_WORDS, Question, bent, best
from holdfast.engine.memory.words import words_asked, words_of

REMEMBERED = [
    "The user's favourite colour is blue",
    "User prefers dark mode in every editor",
    "User lives in Berlin and works as a nurse",
    "User is allergic to peanuts",
    "Meeting with Anna every Monday at 10:00",
    "The deployment of the billing service failed on Friday",
    "The API key for the staging environment was rotated",
    "Refund policy: refunds above 100 dollars need approval by a manager",
    "The user likes hiking, sailing and long novels",
    "彼は東京に住んでいて、猫が好きです",
    "Der Nutzer möchte Antworten auf Deutsch",
    "Пользователь предпочитает краткие ответы",
]

OBVIOUS = [
    ("favorite color", 0),
    ("What is the user's favorite color?", 0),
    ("which colours does the user favour", 0),
    ("user preferences", 1),
    ("does the user prefer dark or light mode", 1),
    ("Where does the user live?", 2),
    ("Where does the user work?", 2),
    ("allergies to peanuts", 3),
    ("peanut allergy", 3),
    ("meetings on Monday", 4),
    ("Anna", 4),
    ("failed deployments", 5),
    ("billing service", 5),
    ("staging API keys", 6),
    ("refund approvals", 7),
    ("manager approval for refunds", 7),
    ("hike", 8),
    ("novel", 8),
    ("東京", 9),
    ("猫が好き", 9),
    ("Antwort auf deutsch", 10),
    ("ОТВЕТЫ", 11),
    ("deploy", 5),
    ("dark mod", 1),
]

UNRELATED = [
    "quantum chromodynamics",
    "user's favorite food",
    "the weather in Paris tomorrow",
    "car insurance",
    "who won the football match on Sunday",
    "password of the production database",
    "大阪",
    "man",
    "plan for the nursery",
    "lon",
    "",
    "?!",
]


def ask(query: str, texts: list[str] = REMEMBERED) -> list[float]:
    """Returns the score of each text, as a search that looks at all of them would."""
    terms = [words_of(text) for text in texts]
    words = words_asked(query)
    if not words:
        return [0.0] * len(texts)
    held = {word: sum(word in each for each in terms) for word in words}
    question = Question.of(words, held=held, memories=len(texts))
    return [question.score(" ".join(each)) for each in terms]


@pytest.mark.parametrize(("query", "wanted"), OBVIOUS)
def test_an_obvious_match_reaches_the_fixed_threshold_alone(query: str, wanted: int) -> None:
    scores = ask(query)
    assert [number for number, score in enumerate(scores) if score >= 0.7] == [wanted]


@pytest.mark.parametrize("query", UNRELATED)
def test_what_is_unrelated_stays_below_it(query: str) -> None:
    assert [score for score in ask(query) if score >= 0.7] == []


@pytest.mark.parametrize(
    ("query", "text", "score"),
    [
        ("alpha", "alpha beta gamma", 0.97),
        ("alpha beta", "alpha beta gamma", 0.97),
        ("alpha beta omega", "alpha beta gamma", 0.75),
        ("alpha omega", "alpha beta gamma", 0.6),
        ("alpha", "alpha " + "filler " * 300, 0.75),
        ("alphabet", "alphabetical order", 0.97),
        ("pref", "prefer", 0.49),
        ("plane", "planet", 0.6),
        ("dark mod", "dark mode", 0.8),
        ("car", "care", 0.55),
        ("car", "carpet", 0.38),
        ("car", "caravans", 0.0),
        ("omega", "alpha beta gamma", 0.0),
    ],
)
def test_a_score_is_what_the_table_says(query: str, text: str, score: float) -> None:
    found, _ = ask(query, [text, "omega"])
    assert found == pytest.approx(score, abs=0.02)


def test_a_rare_word_weighs_more_than_one_that_all_hold() -> None:
    texts = [f"the user said {word}" for word in ("yes", "no", "maybe", "zebra")]
    scores = ask("user zebra stripes", texts)
    assert max(scores) == scores[3] > 2 * scores[0] / 1.5
    assert scores[0] == scores[1] == scores[2]


def test_a_memory_that_is_about_it_comes_before_one_that_mentions_it() -> None:
    short, long = ask("tea", ["tea", "tea " + "and many other things to drink " * 5])
    assert short > long > 0.7


def test_a_word_that_is_there_counts_more_than_one_that_begins_so() -> None:
    there, begins = ask("config", ["config file", "configurator file"])
    assert there > begins > 0


def test_a_beginning_is_never_obvious_by_itself() -> None:
    # The nearest that there is: all but one letter of the longest word, and nothing else.
    question = Question.of(["a" * 63], held={}, memories=10**6)
    assert 0.69 < question.score("a" * 64) < 0.7


def test_numbers_are_not_the_beginning_of_others() -> None:
    assert ask("300", ["3000 dollars"]) == [0.0]


def test_the_best_come_first_and_of_equals_the_newest() -> None:
    scores = {1: 0.9, 2: 0.5, 3: 0.9, 4: 0.0, 5: 0.7}
    assert best(scores.items(), threshold=0.0, most=9) == [(3, 0.9), (1, 0.9), (5, 0.7), (2, 0.5)]
    assert best(scores.items(), threshold=0.7, most=2) == [(3, 0.9), (1, 0.9)]
    assert best(scores.items(), threshold=0.95, most=2) == []


def test_a_page_is_no_question() -> None:
    words = [f"w{number}" for number in range(1000)]
    assert len(Question.of(words, held={}, memories=1).weights) == MOST_WORDS


WORDS = st.lists(st.sampled_from(["tea", "teapot", "cup", "cups", "the", "milk", "7"]), max_size=8)


@given(WORDS, st.lists(WORDS, min_size=1, max_size=6))
def test_scores_lie_between_nothing_and_everything(
    query: list[str], texts: list[list[str]]
) -> None:
    for score in ask(" ".join(query), [" ".join(text) for text in texts]):
        assert 0 <= score < 1


@given(
    st.lists(st.sampled_from(["tea", "cup", "milk", "rum"]), min_size=1, unique=True),
    st.dictionaries(st.sampled_from(["tea", "cup", "milk"]), st.integers(0, 30)),
    WORDS.filter(bool),
    st.floats(0, 1),
)
def test_who_reaches_a_threshold_holds_a_needed_word(
    words: list[str], held: dict[str, int], text: list[str], threshold: float
) -> None:
    question = Question.of(words, held=held, memories=30)
    needed = question.needed(threshold)
    score = question.score(" ".join(text))
    if score > 0 and score >= threshold:
        assert any(each.startswith(word.rstrip("*")) for word in needed for each in text)


def test_to_ask_for_much_is_to_look_at_few() -> None:
    question = Question.of(["user", "zebra"], held={"user": 990, "zebra": 3}, memories=1000)
    assert question.needed(0.7) == ["zebra*"]
    assert question.needed(0.0) == ["zebra*", "user*"]


def test_more_is_never_less() -> None:
    shares = [bent(share / 10) for share in range(12)]
    assert shares == sorted(shares)
    assert (shares[0], shares[10], shares[11]) == (0, 1, 1)
