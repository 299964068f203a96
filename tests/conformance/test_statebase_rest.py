"""What the `statebase` client has no method for, asked through its own `sb.client`.

Other clients of the same API send other spellings and need other fields; one server speaks to all
of them. What each of them cannot do without is named where it is checked.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from statebase import StateBase  # pyright: ignore[reportMissingTypeStubs] - it has none

from holdfast.testing.servers import Server


class Rest:
    """The HTTP client inside a `StateBase`, with paths below its base URL."""

    def __init__(self, sb: StateBase) -> None:
        self.sb = sb

    def __call__(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.sb.client.request(method, f"{self.sb.base_url}{path}", **options)

    def ok(self, method: str, path: str, *, status: int = 200, **options: Any) -> Any:
        answer = self(method, path, **options)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    def refused(self, method: str, path: str, **options: Any) -> tuple[int, str]:
        """Returns status and code of a refusal, whose body has the promised shape."""
        answer = self(method, path, **options)
        body = answer.json()
        problem = body["error"]
        assert {"code", "message", "type", "request_id"} <= problem.keys()
        assert {"param", "docs", "suggestion"} <= problem.keys(), "null is said, too"
        assert problem["request_id"] == answer.headers["X-Request-Id"]
        assert "Traceback" not in answer.text
        if answer.status_code == 422:
            assert all({"loc", "msg", "type"} <= each.keys() for each in body["detail"])
        assert not isinstance(body.get("detail"), str), "it breaks the generated client"
        return answer.status_code, problem["code"]


@pytest.fixture
def rest(server: Server, namespace: str) -> Iterator[Rest]:
    with StateBase(api_key=server.api_key, base_url=server.url) as sb:
        sb.client.headers["X-Namespace"] = namespace
        yield Rest(sb)


@pytest.fixture
def session(rest: Rest) -> str:
    """A session at version 3, each of which its state tells apart."""
    made = rest.sb.sessions.create(agent_id="a", user_id="ada", initial_state={"n": 0})
    for n in (1, 2, 3):
        rest.sb.sessions.update_state(made.id, {"n": n, f"since {n}": True}, reasoning=f"r{n}")
    return made.id


def at(session: str, rest: str = "") -> str:
    return f"/v1/sessions/{session}{rest}"


ROUTES = """
GET /health
GET /health/ready
GET /health/live
GET /
POST /v1/sessions
GET /v1/sessions
GET /v1/sessions/{id}
PATCH /v1/sessions/{id}
DELETE /v1/sessions/{id}
POST /v1/sessions/{id}/context
GET /v1/sessions/{id}/context
GET /v1/sessions/{id}/history
GET /v1/sessions/{id}/state
PATCH /v1/sessions/{id}/state
PUT /v1/sessions/{id}/state
POST /v1/sessions/{id}/state
GET /v1/sessions/{id}/state/history
POST /v1/sessions/{id}/state/rollback
POST /v1/sessions/{id}/rollback
POST /v1/sessions/{id}/fork
POST /v1/sessions/{id}/turns
GET /v1/sessions/{id}/turns
GET /v1/sessions/{id}/turns/{id}
POST /v1/memories
POST /v1/memory
POST /v1/sessions/{id}/memories
GET /v1/memories
GET /v1/memory
GET /v1/memories/search
POST /v1/memory/search
POST /v1/sessions/{id}/memories/search
GET /v1/memories/{id}
GET /v1/memory/{id}
DELETE /v1/memories/{id}
DELETE /v1/memory/{id}
PUT /v1/memories/{id}
PATCH /v1/memory/{id}
GET /v1/traces
GET /v1/traces/{id}
GET /v1/traces/sessions/{id}/traces
GET /v1/sessions/{id}/traces
POST /v1/entities
GET /v1/entities
GET /v1/entities/{id}
PUT /v1/entities/{id}
DELETE /v1/entities/{id}
GET /v1/dashboard/stats
GET /v1/dashboard/keys
POST /v1/dashboard/keys
DELETE /v1/dashboard/keys/{id}
"""
"""What clients of this API are known to ask for, by one name or another."""


def test_the_description_names_every_route_that_clients_are_known_to_ask_for(rest: Rest) -> None:
    paths = rest.ok("GET", "/openapi.json")["paths"]
    described = {
        f"{method.upper()} {re.sub(r'{[^}]*}', '{id}', path)}"
        for path, methods in paths.items()
        for method in methods
    }
    assert set(ROUTES.split("\n")) - described == {""}


# What keys come with, and null


def test_nulls_are_the_same_as_nothing_and_answers_name_every_key(rest: Rest) -> None:
    body = {"agent_id": "a", "user_id": None, "metadata": None, "initial_state": None}
    made = rest.ok("POST", "/v1/sessions", status=201, json={**body, "ttl_seconds": None})
    assert made["user_id"] is None
    assert {"metadata", "state", "ttl_expires_at", "version"} <= made.keys()
    turn = {"input": "a", "output": "b", "metadata": None, "reasoning": None, "state_after": None}
    added = rest.ok("POST", at(made["id"], "/turns"), status=201, json=turn)
    assert added["reasoning"] is None
    assert isinstance(added["state_before"], dict), "the first clients need objects"
    assert isinstance(added["state_after"], dict)
    memory = {"content": "x", "tags": None, "metadata": None, "embed": None, "session_id": None}
    kept = rest.ok("POST", "/v1/memories", status=201, json=memory)
    assert {"tags", "metadata", "embedding_id", "vector_available"} <= kept.keys()
    assert kept["type"] == kept["memory_type"] == "general"
    assert kept["updated_at"] == kept["created_at"]


def test_a_bearer_token_opens_the_same_as_an_api_key_header(rest: Rest, server: Server) -> None:
    found = httpx.get(
        f"{server.url}/v1/sessions", headers={"Authorization": f"Bearer {server.api_key}"}
    )
    assert found.status_code == 200
    assert httpx.get(f"{server.url}/v1/sessions").status_code == 401
    admin = {"X-API-Key": server.admin_key}
    assert rest.refused("GET", "/v1/sessions", headers=admin) == (403, "permission_denied")


def test_an_empty_body_of_json_is_no_obstacle(rest: Rest, session: str) -> None:
    assert rest.ok("GET", at(session))["id"] == session
    assert rest.ok("POST", at(session, "/context"), content=b"")["state"]["n"] == 3
    assert rest.ok("POST", at(session, "/fork"), status=201, content=b"")["state"]["n"] == 3
    assert rest("DELETE", at(session)).content == b""


def test_no_route_redirects(rest: Rest, session: str) -> None:
    answer = rest("GET", f"{at(session)}/", follow_redirects=False)
    assert answer.status_code == 200
    assert answer.json()["id"] == session


def test_every_answer_says_how_long_it_took_and_what_may_still_be_asked(rest: Rest) -> None:
    for path in ("/v1/snapshots", "/v1/files", "/health"):
        assert "X-StateBase-Latency" not in rest("GET", path).headers, "no client of theirs asks"
    answer = rest("GET", "/v1/sessions")
    assert float(answer.headers["X-StateBase-Latency"]) > 0
    assert int(answer.headers["X-RateLimit-Limit"]) > 0
    assert int(answer.headers["X-RateLimit-Remaining"]) > 0
    assert int(answer.headers["X-RateLimit-Reset"]) > 1_700_000_000


# Sessions


def test_metadata_is_merged_and_a_term_begins_anew_without_a_version(
    rest: Rest, session: str
) -> None:
    rest.ok("PATCH", at(session), json={"metadata": {"a": 1, "b": 2}})
    before = rest.ok("GET", at(session))
    patched = rest.ok("PATCH", at(session), json={"metadata": {"b": 3}, "ttl_seconds": 2_592_000})
    assert {
        "object",
        "id",
        "agent_id",
        "updated_at",
        "metadata",
        "ttl_expires_at",
    } <= patched.keys()
    assert patched["metadata"] == {"a": 1, "b": 3}
    assert patched["ttl_expires_at"] > before["ttl_expires_at"]
    assert patched["version"] == before["version"] == 3


@pytest.mark.parametrize("ttl", [0, -1, 2_592_001, 10**30])
def test_a_term_of_no_time_or_too_much_does_not_fit(rest: Rest, session: str, ttl: int) -> None:
    made = {"agent_id": "a", "ttl_seconds": ttl}
    assert rest.refused("POST", "/v1/sessions", json=made) == (422, "invalid_request")
    assert rest.refused("PATCH", at(session), json={"ttl_seconds": ttl})[0] == 422


def test_sessions_are_found_by_user_metadata_and_time(rest: Rest, session: str) -> None:
    other = rest.sb.sessions.create(agent_id="a", user_id="bob", metadata={"tier": "pro", "n": 1})

    def ids(**filters: str) -> list[str]:
        return [each["id"] for each in rest.ok("GET", "/v1/sessions", params=filters)["data"]]

    assert ids(user_id="ada") == [session]
    assert ids(metadata='{"tier":"pro"}') == [other.id]
    assert ids(metadata='{"tier":"free"}') == []
    assert ids(created_before=other.created_at) == [session]
    for wrong in ("[1]", "{", "[" * 5_000, "\xff"):
        refused = rest.refused("GET", "/v1/sessions", params={"metadata": wrong})
        assert refused == (422, "invalid_request")
    endless = rest.refused("GET", "/v1/sessions", params={"metadata": "[" * 20_000})
    assert endless == (414, "uri_too_long")
    assert rest.refused("GET", "/v1/sessions?created_after=soon")[0] == 400
    every = rest.ok("GET", "/v1/sessions")
    assert rest.ok("GET", "/v1/sessions?created_after=&created_before=") == every


WRONG: dict[tuple[str, str], tuple[object, list[str]]] = {
    ("GET", "/v1/sessions?limit=abc"): (None, ["query", "limit"]),
    ("GET", "/v1/sessions?limit=0"): (None, ["query", "limit"]),
    ("GET", "/v1/sessions?metadata=x"): (None, ["query", "metadata"]),
    ("GET", "/v1/sessions?created_after=soon"): (None, ["query", "created_after"]),
    ("GET", "/v1/memories?query=x&threshold=high"): (None, ["query", "threshold"]),
    ("GET", "/v1/memories?query=x&threshold=2"): (None, ["query"]),
    ("GET", "/v1/memories/search"): (None, ["query", "query"]),
    ("POST", "/v1/sessions"): ({}, ["body", "agent_id"]),
    ("PATCH", "/v1/sessions/{id}"): ({"ttl_seconds": "soon"}, ["body", "ttl_seconds"]),
    ("POST", "/v1/sessions/{id}/rollback"): ({"version": "x"}, ["body", "version"]),
    ("POST", "/v1/sessions/{id}/turns"): ({"input": "x"}, ["body", "output"]),
    ("PATCH", "/v1/sessions/{id}/state"): ([], ["body"]),
    ("POST", "/v1/memories"): ({"content": "x", "metadata": 1}, ["body", "metadata"]),
}
"""Requests that do not fit, and where that is said to be."""


@pytest.mark.parametrize(("method", "path"), WRONG)
def test_what_does_not_fit_is_named_with_its_place(
    rest: Rest, session: str, method: str, path: str
) -> None:
    body, place = WRONG[method, path]
    answer = rest(method, path.replace("{id}", session), json=body).json()
    assert [each["loc"] for each in answer["detail"]] == [place], answer
    assert answer["error"]["param"] == (".".join(place[1:]) or None)


def test_a_header_that_does_not_fit_is_one(rest: Rest, session: str) -> None:
    headers = {"If-Match": "x"}
    answer = rest("PUT", at(session, "/state"), json={"state": {}}, headers=headers).json()
    assert answer["detail"][0]["loc"] == ["header", "If-Match"]


def test_an_id_of_ones_own_can_be_taken_once(rest: Rest) -> None:
    wanted = {"agent_id": "a", "session_id": "langgraph-prod"}
    assert rest.ok("POST", "/v1/sessions", status=201, json=wanted)["id"] == "langgraph-prod"
    assert rest.refused("POST", "/v1/sessions", json=wanted) == (409, "session_exists")
    bad = {"agent_id": "a", "session_id": "../etc"}
    assert rest.refused("POST", "/v1/sessions", json=bad)[0] == 400


def test_more_than_the_most_is_the_most_and_less_than_one_does_not_fit(
    rest: Rest, session: str
) -> None:
    del session
    for path in ("/v1/sessions", "/v1/memories", "/v1/traces", "/v1/entities"):
        assert rest.ok("GET", f"{path}?limit=1000000000000000000000")["has_more"] is False
        for limit in ("0", "-1"):
            refused = rest.refused("GET", f"{path}?limit={limit}")
            assert refused == (422, "invalid_request")
        assert rest.refused("GET", f"{path}?limit=many")[0] == 422
        cursor = rest.refused("GET", f"{path}?starting_after=nothing")
        assert cursor == (400, "invalid_request")
        assert rest.ok("GET", f"{path}?starting_after=") == rest.ok("GET", path)


def test_a_fork_says_where_it_comes_from_and_takes_turns_along_if_asked(
    rest: Rest, session: str
) -> None:
    turn = rest.sb.sessions.add_turn(session, "hello", "hi")
    rest.sb.sessions.update_state(session, {"n": 4})
    wanted = {"version": None, "include_turns": True, "new_agent_id": "b", "metadata": {"why": "x"}}
    forked = rest.ok("POST", at(session, "/fork"), status=201, json=wanted)
    assert forked["new_session_id"] == forked["id"] != session
    assert forked["metadata"] == {"why": "x", "forked_from": session, "forked_version": 4}
    assert (forked["agent_id"], forked["turn_count"], forked["version"]) == ("b", 1, 0)
    said = rest.sb.sessions.list_turns(forked["id"])
    assert [each.id for each in said] == [turn.id]
    family = rest.ok("GET", at(session, "/lineage"))
    assert [each["session_id"] for each in family["forks"]] == [forked["id"]]
    assert rest.ok("GET", at(forked["id"], "/lineage"))["ancestors"] == [session]


def test_a_fork_can_be_taken_at_a_turn(rest: Rest, session: str) -> None:
    turn = rest.sb.sessions.add_turn(session, "hello", "hi")
    rest.sb.sessions.update_state(session, {"n": 4})
    forked = rest.ok("POST", at(session, "/fork"), status=201, json={"at_turn_id": turn.id})
    assert forked["metadata"]["forked_version"] == 3
    both = {"at_turn_id": turn.id, "version": 1}
    assert rest.refused("POST", at(session, "/fork"), json=both) == (422, "invalid_request")
    unknown = {"at_turn_id": "turn_nosuchturn"}
    assert rest.refused("POST", at(session, "/fork"), json=unknown) == (404, "turn_not_found")


# State


def test_put_and_post_replace_where_patch_merges(rest: Rest, session: str) -> None:
    for method in ("PUT", "POST"):
        made = rest.ok(method, at(session, "/state"), json={"state": {"only": method}})
        assert made["state"] == made["data"] == {"only": method}
    merged = rest.ok("PATCH", at(session, "/state"), json={"updates": {"more": 1}})
    assert merged["state"] == {"only": "POST", "more": 1}
    assert merged["version"] == 6
    assert {"session_id", "created_at", "updated_at"} <= merged.keys()


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"",
        b"null",
        b"[]",
        b'{"state": [1]}',
        b'{"state": "text"}',
        b'{"state": {}, "updates": {}}',
        b'{"state": {"x": NaN}}',
        b'{"state": {"x": Infinity}}',
        b'{"state": {"x": 1e999}}',
        b'{"state": {"x": "\\ud800"}}',
        b'{"state": {"x": 1}',
        b'{"state": {"x": "\xff"}}',
    ],
)
def test_a_state_that_is_none_is_refused_and_nothing_is_written(
    rest: Rest, session: str, body: bytes
) -> None:
    for method in ("PATCH", "PUT", "POST"):
        refused = rest.refused(method, at(session, "/state"), content=body)
        assert refused == (422, "invalid_request")
    assert rest.ok("GET", at(session, "/state"))["version"] == 3


def test_a_stale_writer_is_told_so(rest: Rest, session: str) -> None:
    state = at(session, "/state")
    stale = {"state": {"n": 9}, "expected_version": 2}
    assert rest.refused("PATCH", state, json=stale) == (409, "state_moved")
    old = {"If-Match": '"2"'}
    assert rest.refused("PUT", state, json={"state": {}}, headers=old) == (409, "state_moved")
    rollback = at(session, "/state/rollback")
    assert rest.refused("POST", rollback, json={"version": 0}, headers=old)[0] == 409
    assert (
        rest.ok("PATCH", state, json={"state": {}}, headers={"If-Match": 'W/"3"'})["version"] == 4
    )
    for tag in (b"four", b"\xb2", b"9" * 5000):
        refused = rest.refused("PATCH", state, json={"state": {}}, headers={b"If-Match": tag})
        assert refused == (422, "invalid_request")
    assert rest.ok("PATCH", state, json={"state": {}}, headers={"If-Match": "*"})["version"] == 5


def test_writers_at_once_get_versions_one_after_the_other(rest: Rest, session: str) -> None:
    def write(n: int) -> int:
        return rest.ok("PATCH", at(session, "/state"), json={"state": {f"k{n}": n}})["version"]

    with ThreadPoolExecutor(8) as pool:
        versions = sorted(pool.map(write, range(24)))
    assert versions == list(range(4, 28))
    assert len(rest.ok("GET", at(session, "/state"))["state"]) == 4 + 24


def test_of_writers_who_expect_the_same_version_one_wins(rest: Rest, session: str) -> None:
    def write(n: int) -> int:
        body = {"state": {"winner": n}, "expected_version": 3}
        return rest("PATCH", at(session, "/state"), json=body).status_code

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(write, range(8))) == [200] + [409] * 7


def test_the_history_is_told_oldest_first_with_reasons_and_traces(rest: Rest, session: str) -> None:
    found = rest.ok("GET", at(session, "/state/history"))
    assert found["current_version"] == 3
    assert [each["version"] for each in found["data"]] == [0, 1, 2, 3]
    assert [each["state"]["n"] for each in found["data"]] == [0, 1, 2, 3]
    assert [each["reasoning"] for each in found["data"]] == ["initial state", "r1", "r2", "r3"]
    assert all({"created_at", "updated_by", "trace_id"} <= each.keys() for each in found["data"])
    later = rest.ok("GET", at(session, "/state/history?since_version=1&limit=1"))
    assert ([each["version"] for each in later["data"]], later["has_more"]) == ([2], True)
    for far, count in ((-(10**30), 4), (10**30, 0)):
        some = rest.ok("GET", at(session, f"/state/history?since_version={far}"))
        assert len(some["data"]) == count
    bare = rest.ok("GET", at(session, "/state/history?include_state=false"))
    assert {each["state"] for each in bare["data"]} == {None}


def test_the_whole_history_has_versions_and_traces(rest: Rest, session: str) -> None:
    found = rest.ok("GET", at(session, "/history"))
    assert found["versions"] == found["data"]
    assert len(found["data"]) == 4
    assert [each["action"] for each in found["traces"]] == ["state.updated"] * 3 + [
        "session.created"
    ]
    bare = rest.ok("GET", at(session, "/history?include_traces=false&include_state=false&limit=2"))
    assert (bare["traces"], len(bare["data"]), bare["has_more"]) == ([], 2, True)


def test_an_older_state_can_be_read(rest: Rest, session: str) -> None:
    assert rest.ok("GET", at(session, "/state?version=1"))["state"]["n"] == 1
    assert rest.ok("GET", at(session, "/state?version=-1"))["state"]["n"] == 2
    missing = rest.refused("GET", at(session, "/state?version=9"))
    assert missing == (404, "version_not_found")


def test_two_versions_can_be_compared(rest: Rest, session: str) -> None:
    found = rest.ok("GET", at(session, "/diff?from=0&to=1"))
    assert found["patch"] == [
        {"op": "replace", "path": "/n", "value": 1},
        {"op": "add", "path": "/since 1", "value": True},
    ]
    assert "n" in found["text"]
    latest = rest.ok("GET", at(session, "/diff?from=-1"))
    assert (latest["from_version"], latest["to_version"]) == (2, 3)
    assert rest.refused("GET", at(session, "/diff?from=0&to=9")) == (404, "version_not_found")
    assert rest.refused("GET", at(session, "/diff")) == (422, "invalid_request")


# Rollback


@pytest.mark.parametrize("path", ["/state/rollback", "/rollback"])
def test_both_routes_of_a_rollback_answer_all_clients(rest: Rest, session: str, path: str) -> None:
    back = rest.ok("POST", at(session, path), json={"version": 1, "reason": "it went wrong"})
    assert {"session_id", "version", "state", "updated_at"} <= back.keys(), "what the SDK parses"
    assert back["success"] is True
    assert (back["new_version"], back["version"], back["restored_from_version"]) == (4, 4, 1)
    assert back["state"] == {"n": 1, "since 1": True}
    trace = rest.ok("GET", f"/v1/traces/{back['trace_id']}")
    assert trace["action"] == "state.rolled_back"
    why = {"reason": "it went wrong", "reasoning": "it went wrong"}  # One page reads the other.
    assert trace["details"] == {"from_version": 3, "to_version": 1, **why}
    newest = rest.ok("GET", at(session, "/state/history"))["data"][-1]
    assert (newest["kind"], newest["restored_from_version"]) == ("rollback", 1)


def test_whoever_cannot_say_why_in_the_body_says_it_in_a_header(rest: Rest, session: str) -> None:
    rest.sb.client.headers["X-Reason"] = "the guardrail fired"
    rest.sb.sessions.rollback(session, version=0)
    rest.sb.sessions.update_state(session, {"n": 5})
    found = rest.ok("GET", at(session, "/state/history?since_version=3"))["data"]
    assert [each["reasoning"] for each in found] == ["the guardrail fired"] * 2


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_why_in_a_header_is_in_any_language(rest: Rest, session: str, encoding: str) -> None:
    why = {"X-Reason": "weil es für é steht".encode(encoding)}
    rest.ok("POST", at(session, "/rollback"), json={"version": 0}, headers=why)
    rest.ok("PATCH", at(session, "/state"), json={"state": {"n": 5}}, headers=why)
    found = rest.ok("GET", at(session, "/state/history?since_version=3"))["data"]
    assert [each["reasoning"] for each in found] == ["weil es für é steht"] * 2


def test_a_rollback_can_count_versions_or_turns_or_name_a_turn(rest: Rest, session: str) -> None:
    def back(**where: object) -> dict[str, Any]:
        return rest.ok("POST", at(session, "/rollback"), json=where)

    said = {"input": "q", "output": "a", "state_after": {"n": 4}}
    first = rest.ok("POST", at(session, "/turns"), status=201, json=said)
    assert first["version_after"] == 4
    rest.ok("POST", at(session, "/turns"), status=201, json={**said, "state_after": {"n": 5}})
    one_back = back(count=1)
    assert (one_back["state"], one_back["restored_from_version"]) == ({"n": 4}, 4)
    assert back(turn_id=first["id"])["restored_from_version"] == 4
    assert back(target_turn_id=first["id"])["state"] == {"n": 4}
    assert back(turn_count=2)["restored_from_version"] == 3
    for wrong in ({}, {"version": 1, "count": 1}, {"count": 0}, {"turn_count": -1}):
        refused = rest.refused("POST", at(session, "/rollback"), json=wrong)
        assert refused == (422, "invalid_request")
    beyond = rest.refused("POST", at(session, "/rollback"), json={"turn_count": 3})
    assert beyond == (404, "version_not_found")


def test_a_turn_with_states_of_its_own_leads_to_the_version_that_it_tells_of(
    rest: Rest, session: str
) -> None:
    own = {"input": "q", "output": "a", "state_before": {"z": 1}, "state_after": {"z": 1}}
    turn = rest.ok("POST", at(session, "/turns"), status=201, json=own)
    assert (turn["version_after"], turn["state_after"]) == (3, {"z": 1})
    rest.sb.sessions.update_state(session, {"n": 4})
    forked = rest.ok("POST", at(session, "/fork"), status=201, json={"at_turn_id": turn["id"]})
    assert (forked["forked_version"], forked["state"]["n"]) == (3, 3)
    for way in ({"turn_id": turn["id"]}, {"turn_count": 1}):
        back = rest.ok("POST", at(session, "/rollback"), json=way)
        assert (back["restored_from_version"], back["state"]["n"]) == (3, 3)


def test_a_turn_of_another_session_is_no_place_to_go_back_to(rest: Rest, session: str) -> None:
    turn = rest.sb.sessions.add_turn(session, "q", "a")
    rest.sb.sessions.update_state(session, {"n": 4})
    forked = rest.ok("POST", at(session, "/fork"), status=201, json={"include_turns": True})["id"]
    for n in range(4):
        rest.sb.sessions.update_state(forked, {"other": n})
    refused = rest.refused("POST", at(forked, "/rollback"), json={"turn_id": turn.id})
    assert refused == (404, "version_not_found"), "3 is a number of the origin's"
    assert rest.sb.sessions.get_state(forked).version == 4


def test_the_conversation_goes_back_with_the_state_if_asked(rest: Rest, session: str) -> None:
    rest.sb.sessions.add_turn(session, "kept", "yes")
    rest.sb.sessions.update_state(session, {"n": 4})
    rest.sb.sessions.add_turn(session, "gone", "yes")
    rest.ok("POST", at(session, "/rollback"), json={"version": 4})
    assert rest.sb.sessions.get(session).turn_count == 2, "by itself the state alone"
    rest.ok("POST", at(session, "/rollback"), json={"version": 4, "conversation": True})
    said = rest.sb.sessions.list_turns(session)
    assert [turn.input.content for turn in said] == ["kept"]


# Turns


def test_a_turn_whose_state_after_differs_is_a_checkpoint(rest: Rest, session: str) -> None:
    turns = at(session, "/turns")
    after = {"input": "Book it", "output": "Done", "reasoning": "why", "state_after": {"ok": True}}
    made = rest.ok("POST", turns, status=201, json=after)
    assert (made["version_before"], made["version_after"]) == (3, 4)
    assert (made["state_before"]["n"], made["state_after"]) == (3, {"ok": True})
    again = rest.ok("POST", turns, status=201, json=after)
    assert again["version_after"] == 4, "it differs from nothing now"
    same = {**after, "state_before": {"x": 1}, "state_after": {"x": 1}}
    assert rest.ok("POST", turns, status=201, json=same)["version_after"] == 4
    newest = rest.ok("GET", at(session, "/state/history"))["data"][-1]
    assert (newest["kind"], newest["reasoning"]) == ("turn", "why")
    wrong = {**after, "state_after": [1]}
    assert rest.refused("POST", turns, json=wrong) == (422, "invalid_request")
    assert rest.refused("POST", turns, json={"input": "alone"}) == (422, "invalid_request")


def test_turns_have_previews_and_can_be_read_either_way(rest: Rest, session: str) -> None:
    for n in range(3):
        said = {"input": f"q{n} " * 100, "output": f"a{n}"}
        rest.ok("POST", at(session, "/turns"), status=201, json=said)
    down = rest.ok("GET", at(session, "/turns"))
    up = rest.ok("GET", at(session, "/turns?order=asc&limit=2"))
    assert [each["turn_number"] for each in down["data"]] == [3, 2, 1]
    assert [each["turn_number"] for each in up["data"]] == [1, 2]
    assert (down["has_more"], up["has_more"]) == (False, True)
    more = at(session, f"/turns?order=asc&starting_after={up['data'][-1]['id']}")
    assert [each["turn_number"] for each in rest.ok("GET", more)["data"]] == [3]
    assert up["data"][0]["input_preview"].startswith("q0 q0")
    assert len(up["data"][0]["input_preview"]) < len(up["data"][0]["input"]["content"])
    bare = rest.ok("GET", at(session, "/turns?include_state=false"))
    assert {each["state_after"] for each in bare["data"]} == {None}
    one = rest.ok("GET", at(session, f"/turns/{up['data'][0]['id']}"))
    assert one == up["data"][0]
    unknown = rest.refused("GET", at(session, "/turns/turn_nosuchturn"))
    assert unknown == (404, "turn_not_found")
    assert rest.refused("GET", at(session, "/turns?order=sideways"))[0] == 422
    assert rest.refused("GET", at(session, "/turns?starting_after=x")) == (400, "invalid_request")


def test_a_turn_of_another_session_is_not_found(rest: Rest, session: str) -> None:
    other = rest.sb.sessions.create(agent_id="a").id
    turn = rest.sb.sessions.add_turn(other, "q", "a")
    assert rest.refused("GET", at(session, f"/turns/{turn.id}")) == (404, "turn_not_found")


# Context


def test_a_context_has_the_forms_that_other_clients_read(rest: Rest, session: str) -> None:
    for n in (1, 2):
        rest.sb.sessions.add_turn(session, f"q{n}", f"a{n}")
    answer = rest("POST", at(session, "/context"), json={})
    found = answer.json()
    assert (found["state"]["n"], found["version"]) == (3, 3)
    assert found["turns"] == found["recent_turns"]
    assert found["messages"] == [
        {"role": "user", "content": "q1"},
        {"role": "assistant", "content": "a1"},
        {"role": "user", "content": "q2"},
        {"role": "assistant", "content": "a2"},
    ]
    assert isinstance(found["drift_warning"], bool)
    assert isinstance(found["average_relevance"], float)
    assert float(answer.headers["X-StateBase-Latency"]) > 0
    up = rest.ok("POST", at(session, "/context"), json={"turn_order": "asc"})
    assert [each["turn_number"] for each in up["recent_turns"]] == [1, 2]


def test_a_context_can_be_read_by_get(rest: Rest, session: str) -> None:
    rest.sb.memory.add("The user prefers an aisle seat", session_id=session)
    for n in (1, 2, 3):
        rest.sb.sessions.add_turn(session, f"q{n}", f"a{n}")
    whole = rest.ok("GET", at(session, "/context?query=aisle+seat&max_turns=2"))
    assert (len(whole["memories"]), len(whole["recent_turns"])) == (1, 2)
    bare = rest.ok("GET", at(session, "/context?include_memories=false&include_turns=false"))
    assert (bare["memories"], bare["recent_turns"]) == ([], [])
    assert rest.refused("POST", at(session, "/context"), json={"turn_limit": -1})[0] == 422
    huge = {"turn_limit": 10**9, "memory_limit": 10**9}
    assert len(rest.ok("POST", at(session, "/context"), json=huge)["recent_turns"]) == 3


# Memories


@pytest.mark.parametrize("path", ["/v1/memories", "/v1/memory"])
def test_a_memory_is_kept_changed_and_forgotten_by_either_route(rest: Rest, path: str) -> None:
    wanted = {"content": "Cats purr", "memory_type": "observation", "tags": ["cats"]}
    made = rest.ok("POST", path, status=201, json={**wanted, "metadata": {"a": 1, "b": 2}})
    assert (made["type"], made["version"]) == ("observation", 1)
    one = f"{path}/{made['id']}"
    assert rest.ok("GET", one) == made
    method = "PUT" if path == "/v1/memories" else "PATCH"
    changed = rest.ok(method, one, json={"content": "Dogs bark", "metadata": {"b": 3}})
    assert {"object", "id", "updated_at", "content", "type", "tags", "version"} <= changed.keys()
    assert (changed["content"], changed["tags"], changed["version"]) == ("Dogs bark", ["cats"], 2)
    assert changed["metadata"] == {"a": 1, "b": 3}
    found = rest.ok("GET", f"{path}?query=dogs+bark")["data"]
    assert [each["id"] for each in found] == [made["id"]]
    assert rest.ok("GET", f"{path}?query=purr")["data"] == []
    assert rest.ok(method, one, json={"tags": []})["tags"] == []
    assert rest("DELETE", one).status_code == 204
    for again in ("GET", "DELETE"):
        assert rest.refused(again, one) == (404, "memory_not_found")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_tags_of_a_memory_are_a_list_or_text_with_commas(
    rest: Rest, session: str, method: str
) -> None:
    for path in ("/v1/memories", at(session, "/memories")):
        said = {"content": "Cats purr", "tags": "a, b,,c"}
        made = rest.ok("POST", path, status=201, json=said)
        assert made["tags"] == ["a", "b", "c"]
    one = f"/v1/memories/{made['id']}"
    assert rest.ok(method, one, json={"content": "Dogs bark"})["tags"] == ["a", "b", "c"]
    assert rest.ok(method, one, json={"tags": "d,e"})["tags"] == ["d", "e"]
    assert rest.ok(method, one, json={"tags": ["a,b"]})["tags"] == ["a,b"]
    assert rest.ok(method, one, json={"tags": ""})["tags"] == []
    assert rest.refused(method, one, json={"tags": 1})[0] == 422


def test_a_session_has_memories_below_its_own_route(rest: Rest, session: str) -> None:
    path = at(session, "/memories")
    made = rest.ok("POST", path, status=201, json={"content": "Ada likes windows"})
    assert (made["session_id"], made["user_id"]) == (session, "ada")
    found = rest.ok("POST", f"{path}/search", json={"query": "windows"})
    assert ([each["id"] for each in found["data"]], found["query"]) == ([made["id"]], "windows")
    missing = rest.refused("POST", at("sess_nosuch", "/memories"), json={"content": "x"})
    assert missing == (404, "session_not_found")


def test_every_spelling_of_a_search_finds_the_same(rest: Rest, session: str) -> None:
    for kind, tags in (("fact", ["a"]), ("event", ["b"]), ("policy", [])):
        rest.sb.memory.add(f"cats like {kind} boxes", type=kind, tags=tags, session_id=session)

    def kinds(method: str, path: str, **options: Any) -> set[str]:
        found = rest.ok(method, path, **options)
        assert found["object"] == "list"
        for each in found["data"]:
            assert {"id", "session_id", "content", "type", "score", "tags"} <= each.keys()
        return {each["type"] for each in found["data"]}

    base = {"query": "cats boxes", "threshold": 0.1}
    both = {"fact", "event"}
    for path in ("/v1/memories", "/v1/memory", "/v1/memories/search"):
        assert kinds("GET", path, params={**base, "types": "fact,event"}) == both
        assert kinds("GET", path, params={**base, "types": ["fact", "event"]}) == both
        assert kinds("GET", path, params={**base, "tags": "a,b"}) == both
        assert kinds("GET", path, params={**base, "type": "fact"}) == {"fact"}
        assert len(kinds("GET", path, params={**base, "top_k": 1})) == 1
    for path in ("/v1/memory/search", "/v1/memories/search", at(session, "/memories/search")):
        assert kinds("POST", path, json={**base, "types": ["fact", "event"]}) == both
        assert kinds("POST", path, json={**base, "types": "fact, event"}) == both
        assert kinds("POST", path, json={**base, "tags": ["a", "b"]}) == both
        assert kinds("POST", path, json={**base, "type": "event", "tags": None}) == {"event"}
        assert len(kinds("POST", path, json={**base, "top_k": 1})) == 1
        assert len(kinds("POST", path, json={**base, "limit": 2})) == 2


def test_without_a_question_memories_are_listed_newest_first(rest: Rest, session: str) -> None:
    made = [rest.sb.memory.add(f"number {n}", session_id=session).id for n in range(4)]
    page = rest.ok("GET", "/v1/memory?limit=3")
    assert [each["id"] for each in page["data"]] == made[:0:-1]
    assert page["has_more"] is True
    rest_of = rest.ok("GET", f"/v1/memory?starting_after={page['data'][-1]['id']}")
    assert ([each["id"] for each in rest_of["data"]], rest_of["has_more"]) == ([made[0]], False)
    assert len(rest.ok("GET", f"/v1/memories?session_id={session}&scope=session")["data"]) == 4
    assert rest.ok("GET", "/v1/memories?user_id=bob")["data"] == []


def test_what_is_not_embedded_is_listed_and_never_found(rest: Rest) -> None:
    made = rest.ok("POST", "/v1/memories", status=201, json={"content": "shy", "embed": False})
    assert made["vector_available"] is False
    assert rest.ok("GET", "/v1/memories?query=shy&threshold=0")["data"] == []
    assert [each["id"] for each in rest.ok("GET", "/v1/memories")["data"]] == [made["id"]]


def test_memories_of_a_snapshot_are_listed_and_not_searched(rest: Rest) -> None:
    made = rest.ok("POST", "/v1/memories", status=201, json={"content": "tea"})
    taken = rest.ok("POST", "/v1/snapshots", status=201, json={})["snapshot_id"]
    rest.ok("PATCH", f"/v1/memories/{made['id']}", json={"content": "coffee"})
    assert rest.ok("GET", f"/v1/memories/{made['id']}?at={taken}")["content"] == "tea"
    for path in ("/v1/memories", "/v1/memory"):
        (found,) = rest.ok("GET", f"{path}?at={taken}")["data"]
        assert (found["object"], found["content"]) == ("memory", "tea")
        assert rest.refused("GET", f"{path}?at={taken}&query=tea")[0] == 400


def test_memories_have_bounds(rest: Rest) -> None:
    long = {"content": "x" * 10_001}
    assert rest.refused("POST", "/v1/memories", json=long) == (413, "content_too_large")
    fits = rest.ok("POST", "/v1/memories", status=201, json={"content": "ü" * 10_000})
    one = f"/v1/memories/{fits['id']}"
    assert rest.refused("PATCH", one, json=long) == (413, "content_too_large")
    assert rest.refused("POST", "/v1/memories", json={"content": " "})[0] == 400
    assert rest.refused("POST", "/v1/memories", json={}) == (422, "invalid_request")
    for threshold in ("nan", "2", "-1"):
        assert rest.refused("GET", f"/v1/memories?query=x&threshold={threshold}")[0] == 400
    assert rest.refused("GET", "/v1/memories?scope=everything")[0] == 400
    unknown = rest.refused("GET", "/v1/memories?session_id=sess_nosuch")
    assert unknown == (404, "session_not_found")


def test_deleting_a_session_takes_its_memories_along(rest: Rest, session: str) -> None:
    made = rest.sb.memory.add("Ada likes windows", session_id=session)
    rest.sb.sessions.delete(session)
    assert rest.refused("GET", f"/v1/memories/{made.id}") == (404, "memory_not_found")


# Traces


def test_every_change_leaves_a_trace(rest: Rest, session: str) -> None:
    sb = rest.sb
    sb.sessions.add_turn(session, "q", "a")
    memory = sb.memory.add("x", session_id=session)
    rest.ok("PATCH", f"/v1/memories/{memory.id}", json={"content": "y"})
    rest("DELETE", f"/v1/memories/{memory.id}")
    rest.ok("PATCH", at(session), json={"metadata": {"a": 1}})
    sb.sessions.rollback(session, version=0)
    forked = sb.sessions.fork(session)
    sb.sessions.delete(session)
    found = rest.ok("GET", "/v1/traces?limit=1000")["data"]
    assert [each["action"] for each in found] == [
        "session.deleted",
        "session.forked",
        "state.rolled_back",
        "session.updated",
        "memory.deleted",
        "memory.updated",
        "memory.created",
        "turn.added",
        *["state.updated"] * 3,
        "session.created",
    ]
    for each in found:
        assert {"resource_type", "resource_id", "actor", "timestamp"} <= each.keys()
        assert {"actor_id", "details", "context", "ip_address", "metadata"} <= each.keys()
        assert each["context"].keys() == {"request_id", "api_key_id"}
        assert each["actor"] == each["context"]["api_key_id"]
    assert found[1]["session_id"] == forked.id
    one = rest.ok("GET", f"/v1/traces/{found[0]['id']}")
    assert one == found[0]
    assert rest.refused("GET", "/v1/traces/trace_0") == (404, "trace_not_found")


@pytest.mark.parametrize("action", ["state.updated", "state.update", "state_update"])
def test_an_action_is_found_by_each_of_its_spellings(rest: Rest, session: str, action: str) -> None:
    for path in ("/v1/traces", f"/v1/traces/sessions/{session}/traces", at(session, "/traces")):
        found = rest.ok("GET", path, params={"action": action, "session_id": session})
        assert [each["action"] for each in found["data"]] == ["state.updated"] * 3


def test_traces_are_found_by_time_whatever_the_parameter_is_called(
    rest: Rest, session: str
) -> None:
    del session
    every = rest.ok("GET", "/v1/traces")["data"]
    middle = every[1]["timestamp"]
    for after, before in (("created_after", "created_before"), ("start_time", "end_time")):
        since = rest.ok("GET", "/v1/traces", params={after: middle})["data"]
        until = rest.ok("GET", "/v1/traces", params={before: middle})["data"]
        assert (since, until) == (every[:2], every[2:])
        assert rest.ok("GET", "/v1/traces", params={after: "1700000000.5"})["data"] == every
        assert rest.ok("GET", "/v1/traces", params={before: "1700000000"})["data"] == []
    assert rest.ok("GET", "/v1/traces?created_after=&end_time=")["data"] == every
    page = rest.ok("GET", "/v1/traces?limit=2")
    more = rest.ok("GET", f"/v1/traces?starting_after={page['data'][-1]['id']}")
    assert page["data"] + more["data"] == every
    unknown = rest.refused("GET", "/v1/traces?starting_after=trace_0")
    assert unknown == (400, "invalid_request")


def test_a_trace_of_ones_own_can_be_added_and_found(rest: Rest, session: str) -> None:
    wanted = {
        "action": "tool_call.failed",
        "session_id": session,
        "details": {"tool": "weather", "metadata": {"latency_ms": 12}},
    }
    made = rest.ok("POST", "/v1/traces", status=201, json=wanted)
    assert made["metadata"] == {"latency_ms": 12}
    found = rest.ok("GET", "/v1/traces?action=tool_call.failed")["data"]
    assert found == [made]
    assert made["actor"].startswith("key-"), "nobody says who they are themselves"


@pytest.mark.parametrize("action", ["state.rolled_back", "rollback", "key.revoked", "task_start"])
def test_nobody_can_make_the_log_say_what_the_server_never_did(rest: Rest, action: str) -> None:
    refused = rest.refused("POST", "/v1/traces", json={"action": action})
    assert refused == (422, "invalid_request")
    assert rest.ok("GET", "/v1/traces")["data"] == []


def test_the_rate_of_rollbacks_is_told(rest: Rest, session: str) -> None:
    rest.sb.sessions.rollback(session, version=0)
    rest.sb.sessions.create(agent_id="b")
    rate = rest.ok("GET", "/v1/rollbacks")
    assert (rate["rollbacks"], rate["sessions"], rate["rate"]) == (1, 2, 0.5)
    assert rate["level"] == "critical"
    assert rest.ok("GET", "/v1/rollbacks?agent_id=b")["rate"] == 0


# Entities and the dashboard


def test_an_entity_is_noted_replaced_and_forgotten(rest: Rest, session: str) -> None:
    wanted = {"session_id": session, "entity_type": "order", "entity_id": "A-1"}
    made = rest.ok(
        "POST", "/v1/entities", status=201, json={**wanted, "attributes": {"a": 1, "b": 2}}
    )
    assert made.keys() == {
        *("object", "id", "session_id", "entity_type", "entity_id"),
        *("attributes", "version", "created_at", "updated_at"),
    }
    assert (made["object"], made["version"]) == ("entity", 1)
    assert rest.refused("POST", "/v1/entities", json=wanted) == (409, "entity_exists")
    one = f"/v1/entities/{made['id']}"
    changed = rest.ok("PUT", one, json={"attributes": {"c": 2**70}})
    assert (changed["attributes"], changed["version"]) == ({"c": 2**70}, 2)
    assert rest.ok("GET", one) == changed
    assert rest("DELETE", one).status_code == 204
    for again in ("GET", "DELETE"):
        assert rest.refused(again, one) == (404, "entity_not_found")
    assert rest.ok("POST", "/v1/entities", status=201, json=wanted)["version"] == 1
    found = rest.ok("GET", "/v1/traces?resource_type=entity")["data"]
    assert [each["action"] for each in found] == [
        "entity.created",
        "entity.deleted",
        "entity.updated",
        "entity.created",
    ]


def test_entities_are_listed_by_session_and_type(rest: Rest, session: str) -> None:
    other = rest.sb.sessions.create(agent_id="a").id
    for of, kind in ((session, "order"), (session, "customer"), (other, "order")):
        body = {"session_id": of, "entity_type": kind, "entity_id": "1"}
        rest.ok("POST", "/v1/entities", status=201, json=body)

    def kinds(query: str) -> list[tuple[str, str]]:
        found = rest.ok("GET", f"/v1/entities?{query}")["data"]
        return [(each["session_id"], each["entity_type"]) for each in found]

    assert kinds("") == [(other, "order"), (session, "customer"), (session, "order")]
    assert kinds(f"session_id={session}&entity_type=order") == [(session, "order")]
    page = rest.ok("GET", "/v1/entities?limit=2")
    assert page["has_more"] is True
    assert kinds(f"starting_after={page['data'][-1]['id']}") == [(session, "order")]
    rest.sb.sessions.delete(session)
    assert kinds("") == [(other, "order")], "what a session knows goes with it"
    missing = {"session_id": session, "entity_type": "order", "entity_id": "2"}
    assert rest.refused("POST", "/v1/entities", json=missing) == (404, "session_not_found")


def test_the_dashboard_counts_what_there_is(rest: Rest, session: str, server: Server) -> None:
    sb = rest.sb
    sb.sessions.add_turn(session, "q", "a")
    sb.memory.add("x")
    entity = {"session_id": session, "entity_type": "order", "entity_id": "1"}
    rest.ok("POST", "/v1/entities", status=201, json=entity)
    gone = sb.sessions.create(agent_id="a")
    sb.sessions.delete(gone.id)
    found = rest.ok("GET", "/v1/dashboard/stats")
    stored = found["stats"].pop("storage_usage_bytes")
    assert stored > 0
    assert found["stats"] == {
        "total_sessions": 1,
        "total_turns": 1,
        "total_memories": 1,
        "total_entities": 1,
        "active_sessions_24h": 2,
    }
    assert sum(each["count"] for each in found["recent_activity"]) == 9
    assert all(each["timestamp"].endswith(":00:00.000000Z") for each in found["recent_activity"])
    every = rest.ok("GET", "/v1/dashboard/stats", headers={"X-API-Key": server.admin_key})
    assert every["stats"]["total_sessions"] >= 1


def test_an_admin_makes_lists_and_revokes_keys(rest: Rest, server: Server) -> None:
    admin, keys = {"X-API-Key": server.admin_key}, "/v1/dashboard/keys"
    assert rest.refused("GET", keys) == (403, "permission_denied")
    assert rest.refused("POST", keys, json={"name": "mine"}) == (403, "permission_denied")
    wanted = {"name": "agent", "rate_limit": 100, "expires_days": 30, "owner_id": None}
    made = rest.ok("POST", keys, json=wanted, headers=admin)
    with StateBase(api_key=made["full_key"], base_url=server.url) as sb:
        assert sb.sessions.list()["object"] == "list"
        listed: list[dict[str, Any]] = rest.ok("GET", keys, headers=admin)
        assert type(listed) is list, "and nothing around it"
        assert all(each["full_key"] is None for each in listed)
        shown = next(each for each in listed if each["id"] == made["id"])
        assert made["full_key"].startswith(shown["key_prefix"])
        assert (shown["is_active"], shown["rate_limit"]) == (True, 100)
        assert shown["expires_at"] > shown["created_at"]
        assert rest("DELETE", f"{keys}/{made['id']}", headers=admin).status_code == 204
        with pytest.raises(httpx.HTTPStatusError, match="401"):
            sb.sessions.list()
    gone = rest.refused("DELETE", f"{keys}/{made['id']}", headers=admin)
    assert gone == (404, "key_not_found")
    for days in (0, -1, 10**30):
        wrong = {"name": "x", "expires_days": days}
        assert rest.refused("POST", keys, json=wrong, headers=admin)[0] == 422


# A repeated request


def test_a_request_repeated_under_its_key_is_done_once(rest: Rest, session: str) -> None:
    named = {"Idempotency-Key": "turn-1"}
    body = {"input": "q", "output": "a"}
    first = rest("POST", at(session, "/turns"), json=body, headers=named)
    again = rest("POST", at(session, "/turns"), json=body, headers=named)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert rest.sb.sessions.get(session).turn_count == 1
    other = rest.refused("POST", at(session, "/turns"), json={**body, "input": "x"}, headers=named)
    assert other == (409, "idempotency_key_reused")


# What is sent to do harm


@pytest.mark.parametrize("name", ["%00", "..%2f..", "%F0%9F%92%A9", "a" * 5000, "'%20OR%201=1"])
def test_an_id_that_is_none_is_answered_like_one_that_is_not_there(rest: Rest, name: str) -> None:
    for path in (
        f"/v1/sessions/{name}",
        f"/v1/sessions/{name}/state",
        f"/v1/memories/{name}",
        f"/v1/traces/{name}",
        f"/v1/entities/{name}",
    ):
        status, _ = rest.refused("GET", path)
        assert status in (400, 404), path


def test_json_that_is_nested_too_deeply_is_refused(rest: Rest, session: str) -> None:
    for depth in (150, 900, 965, 990, 100_000):
        deep = b'{"state": {"x": ' + b"[" * depth + b"]" * depth + b"}}"
        answer = rest("PATCH", at(session, "/state"), content=deep)
        assert answer.status_code in (200, 422), depth
        for path in ("/v1/sessions", at(session, "/history"), at(session, "/context")):
            assert rest("GET", path).status_code == 200, "what was taken can be shown again"
    assert rest.ok("GET", at(session, "/state"))["version"] < 7
