"""What a store of LangGraph is told at its making, and what its embedding makes, looked at.

A setting of a wrong type is refused when the store is made, not when the first item is put.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    IndexConfig,
    PutOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
)

from holdfast.errors import InvalidValue
from holdfast.integrations.langgraph.searching import Vector

WHOLE: Final = "$"
"""The field that is all of an item."""

MOST_MINUTES: Final = 1000 * 366 * 24 * 60
"""A thousand years: what ends later is no instant that a clock can tell."""


class Index:
    """How items are found by their meaning: what makes vectors, and of which fields."""

    def __init__(self, said: IndexConfig | None) -> None:
        given = _mapping("index", said)
        self.embeddings: Embeddings | None = None if said is None else _embeddings(given)
        fields = given.get("fields")
        self._fields = _paths([WHOLE] if fields is None else fields) or _paths([WHOLE])
        self._dims = given.get("dims")
        if self._dims is not None and (type(self._dims) is not int or self._dims < 1):
            raise InvalidValue("dims is a whole number of 1 or more")

    def texts(self, op: PutOp) -> Iterator[tuple[str, str]]:
        """Yields the texts of an item that is put, by what they are called."""
        if op.value is None or op.index is False:
            return
        for field, path in self._fields if op.index is None else _paths(op.index):
            for number, text in enumerate(get_text_at_path(op.value, path)):
                yield f"{field}.{number}", text

    def vectors(self, made: Any, *, texts: int) -> list[Vector]:
        """Returns what an embedding made of texts; raises `InvalidValue` for anything else."""
        try:
            vectors = [[float(number) for number in vector] for vector in made]
        except (TypeError, ValueError) as exc:
            raise InvalidValue("an embedding makes a list of numbers of each text") from exc
        if len(vectors) != texts:
            message = f"an embedding makes a vector of each text, not {len(vectors)} of {texts}"
            raise InvalidValue(message)
        for vector in vectors:
            if self._dims is not None and len(vector) != self._dims:
                message = f"a vector has {self._dims} dimensions here, not {len(vector)}"
                raise InvalidValue(message)
        return [*vectors]


def _embeddings(given: Mapping[str, Any]) -> Embeddings:
    embed: Any = given.get("embed")
    if not isinstance(embed, Embeddings | str) and not callable(embed):
        raise InvalidValue("embed is a function, an Embeddings of LangChain, or the name of one")
    try:
        return ensure_embeddings(cast("Any", embed))
    except ValueError as exc:  # A name that nothing here can be loaded by.
        raise InvalidValue(str(exc)) from exc


def _paths(fields: Any) -> list[tuple[str, str | list[str]]]:
    """Returns fields, each with the way to it in an item."""
    # A text is a list of letters, which nobody means.
    if not isinstance(fields, Sequence) or isinstance(fields, str | bytes):
        raise InvalidValue("the fields of an index are a list of texts")
    names = cast("Sequence[Any]", fields)
    if not all(isinstance(field, str) for field in names):
        raise InvalidValue("a field of an index is text")
    return [(field, field if field == WHOLE else tokenize_path(field)) for field in names]


def checked_lives(said: TTLConfig | None) -> TTLConfig | None:
    """Returns how long items live; raises `InvalidValue` for what says nothing of it."""
    check_minutes("default_ttl", _mapping("ttl", said).get("default_ttl"))
    return said


def check_minutes(name: str, minutes: Any) -> None:
    """Raises `InvalidValue` for what is no time to live; None is for ever."""
    if minutes is None:
        return
    is_number = isinstance(minutes, int | float) and not isinstance(minutes, bool)
    if not is_number or not 0 <= minutes <= MOST_MINUTES:
        message = f"{name} is a number of minutes from 0 to {MOST_MINUTES:,}"
        raise InvalidValue(message)


def _mapping(name: str, said: Any) -> Mapping[str, Any]:
    if said is not None and not isinstance(said, Mapping):
        message = f"{name} is a dict, not {type(said).__name__}"
        raise InvalidValue(message)
    return cast("Mapping[str, Any]", said or {})
