"""From a request to a route and back: what is found, what is taken of it, and what is answered."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, cast

import httpx
import msgspec
import pytest
from msgspec import Meta

import holdfast
from holdfast.model.keys import KeyUse, Scope
from holdfast.server.app import Application
from holdfast.server.callers import check_may
from holdfast.server.config import Config
from holdfast.server.observing import Observer
from holdfast.server.openapi import describe
from holdfast.server.parameters import Header, Made, Query
from holdfast.server.rates import Rates, Refusing
from holdfast.server.requests import Caller, Request
from holdfast.server.responses import Stream
from holdfast.server.routing import Route, Who, delete, get, post
from holdfast.server.table import Entry, Group, Table
from holdfast.server.threads import Turns


class Thing(msgspec.Struct):
    """A thing."""

    name: str
    size: int = 0


def narrowed(prefix: str = "", limit: Annotated[int, Meta(ge=1)] = 5) -> str:
    return f"{prefix}:{limit}"


@get("/things")
def list_(
    words: list[str] | None = None,
    old: Annotated[int | None, Query("from")] = None,
    is_long: bool = False,
    told: Annotated[str | None, Header("X-Told")] = None,
    narrow: Annotated[str, Made(narrowed)] = "",
) -> dict[str, Any]:
    """Lists things.

    All of them.
    """
    return {"words": words, "from": old, "long": is_long, "told": told, "narrow": narrow}


@get("/things/{name}")
def show(name: str, needed: str) -> dict[str, str]:
    """Shows a thing."""
    return {"name": name, "needed": needed}


@get("/things/newest", work=None)
def newest() -> list[str]:
    """Shows the newest thing."""
    return [threading.current_thread().name]


@post("/things", status=201)
def make(data: Thing) -> Thing:
    """Makes a thing."""
    return data


@delete("/things/{name}", status=204)
def remove(name: str) -> None:
    """Removes a thing."""


@get("/rest/{path:path}")
def rest(request: Request) -> list[str]:
    """Shows what is left of a path."""
    return [request.path]


ROUTES = [list_, show, newest, make, remove, rest]


def application(routes: list[Route], *, turns: int = 0, max_body_bytes: int = 99) -> Application:
    services: Any = SimpleNamespace(
        config=Config(data=Path()), is_stopping=lambda: False, turns=Turns(turns)
    )

    async def admit(_entry: Entry, _request: Request) -> None:
        pass

    table = Table([Group(routes, max_body_bytes)])
    rates = Rates()
    return Application(
        table,
        services,
        refusing=Refusing(rates, frozenset()),
        admit=admit,
        observer=Observer(rates),
    )


def ask(method: str, path: str, *, routes: list[Route] = ROUTES, **more: Any) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(application(routes))  # pyright: ignore[reportArgumentType] - an application, by another name
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.request(method, path, **more)

    return asyncio.run(run())


# Which route.


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/things/a?needed=1", {"name": "a", "needed": "1"}),
        ("/things///a/?needed=", {"name": "a", "needed": ""}),
        ("/things/a%20b?needed=x&needed=y", {"name": "a b", "needed": "y"}),
        ("/things/newest", ["MainThread"]),
        ("/rest/a/b//c", ["/rest/a/b/c"]),
    ],
)
def test_a_path_is_found_and_a_word_comes_before_a_name(path: str, found: object) -> None:
    assert ask("GET", path).json() == found


@pytest.mark.parametrize("path", ["/", "/thing", "/things/a/b", "/rest"])
def test_a_path_that_no_route_has_is_not_found(path: str) -> None:
    answer = ask("GET", path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "resource_not_found")


def test_a_method_that_no_route_has_is_answered_with_those_that_there_are() -> None:
    answer = ask("PATCH", "/things/a")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, OPTIONS")
    answer = ask("DELETE", "/things/newest")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, OPTIONS")
    answer = ask("OPTIONS", "/things")
    assert (answer.status_code, answer.headers["allow"]) == (204, "GET, OPTIONS, POST")


# What it takes.


@pytest.mark.parametrize(
    ("query", "headers", "found"),
    [
        ("", {}, {"words": None, "from": None, "long": False, "told": None, "narrow": ":5"}),
        (
            "?words=a&words=b&from=7&is_long=true&other=1&limit=1&prefix=p%C3%A9+x&prefix=q",
            {"X-Told": "t"},
            {"words": ["a", "b"], "from": 7, "long": True, "told": "t", "narrow": "q:1"},
        ),
    ],
)
def test_a_parameter_is_found_where_its_annotation_says(
    query: str, headers: dict[str, str], found: dict[str, object]
) -> None:
    assert ask("GET", f"/things{query}", headers=headers).json() == found


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/things?from=x&is_long=maybe", "from: Expected `int | null`, got `str`; is_long: "),
        ("/things?limit=0", "limit: Expected `int` >= 1"),
        ("/things?old=3&from=", "from: Expected"),
        ("/things/a?need=1", "Missing required query parameter 'needed' for path /things/a?need=1"),
    ],
)
def test_a_parameter_that_does_not_fit_is_named_as_it_was_sent(path: str, sentence: str) -> None:
    answer = ask("GET", path)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(sentence)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b'{"name": "a", "size": "3"}', 201, '{"name":"a","size":3}'),
        (b"", 422, "the request needs a JSON body"),
        (b'{"size": 3}', 422, "missing required field"),
        (b'{"name": "%b"}' % (b"a" * 99), 413, "payload_too_large"),
    ],
)
def test_a_body_is_read_as_far_as_it_is_one(body: bytes, status: int, said: str) -> None:
    answer = ask("POST", "/things", content=body)
    assert (answer.status_code, said in answer.text) == (status, True)


def test_an_answer_without_content_has_neither_a_type_nor_a_length() -> None:
    answer = ask("DELETE", "/things/a")
    assert (answer.status_code, answer.content) == (204, b"")
    assert not {"content-type", "content-length"} & set(answer.headers)


def test_the_description_is_made_of_the_same_declarations() -> None:
    document = json.loads(describe(Table([Group(ROUTES, 99)])))
    operation = document["paths"]["/things"]["get"]
    assert (operation["summary"], operation["description"]) == ("Lists things.", "All of them.")
    found = {each["name"]: each for each in operation["parameters"]}
    assert list(found) == ["words", "from", "is_long", "X-Told", "prefix", "limit"]
    assert found["limit"]["schema"] == {"type": "integer", "minimum": 1, "default": 5}
    assert found["X-Told"]["in"] == "header"
    made = document["paths"]["/things"]["post"]
    assert made["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/Thing"
    }
    assert "404" in made["responses"]
    assert "/things/{name}" in document["paths"]
    assert "/rest/{path}" in document["paths"]


# Who may.


@pytest.mark.parametrize(
    ("who", "scopes"),
    [
        (Who.KEY, {Scope.ADMIN, Scope.RUNTIME, Scope.ADD_ONLY}),
        (Who.AGENT, {Scope.RUNTIME, Scope.ADD_ONLY}),
        (Who.OPERATOR, {Scope.ADMIN}),
    ],
)
def test_a_route_is_for_those_keys_that_its_declaration_names(who: Who, scopes: set[Scope]) -> None:
    for method, may_add in ((get, True), (post, False)):
        (entry, *_) = Table([Group([method("/v1/x", who=who)(newest.function)], 0)]).entries
        for scope in Scope:
            caller = Caller(cast("Any", SimpleNamespace(scope=scope)), cast("Any", None))
            may = scope in scopes and (may_add or scope is not Scope.ADD_ONLY)
            assert is_let_in(caller, entry, {}) is may


def test_a_workspace_in_a_path_is_the_keys_own() -> None:
    (entry, *_) = Table(
        [Group([get("/v1/workspaces/{workspace_id}/x", who=Who.KEY)(newest.function)], 0)]
    ).entries
    key: Any = SimpleNamespace(scope=Scope.RUNTIME)
    caller = Caller(key, cast("Any", SimpleNamespace(tenant_id="ws-1")))
    found = {
        name: is_let_in(caller, entry, {"workspace_id": name}) for name in ("ws-1", "me", "ws-2")
    }
    assert found == {"ws-1": True, "me": True, "ws-2": False}


def is_let_in(caller: Caller, entry: Entry, places: dict[str, str]) -> bool:
    try:
        check_may(caller, entry, cast("Any", SimpleNamespace(places=places)))
    except holdfast.HoldfastError:
        return False
    return True


def test_what_a_key_opens_is_kept_no_longer_than_its_row_stays_as_it_is(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        key = vault.keys.create("k")
        secret = key.api_key
        first, second = vault.admit(secret), vault.admit(secret)
        assert first is not None
        assert second is not None
        assert first[0] is second[0]
        vault.record_uses([KeyUse(key.id, key.created_at, 3)])
        third = vault.admit(secret)
        assert third is not None
        assert third[1].requests == 3
        vault.keys.revoke(key.id)
        assert vault.admit(secret) is None


# Where it runs.


def where(most: int, times: int) -> list[str]:
    """Returns in which threads so many requests are answered that come together."""

    def soon(long: bool = False) -> str | None:
        return None if long else threading.current_thread().name

    @get("/where", at_once=soon)
    def late(long: bool = False) -> str:
        return f"elsewhere, {long}"

    async def run() -> list[str]:
        app = application([late], turns=most)
        transport = httpx.ASGITransport(app)  # pyright: ignore[reportArgumentType] - an application, by another name
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            paths = ["/where?long=true", *["/where"] * times]
            return [each.json() for each in await asyncio.gather(*map(client.get, paths))]

    return asyncio.run(run())


def test_what_takes_no_time_is_answered_in_the_loop_and_the_rest_is_not() -> None:
    assert where(most=9, times=3) == ["elsewhere, True", *["MainThread"] * 3]
    assert where(most=0, times=3) == ["elsewhere, True", *["elsewhere, False"] * 3]


def test_in_a_round_of_the_loop_a_tenant_has_its_turns_and_no_more() -> None:
    async def run() -> None:
        turns = Turns(2)
        assert [turns.is_ready("a") for _ in range(3)] == [True, True, False]
        assert turns.is_ready("b")
        await asyncio.sleep(0)
        assert turns.is_ready("a")

    asyncio.run(run())


# What is sent while it is made.


class Wire:
    """A client that takes so many pieces, and then goes away."""

    def __init__(self, *, takes: int) -> None:
        self.sent = list[dict[str, Any]]()
        self._takes, self._has_gone = takes, asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self._has_gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        if len(self.sent) > self._takes:
            self._has_gone.set()


def send(pieces: Callable[[], AsyncGenerator[bytes]], *, takes: int = 99) -> list[bytes]:
    async def run() -> list[bytes]:
        wire = Wire(takes=takes)
        await Stream(pieces(), media_type="text/x").send(wire.receive, wire.send, [])
        assert len(asyncio.all_tasks()) <= 2  # This one, and one that is being cancelled.
        return [message.get("body", b"") for message in wire.sent]

    return asyncio.run(run())


def test_a_stream_is_sent_piece_by_piece() -> None:
    async def pieces() -> AsyncGenerator[bytes]:
        yield b"a"
        yield b"b"

    assert send(pieces) == [b"", b"a", b"b", b""]


def test_a_stream_that_nobody_takes_any_more_ends_and_lets_go_of_what_it_holds() -> None:
    ends = list[str]()

    async def pieces() -> AsyncGenerator[bytes]:
        try:
            while True:
                yield b"a"
                await asyncio.sleep(0)
        finally:
            ends.append("closed")

    assert send(pieces, takes=3)[:2] == [b"", b"a"]
    assert ends == ["closed"]


def test_a_stream_that_fails_is_broken_off() -> None:
    async def pieces() -> AsyncGenerator[bytes]:
        yield b"a"
        raise LookupError("on purpose")

    with pytest.raises(LookupError):
        send(pieces)
