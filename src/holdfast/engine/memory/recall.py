"""Finds the memories that answer a question, and those that belong to a context.

The catalog says which memories hold a word of the question, `Question` how well each fits; where
an embedding function is configured, a memory counts as much as the better of its words and its
meaning. Memories that cannot reach the threshold are not looked at, and leaving them out changes
nothing: `tests/property/test_memory.py` compares with looking at each of them.

Says how well a memory answers a question: 0 is not at all, 1 is wholly.

It is BM25, divided by the most that any text could reach for the question, and bent so that a
fixed threshold of 0.7 separates what is obvious from what is not:

    weight(w)  = ln((N + 20) / (n(w) + 1))       N memories, n of which hold the word w
    held(w)    = t / (t + k)                     t times in this memory; less if it is long
    k          = 0.15 · (½ + ½ · min(length / 20, 8))
    x          = Σ weight(w) · held(w) / Σ weight(w)      over the words of the question
    score      = 1 - (1 - x)^1.5

So a short memory that holds every word of a question scores 0.97, one that holds two of three
equally rare ones 0.75, one of two 0.6; one that holds everything but is very long, 0.75. Words
that hardly any memory holds weigh more: to mention the user is nothing where every memory does.
The 20 stand for memories yet to come. Without them the only memory there is would make each of
its own words worthless.

A word that only begins like the one in question counts in proportion, and so much less that it
is never obvious by itself: `plane` is most of `planet`, and something else.

Pure: no rows, no clock. `tests/unit/test_ranking.py` has a table of examples.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.embedding import Embedder, compare
from holdfast.engine.memory.plane import looking
from holdfast.engine.memory.words import words_asked
from holdfast.engine.planes.handle import Handle
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId
from holdfast.instants import to_us
from holdfast.model.memories import (
    Memory,
    MemoryFilter,
    MemoryMatch,
    MemoryPlace,
    MemoryRow,
    Relevant,
    Time,
)
from holdfast.model.sessions import SessionRow

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


class Query(msgspec.Struct, frozen=True):
    """What memories are to answer: its words and, where there is an embedder, its meaning."""

    words: Sequence[str]
    embedder: Embedder | None
    vector: bytes | None

    @classmethod
    def of(cls, handle: Handle, text: str) -> "Query":
        """Returns the query of a text; before a transaction, as it may take its time, and fail."""
        text = text[:MAX_QUERY_CHARS]
        embedder = handle.context.embedder if text.strip() else None
        vector = None if embedder is None else embedder.embed(text)
        return cls(words_asked(text)[:MOST_WORDS], embedder, vector)

    @classmethod
    def of_context(cls, handle: Handle, text: str | None) -> "Query | None":
        """Returns what a context is to answer; None if nothing is asked."""
        is_asked = text is not None and bool(words_asked(text[:MAX_QUERY_CHARS]))
        return cls.of(handle, text) if text is not None and is_asked else None


def search(
    handle: Handle, query: str, chosen: MemoryFilter, *, threshold: float, most: int
) -> list[MemoryMatch]:
    """Returns the memories that answer best, best first."""
    wanted = Query.of(handle, query)
    with looking(handle) as (transaction, head):
        if head is None:
            return []
        namespace_id = head.namespace_id
        return _search(transaction, namespace_id, wanted, chosen, threshold=threshold, most=most)


def _search(
    transaction: Transaction,
    namespace_id: NamespaceId,
    query: Query,
    chosen: MemoryFilter,
    *,
    threshold: float,
    most: int,
) -> list[MemoryMatch]:
    if most == 0:
        return []
    words, embedder, vector = query.words, query.embedder, query.vector
    scores = _by_words(transaction, namespace_id, words, chosen, threshold=threshold, most=most)
    if embedder is not None and vector is not None:
        for place, score in _by_meaning(transaction, namespace_id, embedder, vector, chosen):
            scores[place] = max(score, scores.get(place, 0.0))
    found = best(scores.items(), threshold=threshold, most=most)
    rows = transaction.get_memories(namespace_id, [number for (_, _, number), _ in found])
    memories = {place_of(row): to_memory(row) for row in rows}
    if any(place not in memories for place, _ in found):
        raise Damaged("the index of words names a memory that is not there")
    return [MemoryMatch(memories[place], score) for place, score in found]


def relevant(
    transaction: Transaction,
    namespace_id: NamespaceId,
    chosen: MemoryFilter,
    *,
    query: Query | None,
    most: int,
    drift_floor: float = DRIFT_FLOOR,
) -> Relevant:
    """Returns what belongs to a context: the best for a question, the newest without one.

    As many as there are, up to `most`: how well each fits is in its score.
    """
    if query is None:
        rows = transaction.list_memories(namespace_id, chosen, before=None, most=most)
        newest = [MemoryMatch(to_memory(row), 0.0) for row in rows]
        return Relevant(tuple(newest), average_relevance=0.0, drift_warning=False)
    fitting = _search(transaction, namespace_id, query, chosen, threshold=0.0, most=most)
    searchable = replace(chosen, is_searchable=True)
    found = _filled(transaction, namespace_id, fitting, searchable, most=most)
    # What fills up says nothing of the question: one memory that answers it is no drift.
    drifts = bool(found) and _mean(fitting) < drift_floor
    return Relevant(tuple(found), average_relevance=_mean(found), drift_warning=drifts)


def _filled(
    transaction: Transaction,
    namespace_id: NamespaceId,
    fitting: Sequence[MemoryMatch],
    chosen: MemoryFilter,
    *,
    most: int,
) -> list[MemoryMatch]:
    """Returns as many as were asked for: behind those that fit, the newest of the others."""
    found = {each.memory.id: each for each in fitting}
    if len(found) < most:
        for row in transaction.list_memories(namespace_id, chosen, before=None, most=most):
            found.setdefault(row.id, MemoryMatch(to_memory(row), 0.0))
    return list(found.values())[:most]


def _mean(found: Sequence[MemoryMatch]) -> float:
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


def seen_by(
    session: SessionRow, others: tuple[Time, ...], *, scope: str = "visible"
) -> MemoryFilter:
    """Returns what a session sees: its own, its user's, and what belongs to nobody.

    What was remembered while others had its id is not its own.
    """
    return MemoryFilter(
        scope=scope,
        session_id=session.id,
        since=session.created_at,
        others=others,
        owner_id=session.user_id,
    )


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


MOST_WORDS: Final = 64
"""Words of a question that count: the first ones. A whole page would be no question."""

_YET_TO_COME: Final = 20
_SATURATION: Final = 0.15
"""Small, where web search takes 1.2: in one or two sentences a word is there or is not, and how
often says little."""

_USUAL_WORDS: Final = 20
_LONGEST_TIMES: Final = 8
_BEND: Final = 1.5

_LEAST_PREFIX: Final = 3
_LEAST_SHARE: Final = 0.5
"""A word that is more than twice as long is another word."""

_BEGINNING: Final = 0.6
"""What a beginning counts: with nothing else, a score below 0.7 whatever is missing."""


P = TypeVar("P", int, MemoryPlace)
"""Where a memory stands: what is newer sorts behind what is older."""


class Question(msgspec.Struct, frozen=True):
    """The words that are asked for, and what each weighs; the heaviest first."""

    weights: tuple[tuple[str, float], ...]
    total: float

    @classmethod
    def of(cls, words: Sequence[str], *, held: Mapping[str, int], memories: int) -> "Question":
        """Returns the question of these words, where so many memories hold each."""
        weights = [
            (word, log((memories + _YET_TO_COME) / (held.get(word, 0) + 1)))
            for word in words[:MOST_WORDS]
        ]
        weights.sort(key=lambda pair: -pair[1])
        return cls(tuple(weights), sum(weight for _, weight in weights))

    def needed(self, threshold: float) -> list[str]:
        """Returns words of which a memory holds at least one if it reaches the threshold.

        All but the lightest: those who hold nothing else stay below it, and they are the many
        that need not be looked at. One that may be the beginning of another ends with `*`.
        """
        allowed = (1 - (1 - threshold) ** (1 / _BEND)) * self.total
        needed, left_out = list(self.weights), 0.0
        while needed and left_out + needed[-1][1] < allowed:
            left_out += needed.pop()[1]
        return [f"{word}*" if _may_begin(word) else word for word, _ in needed]

    def score(self, terms: str) -> float:
        """Returns how well the memory with these words answers."""
        there = terms.split(" ")
        times = min(len(there) / _USUAL_WORDS, _LONGEST_TIMES)
        k = _SATURATION * (0.5 + 0.5 * times)
        reached = 0.0
        for word, weight in self.weights:
            count = there.count(word)
            if count:
                reached += weight * count / (count + k)
            elif _may_begin(word) and word in terms:
                reached += weight * _share(word, there) / (1 + k)
        return bent(reached / self.total)


def bent(share: float) -> float:
    """Returns the score of what has this share of all that could be wanted."""
    return 1 - (1 - min(share, 1.0)) ** _BEND


def best(
    scores: Iterable[tuple[P, float]], *, threshold: float, most: int
) -> list[tuple[P, float]]:
    """Returns the best, best first, of the same score the newest; those above 0 alone."""
    enough = (pair for pair in scores if pair[1] >= threshold and pair[1] > 0)
    return sorted(enough, key=lambda pair: (pair[1], pair[0]), reverse=True)[:most]


def _may_begin(word: str) -> bool:
    """Says whether a word may stand for longer ones: 30 is not the beginning of 300."""
    return len(word) >= _LEAST_PREFIX and word.isascii() and word.isalpha()


def _share(word: str, there: Sequence[str]) -> float:
    """Returns how much of a longer word this one is; of the nearest, 0 if none is near."""
    shares = [len(word) / len(each) for each in there if each.startswith(word)]
    nearest = max(shares, default=0.0)
    return nearest * _BEGINNING if nearest >= _LEAST_SHARE else 0.0
