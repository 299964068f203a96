"""What an agent remembers, on both catalogs: who sees what, and what a search returns."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import holdfast
from holdfast.engine.memories import Memories
from holdfast.engine.memory.plane import looking
from holdfast.engine.memory.recall import Query, relevant
from holdfast.errors import (
    InvalidValue,
    MemoryNotFound,
    QuotaExceeded,
    SessionNotFound,
    TooLarge,
    Unencodable,
)
from holdfast.model.memories import MemoryFilter, MemoryMatch, Relevant
from holdfast.testing.clocks import Watch

START = datetime(2025, 3, 1, 12, 30, tzinfo=UTC)


Open = Callable[..., holdfast.Holdfast]


@pytest.fixture
def clock() -> Watch:
    return Watch(START, step=timedelta(microseconds=1))


@pytest.fixture
def vault(opener: Open) -> holdfast.Holdfast:
    return opener()


@pytest.fixture
def ns(vault: holdfast.Holdfast) -> holdfast.Namespace:
    return vault.namespace("alice")


@pytest.fixture
def memory(ns: holdfast.Namespace) -> Memories:
    return ns.memory


def contents(found: Sequence[MemoryMatch]) -> list[str]:
    return [each.memory.content for each in found]


def actions(ns: holdfast.Namespace) -> list[str]:
    return [trace.action for trace in ns.traces.list()]


# Adding, changing, taking back


def test_what_is_remembered_is_found_at_once(memory: Memories) -> None:
    added = memory.add("The user's favourite colour is blue", tags=["taste", "taste"], type="fact")
    assert added.id.startswith("mem_")
    assert len(added.id) == len("mem_") + 12
    assert (added.type, added.tags, added.metadata, added.version) == ("fact", ("taste",), {}, 1)
    assert (added.session_id, added.user_id, added.agent_id) == (None, None, None)
    assert START < added.created_at == added.updated_at
    assert memory.get(added.id) == added
    (found,) = memory.search("favorite color")
    assert found.memory == added
    assert 0.7 < found.score < 1


def test_a_search_in_a_namespace_that_is_not_there_finds_nothing(memory: Memories) -> None:
    assert memory.search("anything") == memory.list() == []
    for call in (memory.get, memory.delete, memory.update):
        with pytest.raises(MemoryNotFound):
            call("mem_nothing")


def test_metadata_comes_back_exactly(memory: Memories) -> None:
    given = {"big": 2**80, "float": 0.1, "nested": {"list": [None, True, "ü"]}, "": ""}
    assert memory.get(memory.add("x", metadata=given).id).metadata == given
    assert memory.list()[0].metadata == given


def test_an_update_replaces_tags_and_merges_metadata(memory: Memories, clock: Watch) -> None:
    added = memory.add("It rains", tags=["old"], metadata={"a": 1, "b": 2})
    clock.now += timedelta(seconds=5)
    changed = memory.update(added.id, tags=["new"], metadata={"b": 3, "c": None})
    assert changed.tags == ("new",)
    assert changed.metadata == {"a": 1, "b": 3, "c": None}
    assert (changed.content, changed.version) == ("It rains", 2)
    assert changed.created_at == added.created_at < clock.now - timedelta(seconds=5)
    assert added.created_at + timedelta(seconds=5) < changed.updated_at
    assert memory.get(added.id) == changed
    assert contents(memory.search("rain")) == ["It rains"]


def test_an_update_is_found_by_what_it_says_now(memory: Memories) -> None:
    added = memory.add("Lunch is at noon", type="event", tags=["kitchen"])
    assert contents(memory.search("kitchen events")) == ["Lunch is at noon"]
    memory.update(added.id, content="Dinner is at eight", type="plan", tags=[])
    assert memory.search("lunch", threshold=0) == memory.search("kitchen", threshold=0) == []
    assert contents(memory.search("dinner plan")) == ["Dinner is at eight"]


def test_what_is_deleted_can_be_recovered_for_a_while(
    vault: holdfast.Holdfast, memory: Memories, clock: Watch
) -> None:
    added = memory.add("It rains")
    memory.delete(added.id)
    assert memory.search("rain") == memory.list() == []
    with pytest.raises(MemoryNotFound):
        memory.delete(added.id)
    vault.forget()
    assert memory.recover(added.id) == added
    assert contents(memory.search("rain")) == ["It rains"]
    memory.delete(added.id)
    clock.now += timedelta(days=8)
    vault.forget()
    with pytest.raises(MemoryNotFound):
        memory.recover(added.id)


def test_a_namespace_neither_sees_nor_touches_what_another_remembers(
    vault: holdfast.Holdfast, memory: Memories
) -> None:
    added = memory.add("It rains")
    others = [vault.namespace("bob").memory, vault.tenant("eve").namespace("alice").memory]
    for other in others:
        other.add("The sun shines")
        assert other.search("rain", threshold=0) == []
        for call in (other.get, other.delete, other.update, other.recover):
            with pytest.raises(MemoryNotFound):
                call(added.id)
        with pytest.raises(InvalidValue, match="starting_after"):
            other.list(starting_after=added.id)


def test_what_others_remember_does_not_change_a_score(
    vault: holdfast.Holdfast, memory: Memories
) -> None:
    memory.add("blue sky")
    before = memory.search("blue sea", threshold=0)
    for _ in range(5):
        vault.namespace("bob").memory.add("blue sea")
    assert memory.search("blue sea", threshold=0) == before


def test_every_change_leaves_a_trace(ns: holdfast.Namespace) -> None:
    session = ns.sessions.create("bot", user_id="ann")
    acting = ns.acting_as("key_1")
    added = acting.memory.add("x" * 300, session_id=session.id, tags=["t"])
    ns.memory.update(added.id, content="y")
    ns.memory.delete(added.id)
    ns.memory.recover(added.id)
    found = [trace for trace in ns.traces.list() if trace.resource_type == "memory"]
    assert [trace.action for trace in found] == [
        "memory.recovered",
        "memory.deleted",
        "memory.updated",
        "memory.created",
    ]
    made = found[-1]
    assert made.details == {
        "type": "general",
        "tags": ["t"],
        "embedded": True,
    }
    assert (made.actor, made.session_id, made.user_id) == ("key_1", session.id, "ann")
    assert made.resource_id == added.id


def test_what_is_refused_leaves_nothing(ns: holdfast.Namespace) -> None:
    memory = ns.memory
    refused: list[tuple[type[Exception], dict[str, Any]]] = [
        (TooLarge, {"content": "x" * 10_001}),
        (InvalidValue, {"content": ""}),
        (InvalidValue, {"content": " \n"}),
        (InvalidValue, {"content": "a\0b"}),
        (InvalidValue, {"content": "half \ud800"}),
        (InvalidValue, {"content": "x", "type": ""}),
        (InvalidValue, {"content": "x", "type": "t" * 257}),
        (InvalidValue, {"content": "x", "tags": "one"}),
        (InvalidValue, {"content": "x", "tags": [""]}),
        (InvalidValue, {"content": "x", "tags": [f"{n}" for n in range(65)]}),
        (InvalidValue, {"content": "x", "user_id": "\0"}),
        (Unencodable, {"content": "x", "metadata": {"a": float("nan")}}),
        (Unencodable, {"content": "x", "metadata": {1: 2}}),
        (TooLarge, {"content": "x", "metadata": {"a": "x" * (64 << 10)}}),
        (SessionNotFound, {"content": "x", "session_id": "sess_none"}),
    ]
    for error, arguments in refused:
        with pytest.raises(error):
            memory.add(**arguments)
    assert memory.list() == []
    assert actions(ns) == []
    added = memory.add("x" * 10_000)
    for error, arguments in refused[:-1]:
        given = {name: value for name, value in arguments.items() if name != "user_id"}
        if given == {"content": "x"}:
            continue
        with pytest.raises(error):
            memory.update(added.id, **given)
    assert memory.get(added.id) == added


def test_memories_count_against_the_quota_of_their_tenant(
    vault: holdfast.Holdfast, memory: Memories
) -> None:
    vault.set_quota(3_000)
    added = memory.add("word " * 200)
    with pytest.raises(QuotaExceeded):
        memory.add("word " * 200)
    with pytest.raises(QuotaExceeded):
        memory.update(added.id, content="word " * 400)
    memory.update(added.id, content="short")
    memory.add("word " * 100)


def test_many_writers_lose_nothing(memory: Memories) -> None:
    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(lambda n: memory.add(f"number{n} blue"), range(24)))
        list(pool.map(lambda m: memory.update(m.id, tags=["seen"]), added[:8] * 2))
        list(pool.map(lambda m: memory.delete(m.id), added[16:]))
    left = memory.search("blue", limit=99)
    assert {each.memory.id for each in left} == {each.id for each in added[:16]}
    assert [memory.get(each.id).version for each in added[:16]] == [3] * 8 + [1] * 8
    assert contents(memory.search("number3"))[0] == "number3 blue"


# Lists


def test_a_list_is_newest_first_and_goes_on_below_a_cursor(memory: Memories) -> None:
    ids = [memory.add(f"number {n}").id for n in range(5)][::-1]
    assert [each.id for each in memory.list(limit=2)] == ids[:2]
    assert [each.id for each in memory.list(limit=2, starting_after=ids[1])] == ids[2:4]
    assert memory.list(starting_after=ids[-1]) == memory.list(limit=0) == []
    with pytest.raises(InvalidValue, match="starting_after"):
        memory.list(starting_after="mem_unknown")
    with pytest.raises(InvalidValue):
        memory.list(limit=-1)


def test_memories_of_one_instant_are_listed_by_their_ids(memory: Memories, clock: Watch) -> None:
    added = list[str]()
    for _ in range(5):
        clock.now = START
        added.append(memory.add("the sky is blue").id)
    ids = sorted(added, reverse=True)
    assert [each.id for each in memory.list(limit=3)] == ids[:3]
    assert [each.id for each in memory.list(starting_after=ids[2])] == ids[3:]
    assert [each.memory.id for each in memory.search("sky", limit=4)] == ids[:4]


# Whose memories


@pytest.fixture
def people(ns: holdfast.Namespace, clock: Watch) -> dict[str, str]:
    """Sessions of two users and of nobody, and a memory of each kind."""
    sessions = {
        name: ns.sessions.create(f"bot-{name}", user_id=user).id
        for name, user in (("ann1", "ann"), ("ann2", "ann"), ("eve", "eve"), ("anon", None))
    }
    for name, session_id in sessions.items():
        ns.memory.add(f"blue {name}", session_id=session_id)
        clock.wait(timedelta(seconds=1))  # A fork has them in the order of their instants.
    ns.memory.add("blue everybody")
    clock.wait(timedelta(seconds=1))
    ns.memory.add("blue of-ann", user_id="ann")
    return sessions


SEEN = [
    ("ann1", None, {"ann1", "ann2", "everybody", "of-ann"}),
    ("ann2", None, {"ann1", "ann2", "everybody", "of-ann"}),
    ("eve", None, {"eve", "everybody"}),
    ("anon", None, {"anon", "everybody"}),
    ("ann1", "session", {"ann1"}),
    ("ann1", "user", {"ann1", "ann2", "of-ann"}),
    ("anon", "user", set()),
    ("eve", "global", {"everybody"}),
]


@pytest.mark.parametrize(("session", "scope", "seen"), SEEN)
def test_a_session_sees_its_own_its_users_and_nobodys(
    memory: Memories, people: dict[str, str], session: str, scope: str | None, seen: set[str]
) -> None:
    where: dict[str, Any] = {"session_id": people[session], "scope": scope}
    wanted = {f"blue {name}" for name in seen}
    assert set(contents(memory.search("blue", **where))) == wanted
    assert {each.content for each in memory.list(**where)} == wanted


def test_without_a_session_all_are_seen(memory: Memories, people: dict[str, str]) -> None:
    assert len(memory.search("blue")) == len(memory.list()) == len(people) + 2
    assert len(memory.search("blue", user_id="ann")) == 3
    assert len(memory.list(user_id="ann", scope="user")) == 3
    assert len(memory.list(scope="global")) == 1
    assert memory.search("blue", user_id="ann", session_id=people["eve"]) == []


def test_a_memory_of_a_session_belongs_to_its_user_and_agent(
    memory: Memories, people: dict[str, str]
) -> None:
    (own,) = memory.list(session_id=people["ann1"], scope="session")
    assert (own.user_id, own.agent_id) == ("ann", "bot-ann1")
    assert [each.id for each in memory.list(agent_id="bot-ann1")] == [own.id]
    with pytest.raises(InvalidValue, match="another user"):
        memory.add("x", session_id=people["ann1"], user_id="eve")


@pytest.mark.parametrize("scope", ["session", "user", "planet", ""])
def test_a_scope_that_cannot_be_meant_is_refused(memory: Memories, scope: str) -> None:
    with pytest.raises(InvalidValue):
        memory.search("blue", scope=scope)


def test_an_unknown_session_is_not_found(memory: Memories) -> None:
    memory.add("blue")
    for call in (memory.list, lambda **where: memory.search("blue", **where)):
        with pytest.raises(SessionNotFound):
            call(session_id="sess_unknown")


def test_a_fork_knows_its_sessions_and_what_they_remember(
    ns: holdfast.Namespace, people: dict[str, str]
) -> None:
    fork = ns.fork("copy")
    of_ann = contents(ns.memory.search("blue", session_id=people["ann1"]))
    assert contents(fork.memory.search("blue", session_id=people["ann1"])) == of_ann
    fork.memory.add("blue copy", session_id=people["ann1"])
    assert "blue copy" in contents(fork.memory.search("blue", session_id=people["ann2"]))
    assert "blue copy" not in contents(ns.memory.search("blue", session_id=people["ann2"]))


# Searching


def test_types_and_tags_ask_for_any_of_them(memory: Memories) -> None:
    memory.add("blue one", type="fact", tags=["x"])
    memory.add("blue two", type="event", tags=["y", "z"])
    memory.add("blue three")
    both = ["blue one", "blue two"]
    assert sorted(contents(memory.search("blue", types=["fact", "event"]))) == both
    assert sorted(contents(memory.search("blue", tags=["z", "x"]))) == both
    assert contents(memory.search("blue", tags=["z"], types=["fact"])) == []
    assert contents(memory.search("blue", types=[])) == []
    with pytest.raises(InvalidValue):
        memory.search("blue", tags="x")


def test_what_is_not_to_be_embedded_is_not_found_and_is_listed(memory: Memories) -> None:
    added = memory.add("blue", embed=False)
    assert not added.is_searchable
    assert memory.search("blue", threshold=0) == []
    assert memory.list() == [added]
    memory.update(added.id, content="blue blue")
    assert memory.search("blue", threshold=0) == []


HOSTILE = [
    *("", " ", '"', "'", '""', "*", "(", ")", ":", "^", "-", "+", "\\", "%", "_", "\0", "\ud800"),
    *('blue"', "blue*", "blue:", "-blue", "^blue", "(blue", "blue AND", "OR blue", "NOT blue"),
    *("NEAR(blue sky, 2)", "terms:blue", "words : blue", "blue & !sky | x", "'blue':*", "<->"),
    *("blue; DROP TABLE memories", "memory_index", "n1xblue", ":words", "%(words)s", "😀", "﷽"),
    *("a" * 100_000, "blue " * 10_000, " ".join(f"w{n}" for n in range(5_000)), "̈" * 500),
    *("\u202eblue", "\uff22\uff2c\uff35\uff25", "blue\u200bsky", "🇩🇪 blue", "ﬃ", "İ", "ß" * 200),
]


@pytest.mark.parametrize("query", HOSTILE, ids=lambda query: repr(query[:12]))
def test_no_query_is_an_error(memory: Memories, query: str) -> None:
    memory.add("blue sky")
    for threshold in (0.0, 0.7):
        assert len(memory.search(query, threshold=threshold)) <= 1


@pytest.mark.parametrize("text", [text for text in HOSTILE if 0 < len(text.strip()) < 10_000])
def test_what_can_be_remembered_can_be_found_by_its_own_text(memory: Memories, text: str) -> None:
    try:
        added = memory.add(text)
    except InvalidValue:
        return
    memory.add("something else")
    found = memory.search(text, threshold=0)
    assert {each.memory.id for each in found} <= {added.id}
    memory.update(added.id, content=text + " again")
    memory.delete(added.id)
    assert memory.search(text, threshold=0) == []


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_threshold_is_a_score(memory: Memories, threshold: float) -> None:
    with pytest.raises(InvalidValue):
        memory.search("blue", threshold=threshold)


def test_the_best_come_first_and_no_more_than_asked_for(memory: Memories) -> None:
    for text in ("blue", "blue sky", "blue sky over Berlin", "a grey sky", "nothing"):
        memory.add(text)
    found = memory.search("blue sky Berlin", threshold=0)
    assert contents(found)[0] == "blue sky over Berlin"
    scores = [each.score for each in found]
    assert scores == sorted(scores, reverse=True)
    assert memory.search("blue sky Berlin", threshold=0, limit=2) == found[:2]
    assert memory.search("blue sky Berlin", threshold=0, limit=0) == []
    assert memory.search("blue sky Berlin", threshold=scores[1]) == found[:2]


# By meaning


def by_topic(texts: Sequence[str]) -> list[list[float]]:
    """Knows cats from money, and that a feline is a cat."""
    topics = (("cat", "feline", "kitten"), ("money", "invoice", "bill"))
    return [
        [1e-3, *(float(sum(word in text.lower() for word in topic)) for topic in topics)]
        for text in texts
    ]


def test_with_an_embedding_function_meaning_counts_as_much_as_words(opener: Open) -> None:
    memory = opener(embed=by_topic).namespace("alice").memory
    assert memory.add("My feline sleeps all day").has_embedding
    memory.add("The invoice is due")
    hidden = memory.add("Another kitten", embed=False)
    assert not hidden.has_embedding
    (found,) = memory.search("cat")
    assert found.memory.content == "My feline sleeps all day"
    assert found.score == pytest.approx(1, abs=1e-3)
    assert contents(memory.search("due")) == ["The invoice is due"]


def test_a_changed_memory_means_what_it_says_now(opener: Open) -> None:
    memory = opener(embed=by_topic).namespace("alice").memory
    added = memory.add("My feline sleeps")
    memory.update(added.id, tags=["pet"])
    assert contents(memory.search("kitten")) == ["My feline sleeps"]
    memory.update(added.id, content="The bill is paid")
    assert memory.search("kitten") == []
    assert contents(memory.search("money")) == ["The bill is paid"]


def test_an_old_meaning_does_not_outlive_the_text_without_a_function(opener: Open) -> None:
    added = opener(embed=by_topic).namespace("alice").memory.add("My feline sleeps")
    assert not opener().namespace("alice").memory.update(added.id, content="A bill").has_embedding
    assert opener(embed=by_topic).namespace("alice").memory.search("cat") == []


def test_vectors_of_another_model_are_left_out(opener: Open) -> None:
    opener(embed=lambda texts: [[1.0, 2.0]] * len(texts)).namespace("a").memory.add("blue cat")
    memory = opener(embed=by_topic).namespace("a").memory
    assert memory.search("feline") == []
    assert contents(memory.search("blue")) == ["blue cat"]


def test_a_function_that_fails_writes_nothing(opener: Open) -> None:
    def fail(_: Sequence[str]) -> list[list[float]]:
        raise ConnectionError("no model today")

    memory = opener(embed=fail).namespace("alice").memory
    with pytest.raises(ConnectionError):
        memory.add("blue")
    assert memory.list() == []


def test_many_vectors_are_looked_at_page_by_page(
    opener: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.engine.memory.recall._PAGE", 2)
    memory = opener(embed=by_topic).namespace("alice").memory
    for number in range(5):
        memory.add(f"cat {number}")
    assert len(memory.search("feline")) == 5


# For a context


def in_context(
    ns: holdfast.Namespace, chosen: MemoryFilter, *, query: str | None, **more: Any
) -> Relevant:
    wanted = Query.of_context(ns._handle, query)
    with looking(ns._handle) as (transaction, head):
        assert head is not None
        return relevant(transaction, head.namespace_id, chosen, query=wanted, **more)


def test_a_context_gets_the_best_whatever_their_score(ns: holdfast.Namespace) -> None:
    session = ns.sessions.create("bot", user_id="ann")
    for text in ("blue sky", "blue sea", "green grass"):
        ns.memory.add(text, session_id=session.id)
    chosen = MemoryFilter(scope="visible", session_id=session.id, owner_id="ann")
    found = in_context(ns, chosen, query="blue whale sky", most=5)
    assert contents(found.memories) == ["blue sky", "blue sea", "green grass"]
    mean = sum(each.score for each in found.memories) / 3
    assert found.average_relevance == pytest.approx(mean)
    assert not found.drift_warning
    assert in_context(ns, chosen, query="blue whale sky", most=5, drift_floor=0.9).drift_warning
    assert contents(in_context(ns, chosen, query="blue", most=1).memories) == ["blue sea"]


def test_without_a_question_a_context_gets_the_newest(ns: holdfast.Namespace, clock: Watch) -> None:
    for text in ("one", "two", "three"):
        clock.wait(timedelta(seconds=1))
        ns.memory.add(text)
    for query in (None, "", "?!"):
        found = in_context(ns, MemoryFilter(), query=query, most=2)
        assert contents(found.memories) == ["three", "two"]
        assert [each.score for each in found.memories] == [0.0, 0.0]
        assert (found.average_relevance, found.drift_warning) == (0.0, False)


def test_a_question_that_nothing_answers_is_a_drift_if_anything_is_remembered(
    ns: holdfast.Namespace,
) -> None:
    ns.files.write("a", "b")
    nothing = in_context(ns, MemoryFilter(), query="blue", most=5)
    assert (nothing.memories, nothing.drift_warning) == ((), False)
    ns.memory.add("green grass")
    assert in_context(ns, MemoryFilter(), query="blue", most=5).drift_warning
    assert not in_context(ns, MemoryFilter(), query="blue", most=0).drift_warning


def test_a_list_goes_on_behind_what_was_forgotten_since(
    vault: holdfast.Holdfast, ns: holdfast.Namespace
) -> None:
    before = ns.snapshot("before")
    made = [ns.memory.add(f"memory {number}").id for number in range(4)]
    ns.memory.delete(made[2])
    assert [each.id for each in ns.memory.list(starting_after=made[2])] == [made[1], made[0]]
    ns.restore(before.id)
    assert ns.memory.list(starting_after=made[1]) == []
    for where, never in ((ns, "mem_none"), (vault.namespace("other"), made[2])):
        with pytest.raises(InvalidValue):
            where.memory.list(starting_after=never)
