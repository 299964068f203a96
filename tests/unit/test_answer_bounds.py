"""How much one answer of a server holds: lists are refused, what was written is always told."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from holdfast.engine.vault import Holdfast
from holdfast.errors import TooLarge
from holdfast.operations.sessions import ListTurns
from holdfast.sdk.calls import paging
from holdfast.server.app import make_app, open_vault
from holdfast.server.config import configure
from holdfast.server.credentials import make_credentials
from holdfast.server.textprocesses import TextProcesses

MOST = 10_000
LARGE = "x" * (MOST * 6 // 10)
"""One fits into an answer, and two do not."""

pytestmark = pytest.mark.in_memory


@dataclass
class Place:
    """A server in this process whose answers hold little, and a key."""

    vault: Holdfast
    app: Any
    key: str

    def __call__(self, method: str, path: str, **options: Any) -> httpx2.Response:
        async def ask() -> httpx2.Response:
            transport = httpx2.ASGITransport(app=self.app)
            usual = {"Authorization": f"Bearer {self.key}", "X-Namespace": "alice"}
            known = usual | options.pop("headers", {})
            async with httpx2.AsyncClient(
                transport=transport, base_url="http://127.0.0.1:7433", headers=known
            ) as http:
                return await http.request(method, path, **options)

        return asyncio.run(ask())

    def ok(self, method: str, path: str, **options: Any) -> Any:
        answer = self(method, path, **options)
        assert answer.is_success, answer.text
        return answer.json()

    def session(self, **more: Any) -> str:
        """Returns the path of a new session."""
        made = self.ok("POST", "/v1/sessions", json={"agent_id": "a", **more})
        return f"/v1/sessions/{made['id']}"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    config = replace(configure({}, data=str(tmp_path)), max_answer_bytes=MOST)
    with open_vault(config) as vault:
        made = make_credentials(vault, config)
        assert made is not None
        app = make_app(config, vault, cast("TextProcesses", None))
        yield Place(vault, app, made.api_key)


# What was written


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "once"}])
def test_a_turn_over_a_large_state_is_added_and_told(place: Place, headers: dict[str, str]) -> None:
    session = place.session(initial_state={"a": LARGE})
    said = {"input": "a", "output": "b"}
    turn = place.ok("POST", f"{session}/turns", json=said, headers=headers)
    assert turn["state_before"] == turn["state_after"] == {"a": LARGE}
    assert place.ok("GET", session)["turn_count"] == turn["turn_number"] == 1
    assert place.ok("GET", f"{session}/turns/{turn['id']}")["state_after"] == {"a": LARGE}


def test_a_turn_that_changes_a_large_state_is_added_and_told(place: Place) -> None:
    session = place.session(initial_state={"a": LARGE})
    said = {"input": "a", "output": "b", "state_after": {"b": LARGE}}
    turn = place.ok("POST", f"{session}/turns", json=said)
    assert (turn["state_before"], turn["state_after"]) == ({"a": LARGE}, {"b": LARGE})


def test_metadata_beside_a_large_state_is_changed_and_told(place: Place) -> None:
    session = place.session(initial_state={"a": LARGE})
    told = place.ok("PATCH", session, json={"metadata": {"m": LARGE}})
    assert (told["metadata"], told["state"]) == ({"m": LARGE}, {"a": LARGE})
    assert place.ok("GET", session)["metadata"] == {"m": LARGE}


# Pages


def test_a_page_is_refused_for_what_it_holds_and_not_for_what_comes_behind(place: Place) -> None:
    for _ in range(3):
        place.session(initial_state={"a": LARGE})
    assert place("GET", "/v1/sessions?limit=2").status_code == 413
    found, path = list[str](), "/v1/sessions?limit=1"
    for has_more in (True, True, False):
        page = place.ok("GET", path)
        assert (len(page["data"]), page["has_more"]) == (1, has_more)
        assert page["data"][0]["state"] == {"a": LARGE}
        found.append(page["data"][0]["id"])
        path = f"/v1/sessions?limit=1&starting_after={found[-1]}"
    assert len(set(found)) == 3


def test_turns_and_versions_come_one_by_one_whatever_comes_behind(place: Place) -> None:
    session = place.session(initial_state={"a": LARGE})
    turns = [
        place.ok("POST", f"{session}/turns", json={"input": "a", "output": "b"})["id"]
        for _ in range(2)
    ]
    page = place.ok("GET", f"{session}/turns?limit=1")
    assert ([each["id"] for each in page["data"]], page["has_more"]) == (turns[1:], True)
    assert page["data"][0]["state_before"] == {"a": LARGE}
    page = place.ok("GET", f"{session}/turns?limit=1&starting_after={turns[1]}")
    assert ([each["id"] for each in page["data"]], page["has_more"]) == (turns[:1], False)
    assert place("GET", f"{session}/turns?limit=2").status_code == 413
    assert len(place.ok("GET", f"{session}/turns?include_state=false")["data"]) == 2
    place.ok("PATCH", f"{session}/state", json={"state": {"b": 1}})
    for path in ("state/history", "history"):
        page = place.ok("GET", f"{session}/{path}?limit=1")
        assert ([each["version"] for each in page["data"]], page["has_more"]) == ([0], True)
        page = place.ok("GET", f"{session}/{path}?limit=1&since_version=0")
        assert ([each["version"] for each in page["data"]], page["has_more"]) == ([1], False)
        assert place("GET", f"{session}/{path}?limit=2").status_code == 413


# What turns say, and what sessions are told to be


def add(place: Place, session: str, said: str) -> str:
    return place.ok("POST", f"{session}/turns", json={"input": said, "output": "b"})["id"]


def test_what_turns_say_is_in_the_bound_of_a_list(place: Place) -> None:
    session = place.session()
    made = [add(place, session, LARGE) for _ in range(3)]
    small = add(place, session, "small")
    for path in (f"{session}/turns", f"{session}/turns?include_state=false&order=asc"):
        answer = place("GET", path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")
    page = place.ok("GET", f"{session}/turns?limit=2")
    assert ([each["id"] for each in page["data"]], page["has_more"]) == ([small, made[2]], True)
    page = place.ok("GET", f"{session}/turns?limit=1&order=asc&starting_after={made[0]}")
    assert [each["id"] for each in page["data"]] == [made[1]]
    for number, status in ((4, 413), (3, 413), (2, 200), (0, 200)):
        wanted = {"turn_limit": number}
        assert place("POST", f"{session}/context", json=wanted).status_code == status


def test_only_turns_that_are_asked_for_count_in_whatever_branch_they_are(place: Place) -> None:
    session = place.session(initial_state={"n": 0})
    add(place, session, LARGE)
    add(place, session, "before")
    place.ok("PATCH", f"{session}/state", json={"state": {"n": 1}})
    add(place, session, LARGE)
    back = {"version": 1, "conversation": True}
    place.ok("POST", f"{session}/state/rollback", json=back)
    for number in range(3):
        add(place, session, f"after {number}")
    page = place.ok("GET", f"{session}/turns?limit=4")
    said = [each["input"]["content"] for each in page["data"]]
    assert said == ["after 2", "after 1", "after 0", "before"]
    assert len(place.ok("GET", f"{session}/turns")["data"]) == 5
    add(place, session, LARGE)
    assert place("GET", f"{session}/turns").status_code == 413
    assert len(place.ok("GET", f"{session}/turns?limit=5")["data"]) == 5


def test_the_way_back_over_turns_is_in_no_bound(place: Place) -> None:
    session = place.session(initial_state={"n": 0})
    for number in range(1, 7):
        said = {"input": "a" * (MOST // 5), "output": "b", "state_after": {"n": number}}
        place.ok("POST", f"{session}/turns", json=said)
    answer = place("POST", f"{session}/rollback", json={"turn_count": 7})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "version_not_found")
    told = place.ok("POST", f"{session}/rollback", json={"turn_count": 5})
    assert (told["restored_from_version"], told["state"]) == (1, {"n": 1})


def test_metadata_of_sessions_is_in_the_bound_of_a_list(place: Place) -> None:
    for _ in range(2):
        place.session(metadata={"m": LARGE})
    at = place.ok("POST", "/v1/snapshots")["snapshot_id"]
    for more in ("", "?include_state=false", f"?at={at}"):
        assert place("GET", f"/v1/sessions{more}").status_code == 413
    assert len(place.ok("GET", "/v1/sessions?limit=1")["data"]) == 1


def test_states_that_a_snapshot_shows_are_in_the_bound_of_a_list(place: Place) -> None:
    for _ in range(2):
        place.session(initial_state={"a": LARGE})
    at = place.ok("POST", "/v1/snapshots")["snapshot_id"]
    assert place("GET", f"/v1/sessions?at={at}").status_code == 413
    assert len(place.ok("GET", f"/v1/sessions?at={at}&include_state=false")["data"]) == 2
    page = place.ok("GET", f"/v1/sessions?at={at}&limit=1")
    assert (len(page["data"]), page["has_more"]) == (1, True)


def test_a_session_has_a_mebibyte_of_metadata_at_the_most(place: Place) -> None:
    most, much = {"m": "x" * ((1 << 20) - len('{"m":""}'))}, {"m": "x" * (1 << 20)}
    session = place.session(metadata=most)
    fork = f"{session}/fork"
    for method, path, more in (
        ("POST", "/v1/sessions", {"agent_id": "a", "metadata": much}),
        ("PATCH", session, {"metadata": {"n": 1}}),
        ("PATCH", session, {"metadata": much}),
        ("POST", fork, {"metadata": most}),
    ):
        answer = place(method, path, json=more)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")
    assert place.ok("PATCH", session, json={"ttl_seconds": 100})["metadata"] == most
    assert place.ok("PATCH", session, json={"metadata": {"m": 1}})["metadata"] == {"m": 1}
    assert place.ok("POST", fork, json={"metadata": {"n": 1}})["metadata"]["n"] == 1


# Our own clients


@pytest.mark.parametrize("limit", [None, 7, 30])
def test_a_client_asks_for_fewer_where_so_many_are_too_large(
    place: Place, limit: int | None
) -> None:
    session = place.session()
    made = [add(place, session, "x" * (MOST // 5) if number % 5 else "s") for number in range(20)]
    steps = paging(ListTurns(session.rpartition("/")[2], limit=limit)).collect()
    sizes, found, call = list[int](), None, next(steps)
    while found is None:
        query: Any = call.query
        sizes.append(query["limit"])
        said = place("GET", f"{session}/turns", params={**query, "include_state": "false"})
        try:
            if said.status_code == 413:
                call = steps.throw(TooLarge("the answer"))
            else:
                call = steps.send(call.read(said.content))
        except StopIteration as done:
            found = [turn.id for turn in done.value]
    assert found == made[::-1][:limit]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]
