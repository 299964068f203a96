"""An attacker with an add-only key tries to destroy a history, by every route that there is.

Routes come from the server's own OpenAPI document, so that a new one is tried without being named
here. Operators then apply retention and collect at once, as they would any day: whatever was in
the history before is in it still, and every snapshot restores.
"""

import io
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import holdfast
from holdfast.testing.servers import ADMIN_KEY, API_KEY, Begin, Server, running_server

pytestmark = pytest.mark.in_memory

SNAPSHOTS = 4
BODIES: list[dict[str, Any]] = [
    {},
    {"name": "x", "admin": True, "label": None, "expires_in_seconds": 1, "quota_bytes": 1},
    {"keep_last": 1, "keep_daily": 0, "keep_weekly": 0, "policy": {"keep_last": 1}},
    {"enabled": False, "every_seconds": 60, "url": "https://example.com/", "label": "gone"},
    {"content": "overwritten", "attributes": {}, "metadata": {}, "ttl_seconds": 1, "state": {}},
    {"version": 0, "input": "x", "output": "x", "path": "a.txt", "target": "b", "source": "a.txt"},
    {"namespace": "n", "key": "k", "value": None, "mode": 0},
]
"""Bodies that some route takes: each is tried with all of them."""


@dataclass
class World:
    server: Server
    http: httpx.Client
    owner: dict[str, str]
    adder: dict[str, str]
    ids: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @property
    def workspace(self) -> str:
        return f"/v1/workspaces/{self.server.workspace_id}"

    def ok(self, headers: dict[str, str], method: str, path: str, **more: Any) -> Any:
        answer = self.http.request(method, path, headers=headers, **more)
        assert answer.is_success, (method, path, answer.text)
        is_json = answer.headers.get("content-type") == "application/json"
        return answer.json() if is_json else answer.content


ADMIN = {"Authorization": f"Bearer {ADMIN_KEY}"}


def filled(world: World) -> World:
    def do(method: str, path: str, **more: Any) -> Any:
        return world.ok(world.owner, method, path, **more)

    session = do("POST", "/v1/sessions", json={"agent_id": "a", "initial_state": {"n": 0}})["id"]
    memory = do("POST", "/v1/memories", json={"content": "blue", "session_id": session})["id"]
    entity = {"session_id": session, "entity_type": "t", "entity_id": "e", "attributes": {"a": 1}}
    row = do("POST", "/v1/entities", json=entity)["id"]
    taken: list[str] = []
    for number in range(SNAPSHOTS):
        do("PUT", "/files/a.txt", content=f"good {number}".encode())
        do("PUT", "/v1/store/value", json={"namespace": "n", "key": "k", "value": number})
        do("PATCH", f"/v1/sessions/{session}/state", json={"state": {"n": number}})
        body = {"label": f"good {number}", "pin": number == 0}
        taken.append(do("POST", "/v1/snapshots", json=body)["snapshot_id"])
    hook = {"url": "https://example.com/hook", "events": ["snapshot.created"]}
    made = world.ok(ADMIN, "POST", f"{world.workspace}/webhooks", json=hook)
    keep = f"{world.workspace}/namespaces/alice/retention"
    world.ok(ADMIN, "PUT", keep, json={"keep_last": SNAPSHOTS})
    keys = world.ok(ADMIN, "GET", f"{world.workspace}/keys")["keys"]
    world.ids = {
        "snapshot_id": taken,
        "session_id": [session],
        "memory_id": [memory],
        "row_id": [row],
        "schedule_id": [do("POST", "/v1/schedules", json={"every_seconds": 86_400})["schedule_id"]],
        "task_id": [do("POST", "/v1/tasks", json={"name": "t"})["task_id"]],
        "webhook_id": [made["webhook_id"]],
        "key_id": [each["key_id"] for each in keys],
        "name": ["alice"],
        "workspace_id": [world.server.workspace_id],
        "path": ["a.txt"],
        "trace_id": ["trc_none"],
        "turn_id": ["turn_none"],
        "delivery_id": ["dlv-none"],
    }
    return world


@pytest.fixture(scope="module")
def world(home: Path, at_once: Begin) -> Iterator[World]:
    with (
        running_server(home, begin=at_once) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=30) as http,
    ):
        keys = f"/v1/workspaces/{server.workspace_id}/keys"
        body = {"name": "agent", "add_only": True, "namespace": "alice"}
        made = http.post(keys, headers=ADMIN, json=body).json()
        assert (made["scope"], made["namespace"]) == ("add-only", "alice")
        both = http.post(keys, headers=ADMIN, json={"name": "x", "add_only": True, "admin": True})
        assert both.status_code == 422
        owner = {"Authorization": f"Bearer {API_KEY}", "X-Namespace": "alice"}
        adder = {"Authorization": f"Bearer {made['api_key']}"}
        assert http.get("/v1/me", headers=adder).json()["scope"] == "add-only"
        yield filled(World(server, http, owner, adder))


def kept(world: World) -> dict[str, Any]:
    """Returns what an attacker wants to change."""
    ws, ns = world.workspace, f"{world.workspace}/namespaces/alice"
    paths = (f"{ns}/retention", f"{ns}/quota", f"{ws}/quota", f"{ws}/webhooks", f"{ws}/keys")
    seen = {path: world.ok(ADMIN, "GET", path) for path in paths}
    for path in (f"{ns}/quota", f"{ws}/quota"):
        seen[path].pop("used_bytes")
    for key in seen[f"{ws}/keys"]["keys"]:
        del key["requests"], key["last_used_at"]
    for hook in seen[f"{ws}/webhooks"]["webhooks"]:
        for name in [name for name in hook if name.startswith("last_delivery")]:
            hook.pop(name)
    for path in ("/v1/schedules", *(f"/v1/memories/{each}" for each in world.ids["memory_id"])):
        seen[path] = world.ok(world.owner, "GET", path)
    for snapshot_id in world.ids["snapshot_id"]:
        seen[snapshot_id] = world.ok(world.owner, "GET", f"/v1/snapshots/{snapshot_id}")
        # It may be pinned, or have got a longer term: both only keep it.
        del seen[snapshot_id]["expires_at"], seen[snapshot_id]["pinned"]
    return seen


def attack_every_route(world: World) -> dict[str, set[int]]:
    document, answers = world.http.get("/openapi.json").json(), dict[str, set[int]]()
    for path, methods in document["paths"].items():
        for method in methods:
            if method.upper() == "GET":
                continue
            names = [each for each in world.ids if f"{{{each}}}" in path]
            for which in range(max([len(world.ids[name]) for name in names], default=1)):
                place = path
                for name in names:
                    chosen = world.ids[name][min(which, len(world.ids[name]) - 1)]
                    place = place.replace(f"{{{name}}}", quote(chosen))
                assert "{" not in place, f"the attacker has no value for {path}"
                for body in BODIES:
                    answer = world.http.request(
                        method.upper(), place, headers=world.adder, json=body, params={"now": True}
                    )
                    assert answer.status_code < 500 or answer.status_code == 501, answer.text
                    known = answers.setdefault(f"{method.upper()} {path}", set())
                    known.add(answer.status_code)
    return answers


def flood(world: World) -> None:
    """Does what the key allows, as harmfully as it can."""

    def do(method: str, path: str, **more: Any) -> httpx.Response:
        return world.http.request(method, path, headers=world.adder, **more)

    for number in range(3 * SNAPSHOTS):
        do("POST", "/write", json={"path": "a.txt", "content": f"bad {number}"})
        do("POST", "/v1/snapshots", json={"label": "bad", "expires_in_seconds": 1})
        do("POST", "/v1/undo", json={})
    do("POST", "/delete", json={"path": "a.txt"})
    do("POST", "/v1/store/clear")
    do("DELETE", f"/v1/sessions/{world.ids['session_id'][0]}")
    for _ in range(3):
        do("POST", "/v1/snapshots", json={"label": "empty", "expires_in_seconds": 1})
        do("POST", f"/v1/snapshots/{world.ids['snapshot_id'][0]}/restore", json={})
    empty = io.BytesIO()
    with tarfile.open(fileobj=empty, mode="w"):
        pass
    tar = {"Content-Type": "application/x-tar"}
    world.http.post("/v1/import", content=empty.getvalue(), headers={**world.adder, **tar})
    archive = world.ok(world.adder, "GET", "/v1/export")
    world.http.post("/v1/import", content=archive, headers={**world.adder, **tar})


def test_an_attacker_with_the_key_destroys_nothing_of_the_history(world: World) -> None:
    before = kept(world)
    answers = attack_every_route(world)
    for name in ("DELETE /v1/snapshots/{snapshot_id}", "DELETE /v1/snapshots/{snapshot_id}/pin"):
        assert answers[name] == {403}
    for name, statuses in answers.items():
        if "/workspaces/" in name or "/dashboard/" in name:
            assert statuses <= {403, 404, 405}, (name, statuses)
    flood(world)
    forget = f"{world.workspace}/namespaces/alice/forget"
    world.ok(ADMIN, "POST", forget)
    for _ in range(2):
        world.ok(ADMIN, "POST", f"{world.workspace}/collect", params={"now": True})
    assert kept(world) == before
    session = world.ids["session_id"][0]
    for number, snapshot_id in enumerate(world.ids["snapshot_id"]):
        done = world.ok(world.owner, "POST", f"/v1/snapshots/{snapshot_id}/restore", json={})
        assert done["verified"]
        assert world.ok(world.owner, "GET", "/files/a.txt") == f"good {number}".encode()
        place = {"namespace": "n", "key": "k"}
        value = world.ok(world.owner, "GET", "/v1/store/value", params=place)
        assert value["value"] == number
        assert world.ok(world.owner, "GET", f"/v1/sessions/{session}/state")["state"]["n"] == number
    row = world.ok(world.owner, "GET", f"/v1/entities/{world.ids['row_id'][0]}")
    assert row["attributes"] == {"a": 1}
    assert world.ok(ADMIN, "GET", f"{world.workspace}/audit/verify")["ok"]
    assert world.ok(ADMIN, "POST", f"{world.workspace}/verify")["ok"]


# Sessions: an hour in a snapshot, three weeks now.


@dataclass
class Talk:
    """A session that an attacker wants to be over soon, as its owner and the attacker see it."""

    world: World
    owner: dict[str, str]
    adder: dict[str, str]
    forged: bytes
    empty: str = ""
    brief: str = ""

    def own(self, method: str, path: str, **more: Any) -> Any:
        return self.world.ok(self.owner, method, path, **more)

    def attack(self, method: str, path: str, **more: Any) -> Any:
        return self.world.ok(self.adder, method, path, **more)

    def bring_in(self, archive: bytes) -> Any:
        headers = {**self.adder, "Content-Type": "application/x-tar"}
        return self.world.ok(headers, "POST", "/v1/import", content=archive)


@pytest.fixture
def talk(world: World, tmp_path: Path, request: pytest.FixtureRequest) -> Talk:
    body = {"name": "agent", "add_only": True}
    key = world.ok(ADMIN, "POST", f"{world.workspace}/keys", json=body)["api_key"]
    here = {"X-Namespace": re.sub(r"\W+", "-", request.node.name)}
    with holdfast.open(tmp_path / "elsewhere") as elsewhere:
        mine = elsewhere.namespace("mine")
        mine.sessions.create("evil", session_id="x", ttl_seconds=1)
        mine.export(tmp_path / "forged.tar")
    forged = (tmp_path / "forged.tar").read_bytes()
    owner = {"Authorization": f"Bearer {API_KEY}", **here}
    talk = Talk(world, owner, {"Authorization": f"Bearer {key}", **here}, forged)
    talk.own("PUT", "/files/a.txt", content=b"good")
    talk.empty = talk.own("POST", "/v1/snapshots", json={})["snapshot_id"]
    made = {"agent_id": "a", "session_id": "x", "ttl_seconds": 3600, "initial_state": {"n": 0}}
    talk.own("POST", "/v1/sessions", json=made)
    talk.brief = talk.own("POST", "/v1/snapshots", json={})["snapshot_id"]
    talk.own("PATCH", "/v1/sessions/x", json={"ttl_seconds": 21 * 86_400})
    talk.own("PATCH", "/v1/sessions/x/state", json={"state": {"n": 1}})
    talk.own("POST", "/v1/snapshots", json={})
    return talk


def by_task(talk: Talk) -> None:
    talk.own("POST", f"/v1/snapshots/{talk.brief}/restore", json={})
    task = talk.own("POST", "/v1/tasks", json={"name": "t"})["task_id"]
    talk.own("PATCH", "/v1/sessions/x", json={"ttl_seconds": 21 * 86_400})
    talk.own("PATCH", "/v1/sessions/x/state", json={"state": {"n": 2}})
    talk.attack("POST", f"/v1/tasks/{task}/fail", json={"rollback": True})


def by_merge(talk: Talk) -> None:
    fork = f"{talk.owner['X-Namespace']}-fork"
    talk.own("POST", "/v1/fork", json={"name": fork})
    there = {**talk.owner, "X-Namespace": fork}
    talk.world.ok(there, "PATCH", "/v1/sessions/x", json={"ttl_seconds": 1})
    talk.attack("POST", "/v1/merge", json={"source": fork})


def by_id(talk: Talk) -> None:
    talk.attack("POST", f"/v1/snapshots/{talk.empty}/restore", json={})
    made = {"agent_id": "evil", "session_id": "x", "ttl_seconds": 1}
    talk.attack("POST", "/v1/sessions", json=made)


def by_export(talk: Talk) -> None:
    talk.bring_in(talk.attack("GET", "/v1/export", params={"snapshot": talk.brief}))


def set_aside_first(talk: Talk) -> None:
    talk.attack("POST", f"/v1/snapshots/{talk.empty}/restore", json={})
    talk.bring_in(talk.forged)


ENDS: dict[str, Callable[[Talk], object]] = {
    "restore": lambda talk: talk.attack("POST", f"/v1/snapshots/{talk.brief}/restore", json={}),
    "undo": lambda talk: talk.attack("POST", "/v1/undo", json={}),
    "import": lambda talk: talk.bring_in(talk.forged),
    "export and import": by_export,
    "set aside": set_aside_first,
    "fail a task": by_task,
    "merge": by_merge,
    "begin anew": by_id,
}


@pytest.mark.parametrize("way", ENDS)
def test_an_attacker_with_the_key_ends_no_session_sooner(talk: Talk, way: str) -> None:
    ENDS[way](talk)
    found = talk.own("GET", "/v1/sessions/x")
    left = datetime.fromisoformat(found["ttl_expires_at"]) - datetime.now(tz=UTC)
    assert left > timedelta(days=20), found
    newest = talk.own("GET", "/v1/timeline")["snapshots"][0]
    assert way == "begin anew" or newest["detail"]["terms_kept"] == 1
    refused = talk.world.http.patch("/v1/sessions/x", headers=talk.adder, json={"ttl_seconds": 60})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "add_only")
    told = talk.world.ok(ADMIN, "GET", f"{talk.world.workspace}/traces", params={"limit": 5})
    assert any(each["details"].get("terms_kept") == 1 for each in told["data"])


@pytest.mark.parametrize("path", ["/v1/sessions/x/state/rollback", "/v1/sessions/x/rollback"])
def test_an_attacker_with_the_key_takes_no_turn_away(talk: Talk, path: str) -> None:
    for number in range(3):
        talk.own("POST", "/v1/sessions/x/turns", json={"input": f"{number}", "output": "yes"})
    talk.attack("POST", path, json={"version": 0, "conversation": True})
    assert talk.own("GET", "/v1/sessions/x/turns")["data"] == []
    talk.world.ok(ADMIN, "POST", f"{talk.world.workspace}/collect", params={"now": True})
    newest = talk.own("GET", "/v1/sessions/x")["version"]
    talk.own("POST", path, json={"version": newest - 1, "conversation": True})
    turns = talk.own("GET", "/v1/sessions/x/turns", params={"order": "asc"})["data"]
    assert [turn["input"]["content"] for turn in turns] == ["0", "1", "2"]


def test_our_clients_get_a_typed_refusal_and_an_operator_makes_such_a_key(world: World) -> None:
    with holdfast.AdminClient(api_key=ADMIN_KEY, url=world.server.url) as admin:
        key = admin.keys.create("another", namespace="alice", add_only=True)
    assert key.scope == "add-only"
    with holdfast.Client(api_key=key.api_key, url=world.server.url) as client:
        agent = client.namespace("alice")
        taken = agent.snapshot("mine")
        with pytest.raises(holdfast.errors.AddOnly, match="delete a snapshot"):
            agent.delete_snapshot(taken)
        with pytest.raises(holdfast.errors.Denied):
            agent.unpin(taken)
        with pytest.raises(holdfast.errors.AddOnly, match="change a memory"):
            agent.memory.update(world.ids["memory_id"][0], content="red")
