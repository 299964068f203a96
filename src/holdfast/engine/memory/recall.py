"""Finds the memories that answer a question, and those that belong to a context.

The catalog says which memories hold a word of the question, `ranking` how well each fits; where
an embedding function is configured, a memory counts as much as the better of its words and its
meaning. Memories that cannot reach the threshold are not looked at, and leaving them out changes
nothing: `tests/property/test_memory.py` compares with looking at each of them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.embedding import Embedder, compare
from holdfast.engine.memory.plane import looking
from holdfast.engine.memory.ranking import MOST_WORDS, Question, best
from holdfast.engine.memory.words import words_asked
from holdfast.engine.planes.handle import Handle
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId
from holdfast.instants import to_us
from holdfast.model.memories import (
    FoundMemory,
    Memory,
    MemoryFilter,
    MemoryPlace,
    MemoryRow,
    Relevant,
)

DRIFT_FLOOR: Final = 0.3
"""Below this average, what is remembered has little to say to the question."""

MAX_QUERY_CHARS: Final = 10_000
"""As long as a memory can be: what stands behind is not looked at."""

_FIRST_LOOK: Final = 0.5
"""Asked for anything at all, we look for what is good first: mostly there is enough of it, and
among 10,000 memories that is 2 ms instead of 50."""

FEW: Final = 100
"""Memories of a namespace that are read one and all, which takes half a millisecond: no row has a
checksum in the index of words, and one that is missing there would be missed by nobody."""

_PAGE: Final = 500
"""Vectors held at a time: 3 MB of the usual length."""


def search(
    handle: Handle, query: str, chosen: MemoryFilter, *, threshold: float, most: int
) -> list[FoundMemory]:
    """Returns the memories that answer best, best first."""
    query = query[:MAX_QUERY_CHARS]
    context = handle.context
    words = words_asked(query)[:MOST_WORDS]
    # Before the transaction: it may take its time, and may fail.
    embedder = context.embedder if query.strip() else None
    vector = None if embedder is None else embedder.embed(query)
    with looking(handle) as (transaction, head):
        if head is None or most == 0:
            return []
        namespace_id = head.namespace_id
        scores = _by_words(transaction, namespace_id, words, chosen, threshold=threshold, most=most)
        if embedder is not None and vector is not None:
            for place, score in _by_meaning(transaction, namespace_id, embedder, vector, chosen):
                scores[place] = max(score, scores.get(place, 0.0))
        found = best(scores.items(), threshold=threshold, most=most)
        rows = transaction.get_memories(namespace_id, [number for (_, _, number), _ in found])
    memories = {place_of(row): to_memory(row) for row in rows}
    if any(place not in memories for place, _ in found):
        raise Damaged("the index of words names a memory that is not there")
    return [FoundMemory(memories[place], score) for place, score in found]


def relevant(
    handle: Handle,
    chosen: MemoryFilter,
    *,
    query: str | None,
    most: int,
    drift_floor: float = DRIFT_FLOOR,
) -> Relevant:
    """Returns what belongs to a context: the best for a question, the newest without one.

    As many as there are, up to `most`: how well each fits is in its score.
    """
    is_asked = query is not None and bool(words_asked(query[:MAX_QUERY_CHARS]))
    if query is None or not is_asked:
        newest = newest_of(handle, chosen, most=most)
        found = [FoundMemory(memory, 0.0) for memory in newest]
        return Relevant(tuple(found), average_relevance=0.0, drift_warning=False)
    fitting = search(handle, query, chosen, threshold=0.0, most=most)
    found = _filled(handle, fitting, replace(chosen, is_searchable=True), most=most)
    # What fills up says nothing of the question: one memory that answers it is no drift.
    drifts = bool(found) and _mean(fitting) < drift_floor
    return Relevant(tuple(found), average_relevance=_mean(found), drift_warning=drifts)


def _filled(
    handle: Handle, fitting: Sequence[FoundMemory], chosen: MemoryFilter, *, most: int
) -> list[FoundMemory]:
    """Returns as many as were asked for: behind those that fit, the newest of the others."""
    found = {each.memory.id: each for each in fitting}
    if len(found) < most:
        for memory in newest_of(handle, chosen, most=most):
            found.setdefault(memory.id, FoundMemory(memory, 0.0))
    return list(found.values())[:most]


def _mean(found: Sequence[FoundMemory]) -> float:
    return sum(each.score for each in found) / len(found) if found else 0.0


def newest_of(
    handle: Handle, chosen: MemoryFilter, *, most: int, before: MemoryRow | None = None
) -> list[Memory]:
    """Returns the newest memories, or those that come behind one."""
    with looking(handle) as (transaction, head):
        if head is None:
            return []
        rows = transaction.list_memories(head.namespace_id, chosen, before=before, most=most)
    return [to_memory(row) for row in rows]


def seen_by(session_id: str, user_id: str | None, *, scope: str = "visible") -> MemoryFilter:
    """Returns what a session sees: its own, its user's, and what belongs to nobody."""
    return MemoryFilter(scope=scope, session_id=session_id, owner_id=user_id)


def place_of(row: MemoryRow) -> MemoryPlace:
    """Returns where a memory stands among others."""
    return to_us(row.created_at), row.id, row.number


def to_memory(row: MemoryRow) -> Memory:
    """Returns a memory as users see it."""
    return Memory(
        id=row.id,
        content=row.content,
        type=row.type,
        tags=tuple(msgspec.json.decode(row.tags)),
        metadata=msgspec.json.decode(row.metadata),
        session_id=row.session_id,
        user_id=row.user_id,
        agent_id=row.agent_id,
        is_searchable=row.is_searchable,
        has_embedding=row.embedding is not None,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _by_words(
    transaction: Transaction,
    namespace_id: NamespaceId,
    words: Sequence[str],
    chosen: MemoryFilter,
    *,
    threshold: float,
    most: int,
) -> dict[MemoryPlace, float]:
    """Returns scores; the best `most` of those that reach the threshold are there."""
    if not words:
        return {}
    compare = transaction.comparing(namespace_id, "memories")
    held = transaction.count_holders(namespace_id, words)
    if compare() <= FEW:
        return _by_reading(transaction, namespace_id, words, chosen)
    memories = transaction.count_searchable(namespace_id)
    question = Question.of(words, held=held, memories=memories)
    scores = dict[MemoryPlace, float]()
    for floor in (max(threshold, _FIRST_LOOK), threshold):
        matching = transaction.match_memories(namespace_id, question.needed(floor), chosen)
        scores = {place: question.score(terms) for place, terms in matching}
        if sum(score >= floor for score in scores.values()) >= most:
            break
    return scores


def _by_reading(
    transaction: Transaction, namespace_id: NamespaceId, words: Sequence[str], chosen: MemoryFilter
) -> dict[MemoryPlace, float]:
    """Returns scores, past the index of words: of all of a few memories."""

    def read(of: MemoryFilter) -> list[MemoryRow]:
        wanted = replace(of, is_searchable=False)
        rows = transaction.list_memories(namespace_id, wanted, before=None, most=FEW)
        # Not asked of the database: there it might be damaged, and nobody would see the row.
        return [row for row in rows if row.is_searchable]

    every = read(MemoryFilter())
    held = Counter(word for row in every for word in {*row.terms.split(" ")})
    question = Question.of(words, held=held, memories=len(every))
    some = every if chosen == MemoryFilter() else read(chosen)
    scored = ((row, question.score(row.terms)) for row in some)
    return {place_of(row): score for row, score in scored if score > 0}


def _by_meaning(
    transaction: Transaction,
    namespace_id: NamespaceId,
    embedder: Embedder,
    vector: bytes,
    chosen: MemoryFilter,
) -> Iterator[tuple[MemoryPlace, float]]:
    """Yields the score of every memory that the same model has looked at."""
    after = 0
    while page := transaction.page_embeddings(namespace_id, chosen, after=after, most=_PAGE):
        for place, embedding in page:
            cosine = compare(vector, embedding)
            if cosine is not None:
                yield place, embedder.score(cosine)
        after = page[-1][0][-1]
