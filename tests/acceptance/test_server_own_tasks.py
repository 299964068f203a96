"""Tasks and schedules over a real server with two workers, on both catalogs."""

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.testing.servers import Begin, Server, running_server

PATIENCE_S = 30.0
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(either: tuple[Path, dict[str, str]], at_once: Begin) -> Iterator[Server]:
    folder, environ = either
    with running_server(folder, "--workers", "2", environ=environ, begin=at_once) as started:
        yield started


@pytest.fixture
def agent(server: Server) -> Iterator[httpx.Client]:
    with client(server, f"agent-{next(_NUMBERS)}") as http:
        yield http


def client(server: Server, namespace: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {server.api_key}", "X-Namespace": namespace}
    return httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60)


def put(agent: httpx.Client, value: object) -> None:
    body = {"namespace": "n", "key": "k", "value": value}
    assert agent.put("/v1/store/value", json=body).status_code == 200


def value(agent: httpx.Client) -> Any:
    return agent.get("/v1/store/value", params={"namespace": "n", "key": "k"}).json()["value"]


def start(agent: httpx.Client, **wanted: object) -> dict[str, Any]:
    answer = agent.post("/v1/tasks", json={"name": "tidy up", **wanted})
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_completed_task_leaves_its_snapshot_without_anything_else_being_asked(
    agent: httpx.Client,
) -> None:
    put(agent, "old")
    task = start(agent, metadata={"ticket": 7})
    assert (task["status"], task["metadata"], task["ended_at"]) == ("running", {"ticket": 7}, None)
    put(agent, "new")
    done = agent.post(f"/v1/tasks/{task['task_id']}/complete", json={"reason": "all done"}).json()
    assert (done["status"], done["reason"]) == ("completed", "all done")
    newest = agent.get("/v1/snapshots/latest").json()
    assert newest["snapshot_id"] == done["snapshot_id"]
    assert (newest["label"], newest["task_id"]) == ("tidy up", task["task_id"])
    assert agent.post(f"/v1/tasks/{task['task_id']}/complete").json() == done
    assert agent.get(f"/v1/tasks/{task['task_id']}").json() == done
    agent.post(f"/v1/snapshots/{done['before_snapshot_id']}/restore")
    assert value(agent) == "old"


def test_a_failed_task_brings_back_what_was_there_if_it_was_told_to(agent: httpx.Client) -> None:
    put(agent, "old")
    task = start(agent, rollback_on_failure=True)
    put(agent, "broken")
    failed = agent.post(f"/v1/tasks/{task['task_id']}/fail", json={"error": "no luck"}).json()
    assert (failed["status"], failed["reason"]) == ("failed", "no luck")
    assert failed["restored_snapshot_id"] is not None
    assert value(agent) == "old"
    refused = agent.post(f"/v1/tasks/{task['task_id']}/complete")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "task_ended")


def test_a_failed_task_stays_as_it_is_unless_it_is_told_to(agent: httpx.Client) -> None:
    task = start(agent)
    put(agent, "broken")
    assert agent.post(f"/v1/tasks/{task['task_id']}/fail").json()["restored_snapshot_id"] is None
    assert value(agent) == "broken"


def test_tasks_are_listed_a_page_at_a_time(agent: httpx.Client) -> None:
    ids = [start(agent)["task_id"] for _ in range(3)]
    agent.post(f"/v1/tasks/{ids[1]}/complete")
    page = agent.get("/v1/tasks", params={"limit": 2}).json()
    assert [task["task_id"] for task in page["tasks"]] == ids[:0:-1]
    assert page["has_more"]
    rest = agent.get("/v1/tasks", params={"limit": 2, "starting_after": ids[1]}).json()
    assert ([task["task_id"] for task in rest["tasks"]], rest["has_more"]) == (ids[:1], False)
    running = agent.get("/v1/tasks", params={"status": "running"}).json()["tasks"]
    assert [task["task_id"] for task in running] == [ids[2], ids[0]]
    assert agent.get("/v1/tasks", params={"status": "asleep"}).status_code == 400
    assert agent.get("/v1/tasks", params={"limit": 0}).status_code == 422


def test_another_namespaces_tasks_and_schedules_are_not_there(
    agent: httpx.Client, server: Server
) -> None:
    task = start(agent)["task_id"]
    schedule = agent.post("/v1/schedules", json={"after_changes": 5}).json()["schedule_id"]
    with client(server, "stranger") as stranger:
        start(stranger)
        answers = [
            stranger.get(f"/v1/tasks/{task}"),
            stranger.post(f"/v1/tasks/{task}/complete"),
            stranger.post(f"/v1/tasks/{task}/fail"),
            stranger.get(f"/v1/schedules/{schedule}"),
            stranger.patch(f"/v1/schedules/{schedule}", json={"enabled": False}),
            stranger.delete(f"/v1/schedules/{schedule}"),
        ]
        assert {answer.status_code for answer in answers} == {404}
        # A cursor of somebody else's is none: the answer is that for any other text.
        unknown = stranger.get("/v1/tasks", params={"starting_after": task})
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (400, "invalid_request")
        assert stranger.get("/v1/schedules").json() == {"schedules": []}
    assert agent.get(f"/v1/tasks/{task}").json()["status"] == "running"
    assert agent.get(f"/v1/schedules/{schedule}").json()["enabled"]


def test_an_operators_key_opens_no_tasks(agent: httpx.Client, server: Server) -> None:
    operator = {"Authorization": f"Bearer {server.admin_key}"}
    for path in ("/v1/tasks", "/v1/schedules"):
        assert agent.get(path, headers=operator).status_code == 403


# Schedules


def test_a_schedule_takes_one_snapshot_whichever_worker_is_first(agent: httpx.Client) -> None:
    made = agent.post("/v1/schedules", json={"after_changes": 2, "label": "by itself"}).json()
    put(agent, 1)
    put(agent, 2)
    place, deadline = f"/v1/schedules/{made['schedule_id']}", time.monotonic() + PATIENCE_S
    while (found := agent.get(place).json())["last_snapshot_id"] is None:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    (snapshot,) = agent.get("/v1/timeline").json()["snapshots"]
    assert (snapshot["snapshot_id"], snapshot["label"]) == (found["last_snapshot_id"], "by itself")
    assert snapshot["actor"] == made["schedule_id"]
    assert (found["last_error"], found["last_run_at"] is None) == (None, False)


def test_a_schedule_is_made_changed_and_taken_away(agent: httpx.Client) -> None:
    answer = agent.post("/v1/schedules", json={"every_seconds": 600, "only_if_changed": False})
    assert answer.status_code == 201
    made = answer.json()
    assert (made["cadence"], made["amount"], made["only_if_changed"]) == ("every", 600, False)
    place = f"/v1/schedules/{made['schedule_id']}"
    stopped = agent.patch(place, json={"enabled": False, "label": "mine"}).json()
    assert (stopped["enabled"], stopped["label"], stopped["next_at"]) == (False, "mine", None)
    assert agent.patch(place, json={"enabled": True}).json()["next_at"] > made["next_at"]
    assert len(agent.get("/v1/schedules").json()["schedules"]) == 1
    assert agent.delete(place).status_code == 204
    assert agent.get(place).status_code == 404


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"every_seconds": 60, "after_changes": 1},
        {"every_seconds": 1},
        {"every_seconds": -1},
        {"every_seconds": 10**30},
        {"after_changes": 0},
        {"when_quiet_seconds": 10**9},
        {"every_seconds": "soon"},
        {"every_seconds": 60, "label": "x" * 129},
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(
    agent: httpx.Client, wanted: dict[str, object]
) -> None:
    assert agent.post("/v1/schedules", json=wanted).status_code in (400, 422)


@pytest.mark.parametrize("name", ["every_seconds", "when_quiet_seconds"])
@pytest.mark.parametrize("seconds", [-1, 0, 10**9 + 1, 10**30])
def test_a_schedule_of_no_time_or_too_much_does_not_fit(
    agent: httpx.Client, name: str, seconds: int
) -> None:
    refused = agent.post("/v1/schedules", json={name: seconds})
    assert refused.status_code == 422
    assert name in refused.json()["error"]["message"]
