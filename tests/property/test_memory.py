"""Whatever is done to memories, a search finds exactly what looking at each of them finds."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.engine.memories import Memories
from holdfast.engine.memory.recall import Question
from holdfast.engine.memory.words import words_asked, words_of
from holdfast.errors import MemoryNotFound
from holdfast.model.memories import Memory

NAMES = count()

WORDS = st.sampled_from(
    ["tea", "teapot", "Cups", "cup", "the", "milk", "東京", "京", "café", "of", "7", "*", '"', "OR"]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
TAGS = st.lists(st.sampled_from(["tea", "red hot", "7"]), max_size=2)
PLACES = st.integers(0, 7)

ADDS = st.tuples(st.just("add"), TEXTS, TAGS, st.sampled_from(["fact", "tea", "general"]))
UPDATES = st.tuples(st.just("update"), PLACES, st.none() | TEXTS, st.none() | TAGS)
OTHERS = st.tuples(st.sampled_from(["delete", "recover"]), PLACES)
STEPS = st.lists(ADDS | ADDS | UPDATES | OTHERS, max_size=12)
QUERIES = st.lists(WORDS, max_size=5).map(" ".join)


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def vault(request: pytest.FixtureRequest, home: Path) -> Iterator[holdfast.Holdfast]:
    folder = home / request.param
    where: object = folder / "vault"
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        where = server.dsn(server.create_database())
    with holdfast.open(where, objects=folder / "packs") as opened:
        yield opened


def play(memory: Memories, steps: Sequence[tuple[Any, ...]]) -> None:
    ids: list[str] = []
    for kind, *rest in steps:
        if kind == "add":
            content, tags, of_type = rest
            ids.append(memory.add(content, tags=tags, type=of_type).id)
        elif ids:
            memory_id = ids[rest[0] % len(ids)]
            calls: dict[str, Callable[[], object]] = {
                "update": lambda i=memory_id, g=rest: memory.update(i, content=g[1], tags=g[2]),
                "delete": lambda i=memory_id: memory.delete(i),
                "recover": lambda i=memory_id: memory.recover(i),
            }
            try:
                calls[kind]()
            except MemoryNotFound:
                continue


def look_at_each(
    memories: Sequence[Memory], query: str, *, threshold: float, limit: int
) -> list[tuple[str, float]]:
    """Returns ids and scores without any index."""
    terms = [
        [word for text in (each.content, each.type, *each.tags) for word in words_of(text)]
        for each in memories
    ]
    words = words_asked(query)
    if not words:
        return []
    held = {word: sum(word in there for there in terms) for word in words}
    question = Question.of(words, held=held, memories=len(memories))
    scores = [question.score(" ".join(there)) for there in terms]
    # Newest first, as they were listed: sorting keeps that order among equals.
    ranked = sorted(zip(memories, scores, strict=True), key=lambda pair: -pair[1])
    enough = [(each.id, score) for each, score in ranked if score > 0 and score >= threshold]
    return enough[:limit]


@settings(max_examples=40)
@given(steps=STEPS, queries=st.lists(QUERIES, min_size=1, max_size=3), limit=st.integers(1, 6))
def test_a_search_finds_what_looking_at_each_memory_finds(
    vault: holdfast.Holdfast, steps: list[tuple[Any, ...]], queries: list[str], limit: int
) -> None:
    memory = vault.namespace(f"of-{next(NAMES)}").memory
    play(memory, steps)
    memories = memory.list(limit=1000)
    for query in queries:
        for threshold in (0.0, 0.3, 0.7):
            found = memory.search(query, threshold=threshold, limit=limit)
            naive = look_at_each(memories, query, threshold=threshold, limit=limit)
            assert [(each.memory.id, each.score) for each in found] == naive
