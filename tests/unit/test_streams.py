"""Live streams: every event once and in order, whoever comes and goes meanwhile."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.vault import Holdfast
from holdfast.errors import Unavailable
from holdfast.model.events import EventRow
from holdfast.server import streams
from holdfast.server.problems import TooManyAtOnce
from holdfast.server.stopping import Stopping
from holdfast.server.streams import Streams, message_line
from holdfast.wiring import open_vault

PATIENCE_S = 20.0


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Holdfast]:
    with open_vault(tmp_path / "vault") as opened:
        opened.events.listen()
        yield opened


def always() -> bool:
    return True


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(test(), PATIENCE_S)

    asyncio.run(limited())


def write(vault: Holdfast, name: str, *, namespace: str = "alice") -> None:
    vault.namespace(namespace).files.write(name, "x")


async def heard(lines: AsyncGenerator[bytes], most: int) -> list[dict[str, Any]]:
    """Returns the next messages of a stream, without its signs of life."""
    found = list[dict[str, Any]]()
    async for line in lines:
        for part in line.decode("ascii").split("\n"):
            if part.startswith("data: "):
                found.append(json.loads(part.removeprefix("data: ")))
        if len(found) >= most:
            break
    return found


def paths(messages: list[dict[str, Any]]) -> list[str]:
    return [message["data"]["path"].removeprefix("workspace/") for message in messages]


def quick(stopping: Stopping | None = None, *, keepalive_s: float = 60) -> Streams:
    return Streams(stopping or Stopping(), pause_s=0.01, keepalive_s=keepalive_s)


def test_a_stream_begins_with_a_word_and_misses_nothing_after_it(vault: Holdfast) -> None:
    async def test() -> None:
        write(vault, "before")
        lines = quick().listen(vault, namespace=None, is_valid=always)
        first = (await heard(lines, 1))[0]
        assert first["type"] == "connected"
        for key in ("id", "event_id", "api_version", "workspace_id", "created_at"):
            assert first[key]
        await asyncio.to_thread(write, vault, "after")
        assert paths(await heard(lines, 1)) == ["after"]
        await lines.aclose()

    run(test)


def test_who_is_cut_off_before_the_first_event_comes_back_and_misses_nothing(
    vault: Holdfast,
) -> None:
    async def test() -> None:
        write(vault, "before")
        write(vault, "theirs", namespace="bob")
        for namespace in ("alice", None):
            lines = quick().listen(vault, namespace=namespace, is_valid=always)
            first = (await anext(lines)).decode("ascii")
            await lines.aclose()
            seen = vault.events.find(first.removeprefix("id: ").partition("\n")[0])
            assert seen is not None
            assert namespace in (None, seen.namespace)
            write(vault, f"after-{namespace}")
            again = quick().listen(vault, namespace=namespace, is_valid=always, after=seen.number)
            assert paths((await heard(again, 2))[1:]) == [f"after-{namespace}"]
            await again.aclose()

    run(test)


def test_a_listener_hears_of_its_namespace_alone(vault: Holdfast) -> None:
    async def test() -> None:
        served = quick()
        alice = served.listen(vault, namespace="alice", is_valid=always)
        every = served.listen(vault, namespace=None, is_valid=always)
        await heard(alice, 1)
        await heard(every, 1)
        write(vault, "a", namespace="bob")
        vault.keys.create("ci")
        write(vault, "b", namespace="alice")
        assert paths(await heard(alice, 1)) == ["b"]
        assert [each["type"] for each in await heard(every, 3)][1] == "key.created"
        assert len(served.readers) == 1

    run(test)


def test_a_listener_of_some_types_is_not_held_up_by_the_others(
    vault: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten wait at the most here: a hundred files that it has not asked for are none of them."""
    monkeypatch.setattr(streams, "WAITING", 10)

    async def test() -> None:
        served = quick(keepalive_s=0.05)
        lines = served.listen(vault, namespace="alice", types=["snapshot.*"], is_valid=always)
        await heard(lines, 1)
        alice = vault.namespace("alice")
        alice.files.write_many((f"{number}", "x") for number in range(100))
        alive = b""
        while not alive.startswith(b"id: "):
            alive = await anext(lines)
        passed, _ = vault.events.list(limit=1)
        assert alive == f"id: {passed[0].id}\n: still here\n\n".encode()
        taken = alice.snapshot("kept")
        [told] = await heard(lines, 1)
        assert (told["type"], told["data"]["snapshot_id"]) == ("snapshot.created", taken.id)
        again = served.listen(
            vault, namespace="alice", types=["snapshot.*"], after=1, is_valid=always
        )
        assert [each["id"] for each in (await heard(again, 2))[1:]] == [told["id"]]

    run(test)


def test_who_comes_back_hears_what_it_missed_and_then_goes_on(vault: Holdfast) -> None:
    async def test() -> None:
        served = quick()
        other = served.listen(vault, namespace=None, is_valid=always)
        await heard(other, 1)
        for number in range(3):
            write(vault, f"{number}")
        vault.namespace("alice").files.write_many((f"m{number}", "x") for number in range(450))
        seen, _ = vault.events.list(limit=1, cursor=None)
        lines = served.listen(vault, namespace=None, after=1, is_valid=always)
        messages = await heard(lines, 1 + 452)
        assert paths(messages[1:]) == ["1", "2", *(f"m{number}" for number in range(450))]
        assert messages[-1]["id"] == seen[0].id
        write(vault, "live")
        assert paths(await heard(lines, 1)) == ["live"]

    run(test)


def test_nothing_is_lost_or_doubled_where_the_past_meets_the_present(vault: Holdfast) -> None:
    """Listeners join, resume and leave, so that readers end and begin, while somebody writes."""
    over = threading.Event()

    def keep_writing() -> None:
        number = 0
        while not over.is_set():
            write(vault, f"{number}")
            number += 1

    async def one(served: Streams, after: int | None) -> int:
        lines = served.listen(vault, namespace=None, after=after, is_valid=always)
        messages = (await heard(lines, 6))[1:]
        await lines.aclose()
        rows = [vault.events.find(message["id"]) for message in messages]
        numbers = [row.number for row in rows if row is not None]
        first = numbers[0] if after is None else after + 1
        assert numbers == list(range(first, first + 5))
        return numbers[-1]

    async def test() -> None:
        served, last = quick(), None
        for _ in range(12):
            last, *_ = await asyncio.gather(one(served, last), one(served, None), one(served, 0))

    writer = threading.Thread(target=keep_writing)
    write(vault, "first")
    writer.start()
    try:
        run(test)
    finally:
        over.set()
        writer.join()


def test_who_joins_a_reader_that_lags_hears_nothing_old(
    vault: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, go_on = streams.read_page, threading.Event()

    def page(vault: Holdfast, after: int) -> list[EventRow]:
        assert go_on.wait(PATIENCE_S)
        return real(vault, after)

    async def test() -> None:
        served = quick()
        first = served.listen(vault, namespace=None, is_valid=always)
        monkeypatch.setattr(streams, "read_page", page)
        await heard(first, 1)
        write(vault, "old")
        second = served.listen(vault, namespace=None, is_valid=always)
        await heard(second, 1)
        write(vault, "new")
        go_on.set()
        assert paths(await heard(first, 2)) == ["old", "new"]
        assert paths(await heard(second, 1)) == ["new"]

    run(test)


def test_who_listens_to_a_quiet_namespace_reads_nothing_of_the_others_past(
    vault: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, read = streams.read_page, list[int]()

    def page(vault: Holdfast, after: int) -> list[EventRow]:
        read.append(after)
        return real(vault, after)

    async def test() -> None:
        write(vault, "long ago")
        write(vault, "theirs", namespace="bob")
        last = vault.events.last()
        monkeypatch.setattr(streams, "read_page", page)
        lines = quick().listen(vault, namespace="alice", is_valid=always)
        await heard(lines, 1)
        write(vault, "new")
        assert paths(await heard(lines, 1)) == ["new"]
        await lines.aclose()
        assert min(read) == last

    run(test)


def test_nobody_reads_when_nobody_listens(vault: Holdfast) -> None:
    async def test() -> None:
        served = quick()
        lines = served.listen(vault, namespace=None, is_valid=always)
        await heard(lines, 1)
        task = served.readers[vault.tenant_id].task
        assert task is not None
        await lines.aclose()
        await task
        assert served.readers == {}

    run(test)


def test_who_does_not_keep_up_is_cut_off_and_others_go_on(
    vault: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "WAITING", 10)

    async def test() -> None:
        served = quick()
        slow = served.listen(vault, namespace=None, is_valid=always)
        good = served.listen(vault, namespace="bob", is_valid=always)
        await heard(slow, 1)
        await heard(good, 1)
        vault.namespace("alice").files.write_many((f"{number}", "x") for number in range(11))
        write(vault, "b", namespace="bob")
        assert paths(await heard(good, 1)) == ["b"]
        assert await heard(slow, 1) == []  # It has ended.

    run(test)


def test_a_stream_ends_with_its_key(vault: Holdfast) -> None:
    async def test() -> None:
        valid = threading.Event()
        valid.set()
        served = quick(keepalive_s=0.05)
        lines = served.listen(vault, namespace=None, is_valid=valid.is_set)
        await heard(lines, 1)
        assert await anext(lines) == b": still here\n\n"
        valid.clear()
        # Also where so much happens that it is never silent.
        for _ in range(500):
            await asyncio.to_thread(write, vault, "a")
            try:
                await anext(lines)
            except StopAsyncIteration:
                return
        pytest.fail("it goes on")

    run(test)


def test_a_stream_ends_when_the_server_stops(vault: Holdfast) -> None:
    async def test() -> None:
        stopping = Stopping()
        served = quick(stopping)
        lines = served.listen(vault, namespace=None, is_valid=always)
        await heard(lines, 1)
        waiting = asyncio.create_task(heard(lines, 1))
        await asyncio.sleep(0)
        stopping.set()
        assert await waiting == []

    run(test)


def test_a_catalog_that_is_away_for_a_while_ends_no_stream(
    vault: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "FAILED_S", 0.01)
    real, failed = streams.read_page, list[int]()

    def page(vault: Holdfast, after: int) -> list[EventRow]:
        if len(failed) < 3:
            failed.append(after)
            raise Unavailable("the database is away")
        return real(vault, after)

    async def test() -> None:
        lines = quick().listen(vault, namespace=None, is_valid=always)
        monkeypatch.setattr(streams, "read_page", page)
        await heard(lines, 1)
        write(vault, "a")
        assert paths(await heard(lines, 1)) == ["a"]
        assert len(failed) == 3

    run(test)


def test_a_message_is_one_line_of_ascii() -> None:
    line = message_line({"a": "x\u2028y\r\nzü\x85"}, event_id="evt-1")
    assert line == b'id: evt-1\ndata: {"a":"x\\u2028y\\r\\nz\\u00fc\\u0085"}\n\n'


def test_a_tenant_has_half_of_the_streams_whatever_keys_it_makes_and_gets_them_back() -> None:
    served = quick()
    leave = [served.seat("greedy", f"key-{number % 9}") for number in range(streams.STREAMS // 2)]
    with pytest.raises(TooManyAtOnce) as refused:
        served.seat("greedy", "another")
    assert refused.value.retry_after
    served.seat("modest", "theirs")()
    leave.pop()()
    leave.append(served.seat("greedy", "another"))
    for each in leave:
        each()
    for _ in range(streams.STREAMS_OF_KEY):
        served.seat("greedy", "key-0")
    with pytest.raises(TooManyAtOnce, match="key"):
        served.seat("greedy", "key-0")
