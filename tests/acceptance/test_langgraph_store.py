"""LangGraph's long-term memory in a namespace: items, filters, meaning, time, and snapshots."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

import holdfast
from holdfast.errors import Damaged, InvalidValue
from holdfast.integrations.langgraph import HoldfastStore
from holdfast.integrations.langgraph import store as store_module
from holdfast.testing.servers import Begin, Server, running_server

pytestmark = pytest.mark.in_memory

_NUMBERS = count(1)
COLOURS = ("red", "green", "blue")


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    with running_server(home, begin=at_once) as started:
        yield started


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres), "http"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "http":
        server: Server = request.getfixturevalue("server")
        name = f"agent-{next(_NUMBERS)}"
        with holdfast.Client(server.api_key, url=server.url, namespace=name) as client:
            yield client
        return
    where = (
        tmp_path / "vault" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    )
    with holdfast.open(where, objects=tmp_path / "packs") as vault:
        yield vault.namespace("alice")


@pytest.fixture
def near(tmp_path: Path) -> Iterator[holdfast.Namespace]:
    with holdfast.open(tmp_path / "vault") as vault:
        yield vault.namespace("alice")


def embed(texts: list[str]) -> list[list[float]]:
    """Says how often each of three colours is named."""
    return [[float(text.count(colour)) for colour in COLOURS] for text in texts]


def test_items_are_put_found_and_taken_back(agent: Any) -> None:
    store = HoldfastStore(agent)
    store.put(("users", "ann"), "likes", {"food": "rice", "n": 1})
    before = agent.snapshot()
    first = store.get(("users", "ann"), "likes")
    assert first is not None
    store.put(("users", "ann"), "likes", {"food": "soup", "n": 2})
    store.put(("users", "anna"), "likes", {"food": "figs"})
    second = store.get(("users", "ann"), "likes")
    assert second is not None
    assert second.value == {"food": "soup", "n": 2}
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at
    assert second.namespace == ("users", "ann")
    assert [each.value["food"] for each in store.search(("users", "ann"))] == ["soup"]
    assert [each.value["food"] for each in store.search(("users",))] == ["figs", "soup"]
    assert store.search(("user",)) == []
    store.delete(("users", "anna"), "likes")
    assert store.get(("users", "anna"), "likes") is None
    agent.restore(before)
    again = store.get(("users", "ann"), "likes")
    assert again is not None
    assert again.value == {"food": "rice", "n": 1}


def test_filters_limits_and_namespaces(near: Any) -> None:
    store = HoldfastStore(near)
    for number in range(6):
        told = {"n": number, "kind": {"even": not number % 2}, "tags": ["a", number]}
        told["day"] = f"2020-0{number}"
        store.put(("a", str(number % 2), "c"), f"k{number}", told)

    def found(**wanted: Any) -> list[int]:
        return sorted(each.value["n"] for each in store.search(("a",), filter=wanted))

    assert found(n={"$gte": 2, "$lt": 4}) == [2, 3]
    assert found(kind={"even": True}) == [0, 2, 4]
    assert found(n={"$ne": 0}, tags=["a", 3]) == [3]
    # What an item lacks is None, as LangGraph's own store has it.
    peer = InMemoryStore()
    for number in range(6):
        rare = {"rare": number} if number == 3 else {}
        for each in (store, peer):
            each.put(("b",), f"k{number}", {"n": number, "in": rare, **rare})
    filters: list[dict[str, Any]] = [
        {"rare": None},
        {"rare": {"$ne": 3}},
        {"rare": {"$ne": 5}},
        {"rare": {"$eq": None}},
        {"in": {"rare": None}},
        {"in": {"rare": {"$ne": 3}}},
        {"missing": None},
    ]
    for each in filters:
        answers = [
            sorted(item.value["n"] for item in one.search(("b",), filter=each))
            for one in (store, peer)
        ]
        assert answers[0] == answers[1]
    assert len(store.search(("b",), filter={"missing": None})) == 6
    assert found(day={"$gt": "2020-01", "$lte": "2020-03"}) == [2, 3]
    assert found(day={"$gt": 1}) == found(n={"$gt": "0"}) == found(tags={"$gt": []}) == []
    with pytest.raises(InvalidValue):
        found(n={"$near": 1})
    for number in range(6):
        store.delete(("b",), f"k{number}")
    newest = store.search(("a",), limit=2, offset=1)
    assert [each.value["n"] for each in newest] == [4, 3]
    assert store.list_namespaces() == [("a", "0", "c"), ("a", "1", "c")]
    assert store.list_namespaces(max_depth=1) == [("a",)]
    assert store.list_namespaces(suffix=("1", "*")) == [("a", "1", "c")]
    assert store.list_namespaces(prefix=("b",)) == []


def test_items_are_found_by_their_meaning(agent: Any) -> None:
    store = HoldfastStore(agent, index={"dims": 3, "embed": embed, "fields": ["text", "more[*]"]})
    store.put(("docs",), "r", {"text": "red red", "more": ["blue"]})
    store.put(("docs",), "g", {"text": "green"})
    store.put(("docs",), "unseen", {"text": "red"}, index=False)
    found = store.search(("docs",), query="red")
    assert [(each.key, each.score) for each in found] == [("r", 1.0), ("g", 0.0), ("unseen", None)]
    assert store.search(("docs",), query="blue", limit=1)[0].key == "r"
    store.put(("docs",), "r", {"text": "green"})
    assert store.search(("docs",), query="blue", limit=1)[0].score == 0.0
    store.delete(("docs",), "r")
    assert agent.store.keys("langgraph-store.vectors/docs") == ["g"]
    with pytest.raises(InvalidValue):
        HoldfastStore(agent, index={"dims": 4, "embed": embed}).put(("docs",), "r", {"text": "a"})


def test_an_item_that_is_put_without_an_index_has_no_vector_of_another(agent: Any) -> None:
    store = HoldfastStore(agent, index={"dims": 3, "embed": embed})
    store.put(("docs",), "k", {"text": "red"})
    HoldfastStore(agent).put(("docs",), "k", {"text": "blue"})
    assert [(each.value, each.score) for each in store.search(("docs",), query="red")] == [
        ({"text": "blue"}, None)
    ]
    with pytest.raises(InvalidValue, match="vectors"):
        HoldfastStore(agent, name="langgraph-store.vectors")


def test_what_has_expired_is_found_in_one_request(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holdfast.Client(server.api_key, url=server.url, namespace="sweeping") as client:
        store, asked = HoldfastStore(client), list[str]()
        for number in range(20):
            store.put(("n",), f"ever {number}", {"a": 1})
            store.put(("n",), f"short {number}", {"a": 1}, ttl=0 if number % 10 else None)
        send = client.sender.send
        monkeypatch.setattr(
            client.sender, "send", lambda call: asked.append(call.path) or send(call)
        )
        run = client.sender.run
        monkeypatch.setattr(client.sender, "run", lambda steps: asked.append("") or run(steps))
        assert store.sweep_ttl() == 18
        # Names, items, their tags, and a delete for each.
        assert len(asked) <= 3 + 18 + 2
        assert len(store.search(("n",), limit=50)) == 22


def test_items_expire(near: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = HoldfastStore(near, ttl={"default_ttl": 10, "refresh_on_read": True})

    class Later(datetime):
        minutes = 0

        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(minutes=cls.minutes)

    monkeypatch.setattr(store_module, "datetime", Later)
    store.put(("n",), "short", {"a": 1})
    store.put(("n",), "read", {"a": 2})
    store.put(("n",), "ever", {"a": 3}, ttl=None)
    Later.minutes = 8
    assert store.get(("n",), "read") is not None
    Later.minutes = 12
    assert store.get(("n",), "short") is None
    assert {each.key for each in store.search(("n",), refresh_ttl=False)} == {"read", "ever"}
    assert store.sweep_ttl() == 1
    assert near.store.keys("langgraph-store/n") == ["ever", "read"]


BAD_SETTINGS: list[Any] = [
    {"ttl": 5},
    *({"ttl": {"default_ttl": bad}} for bad in ("10", True, -1, float("nan"), 1e300)),
    {"index": "embed"},
    {"index": {"dims": 3}},
    {"index": {"embed": 5}},
    {"index": {"embed": "nobody:knows"}},
    *({"index": {"embed": embed, "dims": bad}} for bad in ("3", 0, 1.5)),
    *({"index": {"embed": embed, "fields": bad}} for bad in ("text", 5, [5])),
    {"name": 5},
]


def test_settings_of_a_wrong_type_are_refused_before_anything_is_put(near: Any) -> None:
    for settings in BAD_SETTINGS:
        with pytest.raises(InvalidValue):
            HoldfastStore(near, **settings)
    store: Any = HoldfastStore(near)
    for ttl in ("10", -1, float("inf")):
        with pytest.raises(InvalidValue):
            store.put(("n",), "a", {}, ttl=ttl)
    with pytest.raises(InvalidValue):
        store.put(("n",), "a", "no item")
    for bad in (lambda _: None, lambda _: ["red"], lambda _: [[1.0]] * 5, lambda _: [1.0]):
        with pytest.raises(InvalidValue):
            HoldfastStore(near, index={"embed": bad}).put(("n",), "a", {"text": "red"})
    with pytest.raises(InvalidValue):
        HoldfastStore(near, index={"embed": embed}).put(("n",), "a", {}, index="text")
    assert near.store.namespaces() == []


def test_a_batch_reads_what_was_there_before_it(near: Any) -> None:
    store = HoldfastStore(near)
    ops = [PutOp(("n",), "k", {"a": 1}), GetOp(("n",), "k"), PutOp(("n",), "k", {"a": 2})]
    assert store.batch(ops) == [None, None, None]
    [item] = store.batch([GetOp(("n",), "k")])
    assert getattr(item, "value", None) == {"a": 2}


def test_no_namespace_reaches_into_another(near: Any) -> None:
    store = HoldfastStore(near)
    for op in (PutOp(("a.b",), "k", {}), GetOp(("",), "k"), SearchOp(("\0",))):
        with pytest.raises(InvalidNamespaceError):
            store.batch([op])
    near.store.set("langgraph-store/n", "k", "put by somebody else")
    with pytest.raises(Damaged):
        store.get(("n",), "k")


def test_it_is_awaited_over_any_door(near: Any, server: Server) -> None:
    async def run(agent: Any) -> None:
        store = HoldfastStore(agent, index={"dims": 3, "embed": embed})
        await store.aput(("n",), "k", {"text": "red"})
        found = await store.asearch(("n",), query="red")
        assert [(each.key, each.score) for each in found] == [("k", 1.0)]
        item = await store.aget(("n",), "k")
        assert item is not None
        assert item.updated_at.tzinfo == UTC
        assert await store.asweep_ttl() == 0

    async def both() -> None:
        await run(near)
        async with holdfast.AsyncClient(server.api_key, url=server.url, namespace="aw") as client:
            await run(client)
            with pytest.raises(InvalidValue):
                HoldfastStore(client).get(("n",), "k")

    asyncio.run(both())
