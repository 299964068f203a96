"""Vectors are kept with length 1, compared by direction, and read by the model's own scale."""

import math
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.core.embedding import Embedder, compare
from holdfast.errors import InvalidValue

NUMBERS = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=8).filter(
    lambda numbers: math.hypot(*numbers) > 1e-3
)


def returning(*vectors: object) -> Embedder:
    return Embedder(lambda _: vectors)  # type: ignore[arg-type, return-value] - some are wrong


def test_a_vector_is_kept_with_length_one_as_little_endian_float32() -> None:
    assert returning([3, 4]).embed("text") == struct.pack("<2f", 0.6, 0.8)


@given(NUMBERS)
def test_a_text_is_like_itself_and_unlike_its_opposite(numbers: list[float]) -> None:
    one = returning(numbers).embed("text")
    opposite = returning([-number for number in numbers]).embed("text")
    assert compare(one, one) == pytest.approx(1, abs=1e-5)
    assert compare(one, opposite) == pytest.approx(-1, abs=1e-5)


@given(NUMBERS, st.data())
def test_the_cosine_is_that_of_the_vectors_that_were_given(
    one: list[float], data: st.DataObject
) -> None:
    other = data.draw(st.permutations(one))
    product = sum(a * b for a, b in zip(one, other, strict=True))
    cosine = product / math.hypot(*one) / math.hypot(*other)
    found = compare(returning(one).embed(""), returning(other).embed(""))
    assert found == pytest.approx(cosine, abs=1e-5)


def test_vectors_of_two_models_are_not_compared() -> None:
    assert compare(returning([1, 2]).embed(""), returning([1, 2, 3]).embed("")) is None


@pytest.mark.parametrize(
    "vectors",
    [
        [],
        [[1.0], [2.0]],
        [[]],
        [[0.0, 0.0]],
        [[math.nan, 1.0]],
        [[math.inf]],
        [["one"]],
        [None],
        [[None]],
    ],
)
def test_what_is_no_vector_is_refused(vectors: Sequence[object]) -> None:
    with pytest.raises(InvalidValue):
        returning(*vectors).embed("text")


@pytest.mark.parametrize("cosine", [-1.0, -0.1, 0.0, 0.3, 0.7, 0.9, 1.0])
def test_a_cosine_is_a_score_unless_the_model_says_otherwise(cosine: float) -> None:
    assert returning().score(cosine) == pytest.approx(max(cosine, 0))


def test_a_model_says_where_its_cosines_lie() -> None:
    embedder = Embedder(lambda _: [], unrelated=0.2, related=0.45)
    scores = [embedder.score(cosine) for cosine in (0.1, 0.2, 0.325, 0.45, 0.725, 1.0, 1.0001)]
    assert scores == pytest.approx([0, 0, 0.35, 0.7, 0.85, 1, 1])


@pytest.mark.parametrize(("unrelated", "related"), [(0.5, 0.5), (0.6, 0.5), (0, 1), (-2, 0.5)])
def test_a_scale_that_is_none_is_refused(unrelated: float, related: float) -> None:
    with pytest.raises(InvalidValue):
        Embedder(lambda _: [], unrelated=unrelated, related=related)
