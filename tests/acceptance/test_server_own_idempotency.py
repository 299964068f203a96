"""Idempotency-Key over a real server with two workers, on both catalogs."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from holdfast.testing.servers import Begin, Server, running_server

KEY = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(either: tuple[Path, dict[str, str]], at_once: Begin) -> Iterator[Server]:
    folder, environ = either
    with running_server(folder, "--workers", "2", environ=environ, begin=at_once) as started:
        yield started


@pytest.fixture
def namespace() -> str:
    return f"agent-{next(_NUMBERS)}"


@pytest.fixture
def agent(server: Server, namespace: str) -> Iterator[httpx.Client]:
    with client(server, server.api_key, namespace) as http:
        yield http


def client(server: Server, key: str, namespace: str | None = None) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}"}
    if namespace is not None:
        headers["X-Namespace"] = namespace
    # No connection is kept: any of the workers may answer the next request.
    limits = httpx.Limits(max_keepalive_connections=0)
    return httpx.Client(
        base_url=server.url, headers=headers, trust_env=False, timeout=60, limits=limits
    )


def new_name() -> dict[str, str]:
    return {KEY: f"request {next(_NUMBERS)}"}


def timeline(agent: httpx.Client) -> list[dict[str, Any]]:
    return agent.get("/v1/timeline").json()["snapshots"]


def test_a_request_that_is_repeated_does_nothing_twice(agent: httpx.Client) -> None:
    name = new_name()
    first = agent.post("/v1/snapshots", json={"label": "once"}, headers=name)
    assert (first.status_code, REPLAYED in first.headers) == (201, False)
    for _ in range(3):
        again = agent.post("/v1/snapshots", json={"label": "once"}, headers=name)
        assert (again.status_code, again.content) == (201, first.content)
        assert again.headers[REPLAYED] == "true"
        assert again.headers["content-type"] == first.headers["content-type"]
    assert [snapshot["label"] for snapshot in timeline(agent)] == ["once"]


def test_a_change_that_is_repeated_does_nothing_twice(agent: httpx.Client) -> None:
    made = agent.post("/v1/schedules", json={"every_seconds": 3600}).json()
    place, name = f"/v1/schedules/{made['schedule_id']}", new_name()
    first = agent.patch(place, json={"label": "mine"}, headers=name)
    agent.patch(place, json={"label": "later"})
    again = agent.patch(place, json={"label": "mine"}, headers=name)
    assert (first.status_code, again.content) == (200, first.content)
    assert agent.get(place).json()["label"] == "later"


def test_a_turn_of_a_session_is_added_once(agent: httpx.Client) -> None:
    session = agent.post("/v1/sessions", json={"agent_id": "a"}).json()["id"]
    place, name = f"/v1/sessions/{session}/turns", new_name()
    turn = {"input": {"content": "hello"}, "output": {"content": "hi"}}
    answers = [agent.post(place, json=turn, headers=name) for _ in range(2)]
    assert [answer.is_success for answer in answers] == [True, True], answers[0].text
    assert answers[0].json() == answers[1].json()


def test_a_name_is_for_one_request(agent: httpx.Client, server: Server) -> None:
    name = new_name()
    agent.post("/v1/snapshots", json={"label": "one"}, headers=name)
    others = [
        agent.post("/v1/snapshots", json={"label": "two"}, headers=name),
        agent.post("/v1/snapshots?really=1", json={"label": "one"}, headers=name),
        agent.post(
            "/v1/snapshots", json={"label": "one"}, headers={**name, "X-Namespace": "elsewhere"}
        ),
    ]
    for other in others:
        assert other.status_code == 409
        assert other.json()["error"]["code"] == "idempotency_key_reused"
        assert "another request before: its namespace, query" in other.json()["detail"]
    assert len(timeline(agent)) == 1
    with client(server, server.api_key, "elsewhere") as elsewhere:
        assert timeline(elsewhere) == []


def test_names_belong_to_keys_methods_and_paths(
    agent: httpx.Client, server: Server, namespace: str
) -> None:
    name = new_name()
    agent.post("/v1/snapshots", headers=name)
    task = agent.post("/v1/tasks", json={"name": "another path"}, headers=name)
    assert (task.status_code, REPLAYED in task.headers) == (201, False)
    with client(server, server.admin_key) as admin:
        keys = f"/v1/workspaces/{server.workspace_id}/keys"
        other = admin.post(keys, json={"name": "another"}).json()["api_key"]
    with client(server, other, namespace) as somebody:
        theirs = somebody.post("/v1/snapshots", headers=name)
        assert (theirs.status_code, REPLAYED in theirs.headers) == (201, False)
    assert len(timeline(agent)) == 2


def test_what_failed_may_be_tried_again(agent: httpx.Client, namespace: str) -> None:
    name, wanted = new_name(), {"name": f"{namespace}-fork"}
    refused = agent.post("/v1/fork", json=wanted, headers=name)
    assert refused.status_code == 404
    agent.post("/v1/snapshots")
    done = agent.post("/v1/fork", json=wanted, headers=name)
    assert (done.status_code, REPLAYED in done.headers) == (201, False)
    again = agent.post("/v1/fork", json=wanted, headers=name)
    assert (again.status_code, REPLAYED in again.headers) == (201, True)


def test_of_the_same_request_many_times_at_once_one_is_done(agent: httpx.Client) -> None:
    name = new_name()

    def ask(_: int) -> httpx.Response:
        return agent.post("/v1/snapshots", json={"label": "once"}, headers=name)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(16)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert sum(REPLAYED not in answer.headers for answer in answers) == 1
    assert len(timeline(agent)) == 1


def test_a_secret_is_shown_once_and_kept_nowhere(server: Server) -> None:
    name, keys = new_name(), f"/v1/workspaces/{server.workspace_id}/keys"
    with client(server, server.admin_key) as admin:
        made = admin.post(keys, json={"name": "precious"}, headers=name)
        again = admin.post(keys, json={"name": "precious"}, headers=name)
        listed = admin.get(keys).json()["keys"]
    assert made.status_code == 201
    assert again.status_code == 409
    assert again.json()["error"]["code"] == "idempotency_answer_not_kept"
    assert [key["name"] for key in listed].count("precious") == 1
    secret = made.json()["api_key"].encode()
    assert not [path for path in files_below(server.data) if secret in path.read_bytes()]


def test_what_changes_nothing_is_answered_anew(agent: httpx.Client) -> None:
    name = new_name()
    for _ in range(2):
        assert REPLAYED not in agent.get("/v1/timeline", headers=name).headers


def test_a_put_that_is_repeated_makes_no_second_version(agent: httpx.Client) -> None:
    session = agent.post("/v1/sessions", json={"agent_id": "a"}).json()["id"]
    place, name = f"/v1/sessions/{session}/state", new_name()
    answers = [agent.put(place, json={"state": {"n": 1}}, headers=name) for _ in range(2)]
    assert [answer.is_success for answer in answers] == [True, True], answers[0].text
    assert [REPLAYED in answer.headers for answer in answers] == [False, True]
    assert answers[0].content == answers[1].content
    assert agent.get(place).json()["version"] == 1


def test_a_delete_that_is_repeated_is_no_404(agent: httpx.Client) -> None:
    made = agent.post("/v1/schedules", json={"every_seconds": 3600}).json()
    snapshot = agent.post("/v1/snapshots").json()["snapshot_id"]
    for place, status in (
        (f"/v1/schedules/{made['schedule_id']}", 204),
        (f"/v1/snapshots/{snapshot}", 200),
    ):
        name = new_name()
        answers = [agent.delete(place, headers=name) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [status] * 3
        assert [REPLAYED in answer.headers for answer in answers] == [False, True, True]
        assert len({answer.content for answer in answers}) == 1
        assert agent.delete(place).status_code == 404
        assert agent.delete(place, headers=new_name()).status_code == 404


def test_an_upload_under_a_name_is_made_once(agent: httpx.Client) -> None:
    place, name = "/v1/files/raw?path=file", new_name()
    first = agent.put(place, content=b"once", headers=name)
    agent.put(place, content=b"later")
    again = agent.put(place, content=b"once", headers=name)
    assert (again.content, again.headers[REPLAYED]) == (first.content, "true")
    assert agent.get(place).content == b"later"
    other = agent.put(place, content=b"other", headers=name)
    assert other.json()["error"]["code"] == "idempotency_key_reused"


def test_a_path_that_no_row_can_hold_is_no_failure_of_ours(agent: httpx.Client) -> None:
    assert agent.post("/v1/tasks/%00/complete", headers=new_name()).status_code in (400, 404)
    # Not to be compressed: an index of PostgreSQL has no room for it as it is.
    long = Random(7).randbytes(4000).hex()
    assert agent.post(f"/v1/tasks/{long}/complete", headers=new_name()).status_code == 404


def test_a_name_has_its_limit(agent: httpx.Client) -> None:
    assert agent.post("/v1/snapshots", headers={KEY: "x" * 255}).status_code == 201
    refused = agent.post("/v1/snapshots", headers={KEY: "x" * 256})
    assert refused.status_code == 422
    assert refused.json()["error"]["param"] == KEY


def test_a_body_too_large_to_compare_needs_to_do_without(agent: httpx.Client) -> None:
    body = {"path": "large.txt", "content": "x" * (8 << 20)}
    refused = agent.post("/write", json=body, headers=new_name())
    assert refused.status_code == 413
    assert agent.post("/write", json=body).status_code == 200


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_answers_that_are_kept_pass_no_quota(server: Server, agent: httpx.Client) -> None:
    """Whoever changes little of much, under ever new names, would fill a disk beside a quota."""
    session = agent.post("/v1/sessions", json={"agent_id": "a"}).json()["id"]
    place = f"/v1/sessions/{session}/state"
    long = Random(1).randbytes(50_000).hex()
    assert agent.patch(place, json={"state": {"long": long}}).status_code == 200
    with client(server, server.admin_key) as admin:
        quota = f"/v1/workspaces/{server.workspace_id}/quota"
        used = admin.get(quota).json()["used_bytes"]
        assert admin.put(quota, json={"quota_bytes": used + 300_000}).status_code == 200
        try:
            names = [new_name() for _ in range(12)]
            for number, name in enumerate(names):
                done = agent.patch(place, json={"state": {"step": number}}, headers=name)
                assert done.status_code == 200
        finally:
            admin.put(quota, json={"quota_bytes": None})
    again = [
        agent.patch(place, json={"state": {"step": number}}, headers=name)
        for number, name in enumerate(names)
    ]
    # Some fit; the rest was done as well, and is not done again.
    assert (again[0].status_code, again[0].headers[REPLAYED]) == (200, "true")
    assert again[-1].status_code == 409
    assert sum(reply.status_code == 200 for reply in again) <= 300_000 // 50_000
    assert agent.get(f"/v1/sessions/{session}").json()["state"]["step"] == 11
