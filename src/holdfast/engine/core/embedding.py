"""Compares texts by their meaning, where a function is given that knows it.

The function turns texts into vectors; which model does it, and where, is the caller's choice. A
vector is kept with length 1, as little-endian float32: then the cosine of two is their product,
and nothing but the standard library is needed for it.

Cosines of unlike models lie in unlike places. An `Embedder` says where: below `unrelated` two
texts have nothing in common, from `related` on they obviously have, which is a score of 0.7.
"""

import math
import sys
from array import array
from collections.abc import Callable, Sequence
from operator import mul
from typing import Final

import msgspec

from holdfast.errors import InvalidValue
from holdfast.model.memories import OBVIOUS

EmbedFunction = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Returns one vector for each text, all of one length."""

MAX_VECTOR_BYTES: Final = 256 << 10
"""Of a stored vector: forty times what the usual models return."""

_OFF: Final = 1e-3


class Embedder(msgspec.Struct, frozen=True):
    """A function that knows what texts mean, and how its cosines are to be read."""

    function: EmbedFunction
    unrelated: float = 0.0
    related: float = OBVIOUS

    def __post_init__(self) -> None:
        if not -1 <= self.unrelated < self.related < 1:
            raise InvalidValue("unrelated is below related, and both are cosines below 1")

    def embed(self, text: str) -> bytes:
        """Returns a text's vector as it is stored."""
        vectors = self.function([text])
        if len(vectors) != 1:
            message = f"the embedding function returned {len(vectors)} vectors for one text"
            raise InvalidValue(message)
        return _to_bytes(vectors[0])

    def score(self, cosine: float) -> float:
        """Returns the score of two texts with this cosine."""
        if cosine < self.related:
            share = (cosine - self.unrelated) / (self.related - self.unrelated)
            return max(share, 0.0) * OBVIOUS
        share = (min(cosine, 1.0) - self.related) / (1 - self.related)
        return OBVIOUS + share * (1 - OBVIOUS)


def check_vector(data: bytes) -> None:
    """Raises `InvalidValue` if this is no vector as they are stored: of length 1."""
    if not 0 < len(data) <= MAX_VECTOR_BYTES or len(data) % 4:
        raise InvalidValue("an embedding has another size than a vector")
    # As float32 each number is a little off.
    if not abs(math.hypot(*_from_bytes(data)) - 1) < _OFF:
        raise InvalidValue("an embedding is no vector of length 1")


def compare(one: bytes, other: bytes) -> float | None:
    """Returns the cosine of two stored vectors; None if no one model can have made both."""
    if len(one) != len(other):
        return None
    return _product(_from_bytes(one), _from_bytes(other))


def _sum_of_products(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(map(mul, one, other))


_product: Final[Callable[[Sequence[float], Sequence[float]], float]] = getattr(
    math, "sumprod", _sum_of_products
)
"""Since Python 3.12 there is one in C, which is several times as fast."""


def _to_bytes(vector: Sequence[float]) -> bytes:
    try:
        numbers = [float(number) for number in vector]
    except (TypeError, ValueError, OverflowError) as exc:
        message = f"the embedding function returned what is no vector: {exc}"
        raise InvalidValue(message) from exc
    length = math.hypot(*numbers)
    if not (math.isfinite(length) and length > 0):
        raise InvalidValue("the embedding function returned a vector without a direction")
    if 4 * len(numbers) > MAX_VECTOR_BYTES:
        raise InvalidValue(f"an embedding has {MAX_VECTOR_BYTES // 4} numbers at the most")
    return _swapped(array("f", [number / length for number in numbers])).tobytes()


def _from_bytes(data: bytes) -> "array[float]":
    vector = array("f")
    vector.frombytes(data)
    return _swapped(vector)


def _swapped(vector: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        vector.byteswap()
    return vector
