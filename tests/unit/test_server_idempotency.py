"""Idempotency-Key when the database goes away between the work and its answer."""

import asyncio
import logging
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from msgspec.structs import replace

from holdfast.errors import SnapshotNotFound, Unavailable
from holdfast.model.replies import Asked, Reply, ReplyPlace
from holdfast.server import idempotency
from holdfast.server.app import Admit, Application
from holdfast.server.observing import Observer
from holdfast.server.rates import Rates, Refusing
from holdfast.server.requests import Caller, Request
from holdfast.server.responses import Response
from holdfast.server.routing import post
from holdfast.server.table import Entry, Group, Table
from holdfast.server.threads import Turns

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Replies:
    """Answers in memory; the database is away for some of the calls."""

    away: dict[str, int]
    kept: dict[ReplyPlace, Reply] = field(default_factory=dict[ReplyPlace, Reply])
    error: type[Exception] = Unavailable
    renewed: threading.Event = field(default_factory=threading.Event)
    asked_in: list[str] = field(default_factory=list[str])
    """What was asked of what is known, and in which thread."""

    def find_new(self, place: ReplyPlace, fingerprint: bytes) -> Asked | None:
        self._note("new")
        mine = Reply(fingerprint=fingerprint, created_at=NOW, leased_until=NOW)
        return None if place in self.kept else Asked(place, mine)

    def look(self, place: ReplyPlace, fingerprint: bytes) -> Asked:
        self._note("known")
        mine = Reply(fingerprint=fingerprint, created_at=NOW, leased_until=NOW)
        return Asked(place, mine, answer=self.kept.get(place))

    def claim(self, asked: Asked) -> Asked:
        return replace(asked, is_claimed=True)

    def begin(self, _asked: Asked) -> SimpleNamespace:
        return SimpleNamespace(is_kept=False, has_acted=True)

    def renew(self, _asked: Asked) -> None:
        self._ask("renew")
        self.renewed.set()

    def keep(self, asked: Asked, done: Reply) -> None:
        self._ask("keep")
        self.kept[asked.place] = done

    def release(self, _asked: Asked) -> None:
        self._ask("release")

    def _note(self, what: str) -> None:
        is_loop = threading.current_thread() is threading.main_thread()
        self.asked_in.append(f"{what} {'in the loop' if is_loop else 'in a thread'}")

    def _ask(self, name: str) -> None:
        self.away[name] = self.away.get(name, 0) - 1
        if self.away[name] >= 0:
            raise self.error("the database is gone")


def admit_to(replies: Replies) -> Admit:
    """Returns what lets everybody in."""
    vault = SimpleNamespace(replies=replies, tenant_id="t")
    vault.replying = lambda _catalog: vault
    key: Any = SimpleNamespace(id="key", rate_limit=None)

    async def admit(_entry: Entry, request: Request) -> None:
        request.caller = Caller(key, cast("Any", vault))

    return admit


@post("/badly")
async def badly() -> Response:
    """Finds nothing."""
    raise SnapshotNotFound("snap-x")


@post("/quickly", claims=False)
async def quickly() -> Response:
    """Does it in no time."""
    return Response(b"done", status=201)


@pytest.fixture(autouse=True)
def hurries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAUSE_S", "RENEWS_S"):
        monkeypatch.setattr(idempotency, name, 0.001)


def ask(replies: Replies, path: str, *, turns: int = 0) -> httpx.Response:
    @post("/well")
    async def well() -> Response:
        assert await asyncio.to_thread(replies.renewed.wait, 20)
        return Response(b"done", status=201)

    table = Table([Group([well, badly, quickly], max_body_bytes=99)])
    rates = Rates()
    app = Application(
        table,
        cast("Any", SimpleNamespace(turns=Turns(turns))),
        refusing=Refusing(rates, frozenset()),
        admit=admit_to(replies),
        observer=Observer(rates),
    )

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(app)  # pyright: ignore[reportArgumentType] - an application, by another name
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.post(path, headers={"Idempotency-Key": "n"})

    return asyncio.run(run())


def test_a_database_that_stays_away_is_answered_like_any_other_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(idempotency, "PATIENCE_S", 0.01)
    caplog.set_level(logging.INFO, "holdfast.access")
    answer = ask(Replies({"keep": 1 << 30}), "/well")
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "unavailable"
    assert [r.getMessage() for r in caplog.records if '"status":503' in r.getMessage()]


def test_a_fault_of_ours_is_answered_like_any_other_one():
    answer = ask(Replies({"keep": 1}, error=ZeroDivisionError), "/well")
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"


def test_a_database_that_comes_back_keeps_the_answer():
    replies = Replies({"keep": 3, "renew": 1})
    answer = ask(replies, "/well")
    assert (answer.status_code, answer.text) == (201, "done")
    assert len(replies.kept) == 1


def test_an_error_is_told_also_if_the_database_is_away_by_then():
    answer = ask(Replies({"release": 1 << 30}), "/badly")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "snapshot_not_found"


def test_that_a_request_is_new_is_found_in_the_loop_and_an_answer_is_read_in_a_thread():
    replies = Replies({})
    for asked in (["new in the loop"], ["new in the loop", "known in a thread"]):
        replies.asked_in.clear()
        assert ask(replies, "/quickly", turns=1).text == "done"
        assert replies.asked_in == asked


def test_what_takes_long_is_claimed_in_a_thread_and_so_is_all_without_a_turn():
    for path, turns in (("/well", 1), ("/quickly", 0)):
        replies = Replies({"renew": 1})
        assert ask(replies, path, turns=turns).text == "done"
        assert replies.asked_in == ["known in a thread"], path
