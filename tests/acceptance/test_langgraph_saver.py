"""LangGraph's checkpoints in a namespace: what its makers ask of a saver, and what they do not.

The suite of the makers calls what is awaited alone, and has nothing about delta channels, about
two who write at once, or about names that mean harm.
"""

import asyncio
import copy
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
import zstandard
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT
from langgraph.graph import END, START, StateGraph
from msgspec.structs import replace
from pydantic import BaseModel

import holdfast
from holdfast.errors import Damaged, InvalidValue, SnapshotNotFound
from holdfast.integrations import portions as portioning
from holdfast.integrations.langgraph import CheckpointWithoutSnapshot, HoldfastSaver
from holdfast.integrations.langgraph import writing as saver_writing
from holdfast.integrations.langgraph.caching import Parts
from holdfast.integrations.langgraph.messages import CLASSES, reader_of
from holdfast.integrations.langgraph.records import Large, decode_checkpoint, value_key
from holdfast.testing.servers import Begin, Server, running_server

pytestmark = pytest.mark.in_memory

_NUMBERS = count(1)
TESTS_OF_THE_SUITE = 81
LARGE = "".join(Random(7).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=50_000))
"""Takes more than 12 KiB, compressed as well."""


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    with running_server(home, begin=at_once) as started:
        yield started


def opened(request: pytest.FixtureRequest, kind: str, folder: Path) -> Iterator[Any]:
    """Yields an agent behind one of the doors."""
    name = f"agent-{next(_NUMBERS)}"
    if kind in ("sqlite", "postgres"):
        url = request.getfixturevalue("postgres_url") if kind == "postgres" else None
        with holdfast.open(url or folder / "vault", objects=folder / "packs") as vault:
            yield vault.namespace(name)
        return
    server: Server = request.getfixturevalue("server")
    of = holdfast.Client if kind == "http" else holdfast.AsyncClient
    client: Any = of(server.api_key, url=server.url, namespace=name)
    yield client
    if kind == "http":
        client.close()


POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)


@pytest.fixture(params=["sqlite", POSTGRES, "http", "awaited"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    yield from opened(request, request.param, tmp_path)


@pytest.fixture(params=["sqlite", POSTGRES, "http"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    yield from opened(request, request.param, tmp_path)


@pytest.fixture
def near(tmp_path: Path) -> Iterator[holdfast.Namespace]:
    with holdfast.open(tmp_path / "vault") as vault:
        yield vault.namespace("alice")


def config_of(thread: object, checkpoint_id: str | None = None, ns: str = "") -> Any:
    named: dict[str, Any] = {"thread_id": thread, "checkpoint_ns": ns}
    return {"configurable": named | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


def put(
    saver: HoldfastSaver,
    thread: object,
    values: dict[str, Any],
    *,
    parent: Any = None,
    versions: dict[str, Any] | None = None,
    new: dict[str, Any] | None = None,
    **metadata: Any,
) -> Any:
    checkpoint: Any = empty_checkpoint()
    checkpoint["channel_values"] = values
    checkpoint["channel_versions"] = versions or dict.fromkeys(values, "1")
    config = parent or config_of(thread)
    told: Any = {"source": "loop", "step": 0, **metadata}
    changed = checkpoint["channel_versions"] if new is None else new
    return saver.put(config, checkpoint, told, changed)


def values_of(saver: HoldfastSaver, config: Any) -> Any:
    saver._parts = Parts()  # What is stored counts, not what is in memory.
    found = saver.get_tuple(config)
    return None if found is None else found.checkpoint["channel_values"]


def keys_of(agent: Any, thread: str) -> list[str]:
    return agent.store.keys(f"langgraph/{thread}")


# What its makers ask.


def test_the_suite_of_its_makers_passes(anywhere: Any) -> None:
    @checkpointer_test(name=f"holdfast {next(_NUMBERS)}")
    async def factory() -> AsyncIterator[HoldfastSaver]:
        yield HoldfastSaver(anywhere, snapshots=isinstance(anywhere, holdfast.Client))

    async def run() -> Any:
        report = await validate(factory)
        if isinstance(anywhere, holdfast.AsyncClient):
            await anywhere.close()
        return report

    results = asyncio.run(run()).results.values()
    assert [line for each in results for line in each.failures] == []
    assert sum(each.tests_passed for each in results) == TESTS_OF_THE_SUITE


# The same without awaiting.


def test_what_is_put_is_there_with_its_writes(agent: Any) -> None:
    saver = HoldfastSaver(agent)
    values = {"a": [1, {2}, b"\0"], "short": "s", "none": None, "large": [LARGE]}
    values["pressed"] = ["x" * 50_000]
    first = put(saver, 7, values, run_id="r1")
    saver.put_writes(first, [("a", 1), ("b", LARGE)], "task", "path")
    found = saver.get_tuple(config_of(7))
    assert found is not None
    assert found.checkpoint["channel_values"] == values
    assert found.metadata["run_id"] == "r1"
    assert found.pending_writes == [("task", "a", 1), ("task", "b", LARGE)]
    assert found.parent_config is None
    second = put(saver, 7, {"a": 2}, parent=first)
    assert [each.config["configurable"]["checkpoint_id"] for each in saver.list(None)] == [
        each["configurable"]["checkpoint_id"] for each in (second, first)
    ]
    saver.copy_thread("7", "8")
    assert values_of(saver, config_of(8, first["configurable"]["checkpoint_id"])) == values
    saver.delete_for_runs(["r1"])
    assert values_of(saver, first) is None
    assert values_of(saver, config_of(7)) == {"a": 2}
    assert not [key for key in keys_of(agent, "7") if key.startswith("v ")]
    saver.delete_thread("7")
    assert keys_of(agent, "7") == []
    assert values_of(saver, config_of(8)) == {"a": 2}


def test_writes_are_put_once_and_special_ones_replaced(agent: Any) -> None:
    saver = HoldfastSaver(agent)
    at = put(saver, "t", {})
    saver.put_writes(at, [("a", "first")], "task")
    saver.put_writes(at, [("a", "second"), ("b", "added")], "task")
    saver.put_writes(at, [(INTERRUPT, 1)], "task")
    saver.put_writes(at, [(INTERRUPT, 2), ("a", "third"), (ERROR, "e")], "task")
    found = saver.get_tuple(at)
    assert found is not None
    assert found.pending_writes == [
        ("task", INTERRUPT, 2),
        ("task", ERROR, "e"),
        ("task", "a", "first"),
        ("task", "b", "added"),
    ]


def test_many_checkpoints_are_listed_newest_first_and_few_are_read(near: Any) -> None:
    saver = HoldfastSaver(near)
    at = None
    for step in range(60):
        at = put(saver, "t", {"step": [step]}, parent=at, step=step)
        saver.put_writes(at, [("a", step)], "task")
        put(saver, "t", {"inner": step}, parent=config_of("t", ns="inner"), step=step)
    listed = list(saver.list(config_of("t")))
    assert [each.metadata["step"] for each in listed] == [*range(59, -1, -1)]
    assert [each.pending_writes[0][2] for each in listed] == [*range(59, -1, -1)]
    before = listed[20].config
    found = [*saver.list(config_of("t"), before=before, limit=7, filter={"source": "loop"})]
    assert [each.metadata["step"] for each in found] == [*range(38, 31, -1)]
    every = [*saver.list({"configurable": {"thread_id": "t"}})]
    ids = [each.config["configurable"]["checkpoint_id"] for each in every]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == 120
    assert [*saver.list(config_of("t"), limit=0)] == []


class Own(BaseModel):
    """What a graph of somebody has in a message."""

    number: int


MESSAGES: list[Any] = [
    HumanMessage("hello", id="1", name="somebody"),
    HumanMessage([{"type": "text", "text": "hello"}]),
    SystemMessage("be kind", additional_kwargs={"at": datetime(2026, 1, 1, tzinfo=UTC)}),
    AIMessage("", tool_calls=[{"name": "look", "args": {"n": {1, 2}}, "id": "c"}]),
    AIMessage("x", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
    ToolMessage("found", tool_call_id="c", artifact=HumanMessage("inside")),
    AIMessageChunk(content="a part"),
    Own(number=1),
    ToolMessage.model_construct(content="of no call", status="success"),
]


def test_messages_are_read_as_the_serializer_reads_them(near: Any) -> None:
    serde = JsonPlusSerializer(allowed_msgpack_modules=[Own])
    assert type(reader_of(serde)) is not JsonPlusSerializer
    for value in (*MESSAGES, MESSAGES, {"a": [*MESSAGES]}):
        typed = serde.dumps_typed(value)
        wanted, found = serde.loads_typed(typed), reader_of(serde).loads_typed(typed)
        assert found == wanted
        assert type(found) is type(wanted)
    saver = HoldfastSaver(near, serde=serde)
    at = put(saver, "t", {"messages": MESSAGES * 20})
    assert values_of(saver, at) == {"messages": serde.loads_typed(serde.dumps_typed(MESSAGES)) * 20}


def test_rules_of_a_serializer_hold_for_all_but_messages() -> None:
    """Which it allows whatever its rules are."""
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)
    for known in CLASSES.values():
        message = known(content="x", tool_call_id="c")
        assert type(strict.loads_typed(strict.dumps_typed(message))) is known
    typed = strict.dumps_typed([Own(number=1), HumanMessage("x")])
    assert reader_of(strict).loads_typed(typed) == [{"number": 1}, HumanMessage("x")]

    class Other(JsonPlusSerializer):
        pass

    hooked = JsonPlusSerializer(__unpack_ext_hook__=lambda code, data: (code, len(data)))
    for serde in (Other(), hooked):
        assert reader_of(serde) is serde


# Values that are large.


def test_a_large_value_is_put_once_for_all_that_have_it(agent: Any) -> None:
    saver = HoldfastSaver(agent)
    versions, at = {"big": "1", "n": "1"}, None
    for step in range(4):
        versions["n"] = str(step)
        values = {"big": [LARGE], "n": step}
        new = {"n": versions["n"]} if at else versions
        at = put(saver, "t", values, parent=at, versions=dict(versions), new=new)
    assert len([key for key in keys_of(agent, "t") if key.startswith("v ")]) == 1
    assert values_of(saver, at) == {"big": [LARGE], "n": 3}
    saver.prune(["t"])
    assert values_of(saver, config_of("t")) == {"big": [LARGE], "n": 3}
    assert len(keys_of(agent, "t")) == 2


def test_of_a_list_that_grows_only_its_end_is_put(agent: Any) -> None:
    saver = HoldfastSaver(agent)
    items = [{"id": number, "text": f"message {number} " * 20} for number in range(200)]
    at, versions = None, list[dict[str, Any]]()
    for step in range(3):
        versions.append({"items": items[: 198 + step], "ids": [*range(200)]})
        new = {"items": str(step), "ids": str(step)}
        at = put(saver, "t", versions[-1], parent=at, versions=new)
    # Six segments of 32 items: its end lies with the checkpoint.
    assert len([key for key in keys_of(agent, "t") if key.startswith("v ")]) == 6
    assert [each.checkpoint["channel_values"] for each in saver.list(None)] == versions[::-1]
    other = HoldfastSaver(agent)
    items[0] = {"id": "changed"}
    put(other, "t", {"items": items}, parent=at, versions={"items": "4"})
    saver.prune(["t"])
    assert values_of(other, config_of("t")) == {"items": items}
    assert len(keys_of(agent, "t")) == 6 + 1


@pytest.fixture
def apart(server: Server) -> Iterator[Any]:
    """Yields an agent on a server."""
    name = f"agent-{next(_NUMBERS)}"
    with holdfast.Client(server.api_key, url=server.url, namespace=name) as client:
        yield client


class Meanwhile:
    """Does something once, right before an agent's store is asked for large values."""

    def __init__(self, agent: Any, act: Callable[[], object]) -> None:
        self._store, self._act = agent.store, act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @property
    def raw(self) -> "Meanwhile":
        other = Meanwhile.__new__(Meanwhile)
        other._store, other._act = self._store.raw, self._once
        return other

    def _once(self) -> None:
        act, self._act = self._act, lambda: None
        act()

    def get_many(self, pairs: Any) -> Any:
        self._act()
        return self._store.get_many(pairs)


def test_what_is_too_large_for_a_request_goes_in_several(apart: Any) -> None:
    saver, random = HoldfastSaver(apart), Random(3)
    # One value of more than a request takes, and a list whose segments are.
    values = {"one": random.randbytes(36 << 20), "many": [bytes(300_000)] * 100}
    at = put(saver, "t", values)
    assert values_of(saver, at) == values
    again = put(saver, "t", {**values, "n": 1}, parent=at, new={"n": "1"})
    assert len([key for key in keys_of(apart, "t") if key.startswith("v ")]) == 5 + 4
    for _ in range(18):
        put(saver, "t", {"own": random.randbytes(2 << 20)})
    saver.copy_thread("t", "u")
    assert [key for key in keys_of(apart, "u") if key not in keys_of(apart, "t")] == []
    assert len(keys_of(apart, "u")) == len(keys_of(apart, "t"))
    copied = config_of("u", again["configurable"]["checkpoint_id"])
    assert values_of(saver, copied) == {**values, "n": 1}


@pytest.mark.parametrize("act", ["put", "copy"])
def test_nothing_that_goes_ahead_is_deleted_by_who_prunes_meanwhile(
    near: Any, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portioning, "PORTION_BYTES", 60_000)
    saver, pruned, batch = HoldfastSaver(near), list[bool](), type(near.store).batch
    values = {name: LARGE[number:] for number, name in enumerate("abc")}
    put(saver, "t", {})
    put(saver, "t", {})
    if act == "copy":
        put(saver, "s", {})
        put(saver, "s", values)

    def meanwhile(store: Any, **parts: Any) -> Any:
        done = batch(store, **parts)
        if parts.get("put") and not pruned:  # Once a part of the values is there.
            pruned.append(True)
            HoldfastSaver(near).prune(["t"])
        return done

    monkeypatch.setattr(type(near.store), "batch", meanwhile)
    if act == "put":
        put(saver, "t", values)
    else:
        saver.copy_thread("s", "t")
    assert pruned
    assert values_of(saver, config_of("t")) == values
    assert "pruning" not in keys_of(near, "t")


@pytest.mark.parametrize("others", ["large", "in one portion"])
def test_who_puts_what_is_large_goes_on_whatever_others_put_meanwhile(
    near: Any, others: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portioning, "PORTION_BYTES", 60_000)
    saver, elsewhere, batch = HoldfastSaver(near), HoldfastSaver(near), type(near.store).batch
    values = {name: LARGE[number:] for number, name in enumerate("abc")}
    other = {name: LARGE[: -len(name)] for name in (["xx", "yyy"] if others == "large" else ["x"])}
    is_at_work, sent, found = [False], list[bool](), list[Any]()

    def meanwhile(store: Any, **parts: Any) -> Any:
        done = batch(store, **parts)
        if not is_at_work[0]:  # Each time that the first of them has sent something.
            is_at_work[0] = True
            sent.append(True)
            found.append(put(elsewhere, "t", other))
            is_at_work[0] = False
        return done

    monkeypatch.setattr(type(near.store), "batch", meanwhile)
    large = put(saver, "t", values)
    assert len(sent) == 4  # A sign, and three portions: nothing was sent again.
    assert values_of(HoldfastSaver(near), large) == values
    assert all(values_of(HoldfastSaver(near), each) == other for each in found)
    assert [key for key in keys_of(near, "t") if key.startswith("p")] == []


def test_many_put_what_is_large_in_one_thread_at_once(
    agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portioning, "PORTION_BYTES", 60_000)
    saver, failures, done = HoldfastSaver(agent), list[Exception](), list[Any]()

    def work(number: int) -> None:
        large = number < 3
        try:
            for each in range(3 if large else 12):
                names = "abc" if large else "a"
                values = {name: f"{number} {each} {name} {LARGE}" for name in names}
                at = config_of("t", ns=f"sub:{number}" if number else "")
                done.append((put(saver, "t", values, parent=at), values))
        except Exception as exc:  # noqa: BLE001 - told below
            failures.append(exc)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert failures == []
    assert len(done) == 3 * 3 + 12
    for at, values in done:
        assert values_of(HoldfastSaver(agent), at) == values
    assert [key for key in keys_of(agent, "t") if key.startswith("p")] == []


def test_a_put_that_died_is_swept_by_the_next_prune(near: Any) -> None:
    saver = HoldfastSaver(near)
    put(saver, "t", {"big": [LARGE]})
    near.store.set("langgraph/t", "putting 1", "by somebody who died")
    put(saver, "t", {"big": [LARGE, 2]})
    saver.prune(["t"])
    assert len(keys_of(near, "t")) == 2


def test_a_large_checkpoint_whose_parent_was_changed_leaves_no_sign(
    near: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portioning, "PORTION_BYTES", 60_000)
    saver, changed, batch = HoldfastSaver(near), list[bool](), type(near.store).batch
    first = put(saver, "t", {"big": [LARGE]})
    values = {"big": [LARGE], **{name: LARGE[number:] for number, name in enumerate("abc")}}

    def meanwhile(store: Any, **parts: Any) -> Any:
        done = batch(store, **parts)
        if parts.get("put") and not changed:
            changed.append(True)
            checkpoint: Any = empty_checkpoint()
            checkpoint["id"] = first["configurable"]["checkpoint_id"]
            HoldfastSaver(near).put(config_of("t"), checkpoint, {}, {})
        return done

    monkeypatch.setattr(type(near.store), "batch", meanwhile)
    new = dict.fromkeys("abc", "1")
    second = put(saver, "t", values, parent=first, new=new)
    assert changed
    assert values_of(HoldfastSaver(near), second) == values
    assert [key for key in keys_of(near, "t") if key.startswith("p")] == []


def test_what_is_deleted_between_two_requests_is_not_called_damage(apart: Any) -> None:
    saver = HoldfastSaver(apart)
    first, second = (put(saver, "t", {"big": [LARGE, number]}) for number in range(2))
    other = put(saver, "u", {"big": [LARGE]})

    def reads(act: Callable[[], object]) -> Any:
        reader = HoldfastSaver(apart)
        reader._store = Meanwhile(apart, act)
        return reader

    def prunes() -> None:
        saver.prune(["t"])

    def deletes() -> None:
        saver.delete_thread("u")

    reader = reads(prunes)
    assert [each.config for each in reader.list(config_of("t"), limit=2)] == [second]
    assert reads(deletes).get_tuple(other) is None
    assert saver.get_tuple(first) is None
    third = put(saver, "t", {"big": [LARGE, 3]})
    assert reads(prunes).get_tuple(second) is None
    fourth = put(saver, "t", {"big": [LARGE, 4]})

    def deletes_the_newest() -> None:
        key = next(k for k in keys_of(apart, "t") if fourth["configurable"]["checkpoint_id"] in k)
        large = value_key
        stored = decode_checkpoint(apart.store.raw.get("langgraph/t", key)).large["big"].parts
        gone = [("langgraph/t", key), *(("langgraph/t", large(part.name)) for part in stored)]
        apart.store.delete_many(gone)

    found = reads(deletes_the_newest).get_tuple(config_of("t"))
    assert found is not None
    assert found.config == third
    apart.store.delete_many(
        [("langgraph/t", key) for key in keys_of(apart, "t") if key.startswith("v ")]
    )
    for damaged in (
        lambda: HoldfastSaver(apart).get_tuple(config_of("t")),
        lambda: [*HoldfastSaver(apart).list(config_of("t"))],
        lambda: saver.copy_thread("t", "v"),
    ):
        with pytest.raises(Damaged):
            damaged()


def test_what_is_in_memory_is_bounded_and_of_one_thread() -> None:
    parts = Parts(most_bytes=10)
    parts.keep("t", [("a", b"1234"), ("b", b"1234"), ("huge", bytes(11))])
    assert parts.find("t", ["a", "huge"]) == {"a": b"1234"}
    parts.keep("t", [("c", b"1234")])
    assert parts.find("t", "abc") == {"a": b"1234", "c": b"1234"}
    assert parts.find("u", "abc") == {}


def test_a_run_whose_parent_was_pruned_loses_nothing(near: Any) -> None:
    saver = HoldfastSaver(near)
    first = put(saver, "t", {"big": [LARGE]})
    put(saver, "t", {"other": 1}, parent=first)
    saver.prune(["t"])
    again = put(saver, "t", {"big": [LARGE]}, parent=first, new={})
    assert values_of(saver, again) == {"big": [LARGE]}


@pytest.mark.parametrize("kind", ["sqlite", POSTGRES])
@pytest.mark.parametrize("act", ["prune", "delete", "restore", "put again"])
def test_what_others_have_changed_is_not_relied_on(
    request: pytest.FixtureRequest, kind: str, act: str, tmp_path: Path
) -> None:
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else None
    items = [{"id": number, "text": f"message {number} " * 20} for number in range(100)]

    def at(vault: holdfast.Holdfast) -> holdfast.Namespace:
        return vault.namespace("alice")

    with (
        holdfast.open(url or tmp_path / "vault", objects=tmp_path / "packs") as vault,
        holdfast.open(url or tmp_path / "vault", objects=tmp_path / "packs") as elsewhere,
    ):
        saver, other, versions = HoldfastSaver(at(vault)), HoldfastSaver(at(elsewhere)), {}
        before = at(vault).snapshot()
        versions = {"big": "1", "items": "1"}
        first = put(saver, "t", {"big": [LARGE], "items": items}, versions=versions)
        second = put(
            saver, "t", {"big": [LARGE], "items": items}, parent=first, versions=versions, new={}
        )
        if act == "prune":
            put(other, "t", {"other": 1}, parent=second)
            other.prune(["t"])
        elif act == "delete":
            other.delete_thread("t")
        elif act == "restore":
            at(elsewhere).restore(before)
        else:
            checkpoint: Any = empty_checkpoint()
            checkpoint["id"] = second["configurable"]["checkpoint_id"]
            other.put(first, checkpoint, {}, {})
            other.prune(["t"])
        wanted = {"big": [LARGE], "items": [*items, {"id": "new"}]}
        versions["items"] = "2"
        third = put(
            saver, "t", wanted, parent=second, versions=versions, new={"items": versions["items"]}
        )
        assert values_of(HoldfastSaver(at(elsewhere)), third) == wanted
        fourth = put(saver, "t", wanted, parent=third, versions=versions, new={})
        other.prune(["t"])
        assert values_of(HoldfastSaver(at(elsewhere)), fourth) == wanted


def test_who_puts_while_somebody_prunes_keeps_its_values(
    near: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = HoldfastSaver(near)
    first = put(saver, "t", {"big": [LARGE]})
    put(saver, "t", {"other": 1}, parent=first)
    choose, put_meanwhile = saver_writing.but_latest, list[Any]()

    def slowly(serde: Any) -> Any:
        chosen = choose(serde)

        def chooses(found: Any) -> Any:
            gone = chosen(found)
            if len(put_meanwhile) < 2:  # Once before the sign hangs, once while it does.
                put_meanwhile.append(put(saver, "t", {"big": [LARGE]}, parent=first, new={}))
            return gone

        return chooses

    monkeypatch.setattr(saver_writing, "but_latest", slowly)
    saver.prune(["t"])
    assert values_of(saver, put_meanwhile[-1]) == {"big": [LARGE]}
    assert "pruning" not in keys_of(near, "t")


def test_a_prune_that_died_is_in_nobodys_way(near: Any) -> None:
    saver = HoldfastSaver(near)
    first = put(saver, "t", {"big": [LARGE]})
    near.store.set("langgraph/t", "pruning", "by somebody who died")
    second = put(saver, "t", {"big": [LARGE, 2]}, parent=first)
    assert values_of(saver, second) == {"big": [LARGE, 2]}
    near.store.set("langgraph/t", "pruning", "by somebody who died")
    saver.prune(["t"])
    assert len(keys_of(near, "t")) == 2


def test_two_who_write_for_one_task_lose_nothing(near: Any) -> None:
    savers = [HoldfastSaver(near), HoldfastSaver(near)]
    at = put(savers[0], "t", {})
    failures = list[Exception]()

    def work(number: int) -> None:
        try:
            for task in range(10):
                some = [(f"c{each}", number) for each in range(1 + number)]
                savers[number].put_writes(at, some, f"task {task}")
        except Exception as exc:  # noqa: BLE001 - told below
            failures.append(exc)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert failures == []
    found = savers[0].get_tuple(at)
    assert found is not None
    assert found.pending_writes is not None
    assert sorted({(task, channel) for task, channel, _ in found.pending_writes}) == sorted(
        (f"task {task}", f"c{each}") for task in range(10) for each in range(2)
    )
    assert len(found.pending_writes) == 20


# Names that mean harm.

HOSTILE = ["", " ", "a b", "a", "a ", "c  x", "%20", "%", "\0", "ü/../..", "w", "!", "\U0010ffff"]


def test_no_name_reaches_into_anothers_place(near: Any) -> None:
    saver = HoldfastSaver(near)
    wanted = dict[tuple[str, str], Any]()
    for thread in HOSTILE:
        for ns in HOSTILE:
            at = config_of(thread, ns=ns)
            wanted[thread, ns] = put(saver, thread, {"v": [thread, ns]}, parent=at)
            saver.put_writes(wanted[thread, ns], [(thread, ns)], ns)
    for (thread, ns), at in wanted.items():
        for config in (at, config_of(thread, ns=ns)):
            found = saver.get_tuple(config)
            assert found is not None
            assert found.checkpoint["channel_values"] == {"v": [thread, ns]}
            assert found.pending_writes == [(ns, thread, ns)]
        assert len(list(saver.list(config_of(thread, ns=ns)))) == 1
    saver.delete_thread("a")
    left = {each.config["configurable"]["thread_id"] for each in saver.list(None)}
    assert left == {*HOSTILE} - {"a"}
    with pytest.raises(InvalidValue):
        put(saver, "\ud800", {})


def test_what_is_no_checkpoint_is_called_damage(near: Any) -> None:
    saver = HoldfastSaver(near)
    at = put(saver, "t", {"a": [1]})
    [key] = keys_of(near, "t")
    record = decode_checkpoint(near.store.raw.get("langgraph/t", key))
    bomb = zstandard.compress(bytes(1 << 20))
    for pressed in (bomb, b"none"):
        other = replace(record, pressed={"p": ("bytes", pressed)})
        near.store.put("langgraph/t", key, msgspec.msgpack.encode(other))
        with pytest.raises(Damaged):
            saver.get_tuple(at)
    apart = Large("1", False, [])
    others = [replace(record, format=2), replace(record, large={"l": apart})]
    others = [*map(msgspec.msgpack.encode, others), holdfast.dumps("something else")]
    for other in others:
        near.store.put("langgraph/t", key, other)
        with pytest.raises(Damaged):
            saver.get_tuple(at)
    put(saver, "t", {"big": [LARGE]})
    [large] = [key for key in keys_of(near, "t") if key.startswith("v ")]
    near.store.delete("langgraph/t", large)
    with pytest.raises(Damaged):
        HoldfastSaver(near).get_tuple(config_of("t"))


def test_a_walk_in_circles_ends(near: Any) -> None:
    saver = HoldfastSaver(near)
    checkpoint: Any = empty_checkpoint()
    own = config_of("t", checkpoint["id"])
    saver.put(own, checkpoint, {"counters_since_delta_snapshot": {"d": (1, 1)}}, {})
    assert saver.get_delta_channel_history(config=own, channels=["d"]) == {"d": {"writes": []}}
    saver.prune(["t"])
    assert values_of(saver, own) == {}


# Graphs.


class State(TypedDict):
    items: Annotated[list[Any], DeltaChannel(lambda old, new: [*chain(old, *new)])]
    last: int


def grown(saver: Any, thread: str, steps: int) -> Any:
    """Runs a graph whose list is made of its history."""
    builder = StateGraph(State)
    builder.add_node("add", lambda state: {"items": [len(state["items"])], "last": 1})
    builder.add_edge(START, "add")
    builder.add_edge("add", END)
    graph = builder.compile(checkpointer=saver)
    for step in range(steps):
        graph.invoke({"items": [f"in {step}"]}, config_of(thread))
    return graph


def items_of(graph: Any, thread: str) -> list[Any]:
    return graph.get_state(config_of(thread)).values["items"]


def test_a_channel_made_of_its_history_outlives_a_prune(agent: Any) -> None:
    saver = HoldfastSaver(agent)
    graph = grown(saver, "t", 6)
    wanted = items_of(graph, "t")
    assert len(wanted) == 12
    saver.copy_thread("t", "copy")
    saver.prune(["t"])
    assert items_of(graph, "t") == wanted
    assert items_of(graph, "copy") == wanted
    graph.invoke({"items": ["more"]}, config_of("t"))
    assert items_of(graph, "t") == [*wanted, "more", 13]
    past = [each.values.get("items") for each in graph.get_state_history(config_of("copy"))]
    assert past[0] == wanted
    assert min(map(len, filter(None, past))) == 1


def test_its_history_is_what_others_make_of_it(near: Any) -> None:
    from langgraph.checkpoint.memory import InMemorySaver  # noqa: PLC0415 - a peer of one test

    peer, ours = InMemorySaver(), HoldfastSaver(near)
    for saver in (peer, ours):
        graph = grown(saver, "t", 3)
        middle = [*graph.get_state_history(config_of("t"))][4]
        graph.update_state(middle.config, {"items": ["forked"]})
        graph.invoke({"items": ["then"]}, config_of("t"))

    def seen(saver: Any) -> Any:
        config = config_of("t")
        found = saver.get_delta_channel_history(config=config, channels=["items", "nothing"])
        return {
            name: ([write[2] for write in each["writes"]], "seed" in each)
            for name, each in found.items()
        }

    assert seen(ours) == seen(peer)


def test_what_is_pruned_of_a_thread_with_a_value_is_all_but_the_latest(near: Any) -> None:
    saver = HoldfastSaver(near)
    builder = StateGraph(dict)
    builder.add_node("n", lambda state: {"n": state.get("n", 0) + 1})
    builder.add_edge(START, "n")
    graph = builder.compile(checkpointer=saver)
    for _ in range(3):
        graph.invoke({}, config_of("t"))
    saver.prune(["t"])
    assert len(list(saver.list(config_of("t")))) == 1
    with pytest.raises(InvalidValue):
        saver.prune("t")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue, match="run_ids are several"):
        saver.delete_for_runs("r")
    with pytest.raises(InvalidValue):
        saver.prune(["t"], strategy="some")


def test_a_copy_of_a_saver_with_other_rules_is_the_same_saver(near: Any) -> None:
    saver = HoldfastSaver(near)
    at = put(copy.copy(saver), "t", {"a": [1]})
    assert values_of(saver.with_allowlist([("collections", "OrderedDict")]), at) == {"a": [1]}


# Going back.


def test_a_restore_takes_files_state_and_conversation_back(agent: Any) -> None:
    saver = HoldfastSaver(agent, snapshots=True)
    agent.files.write("report/a.md", "a month of work")
    first = put(saver, "t", {"messages": ["hello"]}, step=1)
    agent.store.set("notes", "mood", "good")
    agent.files.delete("report/a.md")
    second = put(saver, "t", {"messages": ["hello", "deleted it"]}, parent=first, step=2)

    assert saver.restore(first).verified
    assert agent.files.read("report/a.md") == b"a month of work"
    assert agent.store.get("notes", "mood") is None
    assert values_of(saver, config_of("t")) == {"messages": ["hello"]}
    assert values_of(saver, second) is None
    # What came later is on the timeline.
    later = saver.find_snapshot(second)
    assert later is not None
    assert values_of(saver.at(later), config_of("t")) == {"messages": ["hello", "deleted it"]}
    with pytest.raises(InvalidValue):
        put(saver.at(later), "t", {})
    agent.undo()
    assert values_of(saver, second) == {"messages": ["hello", "deleted it"]}
    saver.restore(first)
    saver.restore(second)
    assert values_of(saver, config_of("t")) == {"messages": ["hello", "deleted it"]}
    with pytest.raises(SnapshotNotFound):
        saver.restore(config_of("t", "1f000000-0000-0000-0000-000000000000"))
    with pytest.raises(InvalidValue):
        saver.restore(config_of("t"))


def test_a_directory_goes_back_with_its_graph(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("kept")
    with holdfast.open(tmp_path / "vault") as vault:
        workspace = vault.workspace(folder)
        saver = HoldfastSaver(workspace, snapshots=True)
        first = put(saver, "t", {"messages": ["hello"]})
        (folder / "a.txt").unlink()
        put(saver, "t", {"messages": ["gone"]}, parent=first)
        saver.restore(first)
        assert (folder / "a.txt").read_text() == "kept"
        assert values_of(saver, config_of("t")) == {"messages": ["hello"]}


@pytest.mark.parametrize("kind", ["sqlite", "awaited"])
@pytest.mark.parametrize("name", ["put", "snapshot", "restore"])
def test_what_was_begun_is_over_when_its_caller_was_cancelled(
    request: pytest.FixtureRequest, kind: str, name: str, tmp_path: Path
) -> None:
    async def run(agent: Any) -> None:
        saver, done = HoldfastSaver(agent, snapshots=True), list[str]()
        at = await saver.aput(config_of("t"), empty_checkpoint(), {"step": 1}, {})
        owner = agent.store if name == "put" else agent
        work, begun = getattr(owner, name), threading.Event()

        def slowly(*args: Any, **named: Any) -> Any:
            begun.set()
            time.sleep(0.05)
            work(*args, **named)
            done.append(name)

        async def awaited(*args: Any, **named: Any) -> Any:
            begun.set()
            await asyncio.sleep(0.05)
            await work(*args, **named)
            done.append(name)

        setattr(owner, name, awaited if kind == "awaited" else slowly)
        task = asyncio.create_task(
            saver.arestore(at)
            if name == "restore"
            else saver.aput(at, empty_checkpoint(), {"step": 2}, {})
        )
        assert await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done == [name]
        if kind == "awaited":
            await agent.close()

    for agent in opened(request, kind, tmp_path):
        asyncio.run(run(agent))


def test_the_newest_snapshot_that_holds_a_checkpoint_is_found(agent: Any) -> None:
    saver = HoldfastSaver(agent, snapshots=True)
    at = put(saver, "t", {"a": [1]})
    held = saver.find_snapshot(at)
    assert held is not None
    saver.delete_thread("t")
    agent.snapshot("without it", trace_id=at["configurable"]["checkpoint_id"])
    assert saver.find_snapshot(at) == held
    saver.restore(at)
    assert values_of(saver, at) == {"a": [1]}


def test_a_restore_is_of_a_thread_that_its_snapshot_holds(agent: Any) -> None:
    saver = HoldfastSaver(agent, snapshots=True)
    first = put(saver, "a", {"messages": ["hello"]})
    saver.copy_thread("a", "copy")
    [copied] = saver.list(config_of("copy"))
    for config in (copied.config, config_of("nobody", first["configurable"]["checkpoint_id"])):
        assert asyncio.run(saver.afind_snapshot(config)) is None
        with pytest.raises(SnapshotNotFound):
            saver.restore(config)
    assert values_of(saver, config_of("copy")) == {"messages": ["hello"]}
    assert saver.restore(first).verified


def test_a_checkpoint_whose_snapshot_is_missing_names_the_nearest_that_has_one(agent: Any) -> None:
    saver, killed = HoldfastSaver(agent, snapshots=True), HoldfastSaver(agent)
    put(killed, "t", {"messages": ["begun"]})
    first = put(saver, "t", {"messages": ["hello"]})
    agent.files.write("a.md", "later")
    # As a run leaves it that dies between its checkpoint and the snapshot.
    second = put(killed, "t", {"messages": ["hello", "2"]}, parent=first)
    third = put(killed, "t", {"messages": ["hello", "2", "3"]}, parent=second)
    put(saver, "t", {"messages": ["hello", "2", "3", "4"]}, parent=third)

    for restore in (saver.restore, lambda config: asyncio.run(saver.arestore(config))):
        for config in (second, third):
            with pytest.raises(CheckpointWithoutSnapshot) as error:
                restore(config)
            assert error.value.nearest == first
            assert first["configurable"]["checkpoint_id"] in str(error.value)
    assert agent.files.exists("a.md")
    assert saver.restore(first).verified
    assert not agent.files.exists("a.md")
    lonely = put(killed, "alone", {"messages": []})
    with pytest.raises(SnapshotNotFound, match="none of those looked at before it") as error:
        saver.restore(lonely)
    assert error.value.nearest is None


BAD_CONFIGS: list[Any] = [
    "t",
    {"configurable": "t"},
    *({"configurable": {"thread_id": bad}} for bad in (None, b"t", 1.5, ["t"], True)),
    {"configurable": {"thread_id": "t", "checkpoint_ns": 5}},
    {"configurable": {"thread_id": "t", "checkpoint_id": 5}},
]


def test_what_is_no_config_is_said_to_be_none(near: Any) -> None:
    saver = HoldfastSaver(near)
    put(saver, 7, {"messages": []})
    assert values_of(saver, config_of("7")) == {"messages": []}
    for config in BAD_CONFIGS:
        for call in (
            saver.get_tuple,
            lambda config: list(saver.list(config)),
            lambda config: put(saver, "t", {}, parent=config),
            lambda config: saver.put_writes(config, [("a", 1)], "task"),
            saver.restore,
        ):
            with pytest.raises(InvalidValue):
                call(config)
    for call in (
        lambda: saver.delete_thread(None),
        lambda: saver.copy_thread("t", 1.5),
        lambda: saver.prune([None]),
        lambda: list(saver.list(None, limit="1")),
        lambda: list(saver.list(None, filter="step")),
        lambda: HoldfastSaver(near, name=5),
        lambda: HoldfastSaver("vault"),
    ):
        with pytest.raises(InvalidValue):
            call()
    assert [each.config["configurable"]["thread_id"] for each in saver.list(None)] == ["7"]


def test_a_step_is_a_request_for_each_call(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with holdfast.Client(server.api_key, url=server.url, namespace="steps") as client:
        saver, sent, send = HoldfastSaver(client), list[str](), client.sender.send

        def counting(call: Any) -> Any:
            sent.append(call.path)
            return send(call)

        monkeypatch.setattr(client.sender, "send", counting)
        for values in ({"a": [1]}, {"big": [LARGE]}):
            at = put(saver, "t", values)
            saver.put_writes(at, [("a", 1)], "task")
            found = saver.get_tuple(config_of("t"))
            assert found is not None
            assert found.checkpoint["channel_values"] == values
            assert found.pending_writes == [("task", "a", 1)]
        assert len(sent) == 6
        # The parent is expected as it was left, and not read.
        again = put(saver, "t", {"big": [LARGE], "more": 1}, parent=at, new={"more": "1"})
        assert len(sent) == 7
        assert values_of(saver, again) == {"big": [LARGE], "more": 1}


def test_over_an_awaited_client_only_what_is_awaited_works(server: Server) -> None:
    async def run() -> None:
        async with holdfast.AsyncClient(
            server.api_key, url=server.url, namespace="awaited"
        ) as client:
            saver = HoldfastSaver(client, snapshots=True)
            with pytest.raises(InvalidValue):
                saver.get_tuple(config_of("t"))
            checkpoint: Any = empty_checkpoint()
            at = await saver.aput(config_of("t"), checkpoint, {"step": 1}, {})
            await client.files.write("a", "b")
            await saver.arestore(at)
            assert await client.files.list() == []
            graph = await asyncio.to_thread(grown, None, "t", 0)
            graph.checkpointer = saver
            await graph.ainvoke({"items": ["x"]}, config_of("g"))
            state = await graph.aget_state(config_of("g"))
            assert state.values["items"] == ["x", 1]

    asyncio.run(run())
