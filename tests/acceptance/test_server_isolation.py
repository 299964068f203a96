"""Who gets in where: every route, with every kind of key that should not open it.

Routes come from the server's own OpenAPI document, so that a new one is tried without being named
here, or fails the first test. Two workspaces and three namespaces are full of words that nobody
else knows; no answer to anybody else may hold one of them.
"""

import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import holdfast
from holdfast.server.app import VERDICTS
from holdfast.testing.receivers import receiver
from holdfast.testing.servers import ADMIN_KEY, API_KEY, Begin, Server, running_server

WAITING = {"/v1/auth/device/start", "/v1/auth/device/poll"}
"""For programs that have no key yet."""

PUBLIC = {"/", "/health", "/health/ready", "/health/live", "/metrics", "/openapi.json", *WAITING}
EVERYBODY = {"/v1/me", "/v1/dashboard/stats"}
SESSION = "/console/session"
"""For browsers: a key opens nothing there."""

OURS = {"Sec-Fetch-Site": "same-origin", "X-Holdfast-Console": "1"}
STREAMS = {
    "/v1/workspaces/{workspace_id}/webhooks/stream",
    "/v1/workspaces/{workspace_id}/events/stream",
}
FEEDS = {"/v1/workspaces/{workspace_id}/events", *STREAMS}
"""For operators, and for an agent's key that names a namespace it may see."""

BODIES: dict[str, Any] = {
    "POST /console/session": {"link": "none"},
    "POST /v1/auth/device/poll": {"device_code": "none"},
    "POST /v1/workspaces/{workspace_id}/logins/find": {"user_code": "AAAA-AAAA"},
    "POST /v1/workspaces/{workspace_id}/logins/approve": {"user_code": "A", "name": "another"},
    "POST /v1/workspaces/{workspace_id}/logins/deny": {"user_code": "AAAA-AAAA"},
    "POST /v1/workspaces/{workspace_id}/keys": {"name": "another"},
    "POST /write": {"path": "theirs.txt", "content": "theirs"},
    "POST /delete": {"path": "nothing.txt"},
    "POST /v1/files/mkdir": {"path": "theirs"},
    "POST /v1/files/symlink": {"path": "their-link", "target": "theirs.txt"},
    "POST /v1/files/chmod": {"path": "nothing.txt", "mode": 0o644},
    "POST /v1/files/move": {"source": "nothing.txt", "target": "theirs"},
    "POST /v1/files/delete": {"path": "nothing.txt"},
    "POST /v1/files/write_many": {"files": [{"path": "theirs.txt", "content": "dGhlaXJz"}]},
    "PATCH /v1/snapshots/{snapshot_id}": {"label": "theirs"},
    "POST /v1/fork": {"name": "a-fork-of-theirs"},
    "POST /v1/merge": {"source": "nowhere"},
    "PUT /v1/store/value": {"namespace": "n", "key": "k", "value": 1},
    "POST /v1/store/batch": {"get": [{"namespace": "n", "key": "k"}]},
    "POST /v1/store/append": {"namespace": "n", "values": [1]},
    "POST /v1/store/pop": {"namespace": "n"},
    "POST /v1/store/delete_prefix": {"namespace": "n"},
    "PUT /v1/workspaces/{workspace_id}/namespaces/{name}/retention": {"keep_last": 1},
    "PUT /v1/workspaces/{workspace_id}/namespaces/{name}/quota": {"quota_bytes": 1 << 40},
    "PUT /v1/workspaces/{workspace_id}/quota": {"quota_bytes": 1 << 40},
    "POST /v1/workspaces/{workspace_id}/erasures": {"user_id": "theirs", "confirm": "theirs"},
    "POST /v1/tasks": {"name": "theirs"},
    "POST /v1/commands": {"command": "echo theirs > theirs.txt"},
    "POST /v1/exec": {"command": "echo theirs > workspace/theirs.txt"},
    "POST /exec": {"command": "echo theirs > workspace/theirs.txt"},
    "POST /v1/schedules": {"every_seconds": 86_400},
    "PATCH /v1/schedules/{schedule_id}": {"enabled": False},
    "PUT /v1/git": {"remote": "ssh://git@host.invalid/theirs"},
    "PATCH /v1/git": {"paused": True},
    "POST /v1/git/host-key": {"fingerprint": "SHA256:theirs"},
    "POST /v1/workspaces/{workspace_id}/webhooks": {"url": "http://127.0.0.1:9/theirs"},
    "PATCH /v1/workspaces/{workspace_id}/webhooks/{webhook_id}": {"enabled": False},
    "POST /v1/sessions": {"agent_id": "theirs"},
    "PATCH /v1/sessions/{session_id}": {"metadata": {"theirs": 1}},
    "PUT /v1/sessions/{session_id}/state": {"state": {"theirs": 1}},
    "POST /v1/sessions/{session_id}/state": {"state": {"theirs": 1}},
    "PATCH /v1/sessions/{session_id}/state": {"state": {"theirs": 1}},
    "POST /v1/sessions/{session_id}/state/rollback": {"version": 0},
    "POST /v1/sessions/{session_id}/rollback": {"version": 0},
    "POST /v1/sessions/{session_id}/turns": {"input": "theirs", "output": "theirs"},
    "POST /v1/memories": {"content": "theirs", "type": "fact"},
    "POST /v1/memory": {"content": "theirs", "type": "fact"},
    "POST /v1/sessions/{session_id}/memories": {"content": "theirs", "type": "fact"},
    "POST /v1/memories/search": {"query": "content", "threshold": 0},
    "POST /v1/memory/search": {"query": "content", "threshold": 0},
    "POST /v1/sessions/{session_id}/memories/search": {"query": "content", "threshold": 0},
    "PUT /v1/memories/{memory_id}": {"content": "theirs"},
    "PATCH /v1/memories/{memory_id}": {"content": "theirs"},
    "PUT /v1/memory/{memory_id}": {"content": "theirs"},
    "PATCH /v1/memory/{memory_id}": {"content": "theirs"},
    "POST /v1/traces": {"action": "theirs.done"},
    "POST /v1/entities": {"session_id": "s", "entity_type": "t", "entity_id": "e"},
    "PUT /v1/entities/{row_id}": {"attributes": {"theirs": 1}},
    "POST /v1/dashboard/keys": {"name": "another"},
}
QUERIES: dict[str, dict[str, Any]] = {
    "GET /v1/files": {"recursive": "true"},
    "GET /v1/files/content": {"path": "nothing.txt"},
    "GET /v1/files/stat": {"path": "nothing.txt"},
    "GET /v1/files/list": {"recursive": "true"},
    "GET /v1/files/glob": {"pattern": "*"},
    "GET /v1/files/grep": {"pattern": "x"},
    "GET /v1/files/raw": {"path": "nothing.txt"},
    "PUT /v1/files/raw": {"path": "theirs.txt"},
    "GET /v1/snapshots/{snapshot_id}/files/content": {"path": "nothing.txt"},
    "GET /v1/diff/text": {"path": "nothing.txt"},
    "GET /v1/store/value": {"namespace": "n", "key": "k"},
    "DELETE /v1/store/value": {"namespace": "n", "key": "k"},
    "GET /v1/store/keys": {"namespace": "n"},
    "GET /v1/store/items": {"namespace": "n"},
    "GET /v1/store/max_key": {"namespace": "n"},
    "GET /v1/sessions/{session_id}/diff": {"from": 0, "to": 1},
    "GET /v1/memories/search": {"query": "content", "threshold": 0},
    "GET /v1/memory/search": {"query": "content", "threshold": 0},
}


@dataclass(frozen=True)
class Operation:
    """A verb and a path of the OpenAPI document."""

    method: str
    path: str
    needs_body: bool
    needs_query: bool

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def places(self) -> list[str]:
        """The names of what stands in the path, other than the workspace."""
        return [each for each in re.findall(r"{(\w+)}", self.path) if each != "workspace_id"]

    @property
    def is_public(self) -> bool:
        return self.path in PUBLIC

    @property
    def is_for_admins(self) -> bool:
        groups = ("/v1/workspaces/", "/v1/dashboard/keys")
        return self.path.startswith(groups) and self.path not in FEEDS

    @property
    def is_for_agents(self) -> bool:
        others = EVERYBODY | FEEDS | {SESSION}
        return not (self.is_public or self.is_for_admins) and self.path not in others


def cookie_of(token: str | None) -> dict[str, str]:
    """Returns the headers of a browser that calls the server by a name without a port."""
    return {"Host": "127.0.0.1", "Cookie": f"holdfast={token}"}


@dataclass(frozen=True)
class Caller:
    """Somebody with a key, and the namespace that they name."""

    key: str | None
    namespace: str | None = None
    token: str | None = None
    """Of a person who is signed in to the console."""

    def headers(self) -> dict[str, str]:
        headers = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        if self.token is not None:
            headers |= {**OURS, **cookie_of(self.token)}
        return headers if self.namespace is None else {**headers, "X-Namespace": self.namespace}


@dataclass
class Party:
    """Somebody's part of the vault: what is in it, and the words that are theirs alone."""

    word: str
    agent: Caller
    admin: Caller
    ids: dict[str, str]
    secrets: set[str] = field(default_factory=set[str])
    """The ids of what is theirs, and the secrets that were shown once."""

    def words(self) -> set[str]:
        kinds = (
            *("file.txt", "content", "label", "reason", "store", "key", "value", "agent", "user"),
            *("meta", "state", "statekey", "reasoning", "input", "output", "memory", "tag", "task"),
            *(
                "schedule",
                "hook",
                "hooked",
                "keyname",
                "fork",
                "trace",
                "undone",
                "entity",
                "known",
            ),
        )
        return {f"{self.word}-{kind}" for kind in kinds} | self.secrets


@dataclass
class World:
    """A server with two workspaces: `mine` and `bobs` in one, `other` in the other."""

    server: Server
    http: httpx.Client
    operations: list[Operation]
    mine: Party
    bobs: Party
    other: Party
    refused: dict[str, Caller]
    second: Caller
    """Another key of my workspace, which has no lock either."""
    adder: Caller
    """A key of mine that only adds, and names my namespace."""
    bobs_adder: Caller
    """One that is for another namespace."""
    people: dict[str, Caller]
    """Those who are signed in to the console, by their keys."""

    def send(self, caller: Caller, operation: Operation, ids: dict[str, str]) -> httpx.Response:
        """Asks for what the ids name."""
        path = operation.path
        for name, value in ids.items():
            path = path.replace(f"{{{name}}}", quote(value))
        return self.ask(
            caller,
            operation.method,
            path,
            json=BODIES.get(operation.name),
            params=QUERIES.get(operation.name),
        )

    def ask(
        self,
        caller: Caller,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> httpx.Response:
        """Asks; of a stream that goes on for ever, the beginning is the answer."""
        given = {**caller.headers(), **(headers or {})}
        request = self.http.build_request(method, path, headers=given, **more)
        answer = self.http.send(request, stream=True)
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            answer._content = next(answer.iter_raw())
            answer.close()
        else:
            answer.read()
        assert answer.status_code < 500 or answer.status_code == 501, (request, answer.text)
        return answer


def fill(http: httpx.Client, party: Party) -> None:
    """Fills a namespace, and the workspace around it, with words of its own."""
    word, ids = party.word, party.ids

    def do(caller: Caller, method: str, path: str, **more: Any) -> Any:
        headers = {**caller.headers(), **more.pop("headers", {})}
        answer = http.request(method, path, headers=headers, **more)
        assert answer.is_success, (method, path, answer.text)
        return answer.json() if answer.content else None

    agent, admin, ws = party.agent, party.admin, f"/v1/workspaces/{ids['workspace_id']}"
    hook = {"url": f"http://127.0.0.1:9/{word}-hook", "description": f"{word}-hooked"}
    made = do(admin, "POST", f"{ws}/webhooks", json={**hook, "namespace": agent.namespace})
    ids["webhook_id"] = made["webhook_id"]
    key = do(admin, "POST", f"{ws}/keys", json={"name": f"{word}-keyname"})
    ids["key_id"] = key["key_id"]
    party.secrets |= {made["signing_secret"], key["api_key"]}
    ids["path"] = f"{word}-file.txt"
    do(agent, "PUT", f"/files/{word}-file.txt", content=f"{word}-content".encode())
    body = {"namespace": f"{word}-store", "key": f"{word}-key", "value": f"{word}-value"}
    do(agent, "PUT", "/v1/store/value", json=body)
    ids["snapshot_id"] = do(
        agent, "POST", "/v1/snapshots", json={"label": f"{word}-label", "reason": f"{word}-reason"}
    )["snapshot_id"]
    fill_sessions(do, party)
    ids["task_id"] = do(agent, "POST", "/v1/tasks", json={"name": f"{word}-task"})["task_id"]
    do(
        agent,
        "PUT",
        "/v1/git",
        json={"remote": f"ssh://git@host.invalid/{word}-copy", "on_tasks": False},
    )
    ids["schedule_id"] = do(
        agent, "POST", "/v1/schedules", json={"every_seconds": 86_400, "label": f"{word}-schedule"}
    )["schedule_id"]
    gone = do(agent, "POST", "/v1/snapshots", json={"label": f"{word}-undone"})["snapshot_id"]
    do(agent, "DELETE", f"/v1/snapshots/{gone}")
    do(agent, "POST", "/v1/fork", json={"name": f"{word}-fork"})
    ids["name"] = f"{word}-fork"
    while not (sent := do(admin, "GET", f"{ws}/webhooks/{ids['webhook_id']}/deliveries"))[
        "deliveries"
    ]:
        pass
    ids["delivery_id"] = sent["deliveries"][0]["delivery_id"]
    party.secrets |= {value for name, value in ids.items() if name != "workspace_id"}


def fill_sessions(do: Any, party: Party) -> None:
    word, ids, agent = party.word, party.ids, party.agent
    body = {
        "agent_id": f"{word}-agent",
        "user_id": f"{word}-user",
        "metadata": {"m": f"{word}-meta"},
        "initial_state": {f"{word}-statekey": f"{word}-state"},
    }
    session = f"/v1/sessions/{do(agent, 'POST', '/v1/sessions', json=body)['id']}"
    ids["session_id"] = session.rpartition("/")[2]
    change = {"state": {"n": 1}, "reasoning": f"{word}-reasoning"}
    do(agent, "PATCH", f"{session}/state", json=change)
    do(agent, "POST", f"{session}/state/rollback", json={"version": 0})
    turn = {"input": f"{word}-input", "output": f"{word}-output"}
    ids["turn_id"] = do(agent, "POST", f"{session}/turns", json=turn)["id"]
    memory = {"content": f"{word}-memory content", "type": "fact", "tags": [f"{word}-tag"]}
    ids["memory_id"] = do(
        agent, "POST", "/v1/memories", json={**memory, "session_id": ids["session_id"]}
    )["id"]
    entity = {"session_id": ids["session_id"], "entity_type": "t", "entity_id": f"{word}-entity"}
    entity["attributes"] = {"a": f"{word}-known"}
    ids["row_id"] = do(agent, "POST", "/v1/entities", json=entity)["id"]
    ids["trace_id"] = do(agent, "POST", "/v1/traces", json={"action": f"{word}-trace"})["id"]


def operations_of(document: dict[str, Any]) -> list[Operation]:
    return [
        Operation(
            method.upper(),
            path,
            needs_body=_is_required(described.get("requestBody")),
            needs_query=any(
                each["in"] == "query" and each.get("required")
                for each in described.get("parameters", ())
            ),
        )
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    ]


def _is_required(body: dict[str, Any] | None) -> bool:
    """Says whether a JSON body has to be there; one that may be null may also be left out."""
    if body is None or not body.get("required") or "application/json" not in body["content"]:
        return False
    schema = body["content"]["application/json"]["schema"]
    return {"type": "null"} not in schema.get("anyOf", ())


@pytest.fixture(scope="module")
def world(home: Path, at_once: Begin) -> Iterator[World]:
    folder = home / "isolation"
    environ = {"HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1", "HOLDFAST_SECRETS_KEY": "k" * 32}
    with (
        running_server(folder, environ=environ, begin=at_once) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=30) as http,
    ):
        with holdfast.open(server.data) as vault:
            other = vault.tenant("other")
            admin = other.keys.create("admin", admin=True).api_key
            agent = other.keys.create("agent").api_key
            locked = vault.keys.create("bobs", namespace="bob").api_key
            expired = vault.keys.create("brief", expires_in=timedelta(microseconds=1)).api_key
            second = vault.keys.create("second").api_key
            adder = vault.keys.create("adder", add_only=True).api_key
            bobs_adder = vault.keys.create("adds", add_only=True, namespace="bob").api_key
            gone = vault.keys.create("gone")
            revoked = gone.api_key
            past = vault.sign_ins.by_key(gone.api_key)
            vault.keys.revoke(gone.id)
            people = {
                "mine": sign_in(vault, API_KEY),
                "my admin's": sign_in(vault, ADMIN_KEY),
                "bob's": sign_in(vault, locked),
                "bob's and my admin's": sign_in(vault, locked, ADMIN_KEY),
                "another's": sign_in(vault, agent, admin),
            }
            ids = [{"workspace_id": each.tenant_id} for each in (vault, vault, other)]
        mine = Party("hush", Caller(API_KEY, "alice"), Caller(ADMIN_KEY), ids[0])
        bobs = Party("bobs", Caller(API_KEY, "bob"), Caller(ADMIN_KEY), ids[1])
        others = Party("ours", Caller(agent, "alice"), Caller(admin), ids[2])
        for party in (mine, bobs, others):
            fill(http, party)
        bobs.agent = Caller(locked)
        refused = {
            "no key": Caller(None, "alice"),
            "a wrong key": Caller(API_KEY[:-1] + "Z", "alice"),
            "a revoked key": Caller(revoked, "alice"),
            "an expired key": Caller(expired, "alice"),
            "somebody signed in with a revoked key": Caller(None, "alice", past),
            "somebody with a made up cookie": Caller(None, "alice", "holdfast-console-made-up"),
            "a wrong key, and a good cookie": Caller("wrong" * 5, "alice", people["mine"].token),
        }
        operations = operations_of(http.get("/openapi.json").json())
        adders = Caller(adder, "alice"), Caller(bobs_adder)
        second_key = Caller(second, "carol")
        yield World(
            server, http, operations, mine, bobs, others, refused, second_key, *adders, people
        )


def sign_in(vault: holdfast.Holdfast, *keys: str) -> Caller:
    """Signs a person in with a key, or with one beside the other."""
    token = None
    for key in keys:
        token = vault.sign_ins.by_key(key, beside=token)
    return Caller(None, "alice", token)


@pytest.fixture(autouse=True)
def unharmed(world: World) -> Iterator[None]:
    """Whatever others try: what is mine is as it was."""
    before = seen_by_owner(world)
    yield
    assert seen_by_owner(world) == before


def seen_by_owner(world: World) -> dict[str, Any]:
    agent, admin, ids = world.mine.agent, world.mine.admin, world.mine.ids
    session, ws = f"/v1/sessions/{ids['session_id']}", f"/v1/workspaces/{ids['workspace_id']}"
    paths = [
        *("/v1/files?recursive=true", f"/v1/files/content?path={ids['path']}", "/v1/timeline"),
        *("/v1/store/value?namespace=hush-store&key=hush-key", "/v1/sessions", f"{session}/turns"),
        *(f"{session}/state/history", "/v1/memories", "/v1/traces", "/v1/tasks", "/v1/schedules"),
        *("/v1/entities", "/v1/git"),
    ]
    seen = {path: world.ask(agent, "GET", path).json() for path in paths}
    for path in (f"{ws}/webhooks/{ids['webhook_id']}", f"{ws}/namespaces/{ids['name']}"):
        seen[path] = world.ask(admin, "GET", path).json()
        for name in list(seen[path]):
            if name.startswith("last_delivery"):  # The server goes on trying to deliver.
                del seen[path][name]
    keys = world.ask(admin, "GET", f"{ws}/keys").json()["keys"]
    seen["keys"] = sorted(key["key_id"] for key in keys)
    return seen


def check_tells_nothing(party: Party, answer: httpx.Response) -> None:
    """Fails if an answer holds a word of a party's, other than those that were asked with."""
    request = answer.request
    asked = str(request.url) + request.content.decode() + str(request.headers.raw)
    told = answer.text + str(answer.headers.raw)
    leaked = [word for word in party.words() if word in told and word not in asked]
    assert not leaked, (str(request.method), str(request.url), leaked, told[:2000])


def unknown(ids: dict[str, str]) -> dict[str, str]:
    """Returns ids of the same shape that nothing has."""
    made = {name: f"{value[:-4]}{value[-4:][::-1]}" for name, value in ids.items()}
    made = {name: v if v != ids[name] else f"{v[:-2]}aa" for name, v in made.items()}
    return {**made, "workspace_id": ids["workspace_id"]}


def without(answer: httpx.Response, *ids: dict[str, str]) -> tuple[int, str]:
    """Returns an answer without what may differ: ids that were asked for, and the request's."""
    text = re.sub(r"req_[0-9a-f]{16}", "req", answer.text)
    for each in ids:
        for name, value in each.items():
            text = text.replace(value, name)
            text = text.replace(b64encode(value.encode()).decode(), name)
    return answer.status_code, text


# The matrix.


def test_every_operation_can_be_tried(world: World):
    known = {*world.mine.ids}
    for operation in world.operations:
        assert {*operation.places} <= known, operation.name
        assert not operation.needs_body or operation.name in BODIES, operation.name
        assert not operation.needs_query or operation.name in QUERIES, operation.name
    names = {operation.name for operation in world.operations}
    assert {*BODIES, *QUERIES} <= names
    assert len(names) > 100


def test_without_a_valid_key_nothing_but_the_public_routes_answers(world: World):
    for who, caller in world.refused.items():
        for operation in world.operations:
            if operation.path == SESSION:
                continue  # Who is not signed in may be: see below.
            answer = world.send(caller, operation, world.mine.ids)
            wanted = 200 if operation.is_public else 401
            assert answer.status_code == wanted, (who, operation.name, answer.text)
            check_tells_nothing(world.mine, answer)


def test_an_admin_key_opens_no_agents_data(world: World):
    caller = Caller(ADMIN_KEY, "alice")
    for operation in world.operations:
        if operation.is_for_agents:
            answer = world.send(caller, operation, world.mine.ids)
            assert answer.status_code == 403, (operation.name, answer.text)
            check_tells_nothing(world.mine, answer)


def test_an_agents_key_opens_nothing_of_an_operators(world: World):
    callers = (world.mine.agent, world.bobs.agent, world.other.agent, world.adder, world.bobs_adder)
    for caller in callers:
        for operation in world.operations:
            if operation.is_for_admins:
                answer = world.send(caller, operation, world.mine.ids)
                assert answer.status_code == 403, (operation.name, answer.text)
                check_tells_nothing(world.mine, answer)


def test_another_workspaces_operator_finds_no_such_workspace(world: World):
    for operation in world.operations:
        if "{workspace_id}" in operation.path:
            answer = world.send(world.other.admin, operation, world.mine.ids)
            assert answer.status_code == 404, (operation.name, answer.text)
            assert answer.json()["error"]["code"] == "workspace_not_found"
            check_tells_nothing(world.mine, answer)


def test_a_key_for_one_namespace_is_refused_in_another(world: World):
    for key in (world.bobs.agent.key, world.bobs_adder.key):
        for operation in world.operations:
            if operation.is_for_agents:
                answer = world.send(Caller(key, "alice"), operation, world.mine.ids)
                assert answer.status_code == 403, (operation.name, answer.text)
                check_tells_nothing(world.mine, answer)


def test_a_person_reaches_what_their_keys_open_and_nothing_else(world: World):
    opens = {  # The statuses for operations of agents in my namespace, and of my operators.
        "mine": (None, 403),
        "my admin's": (403, None),
        "bob's": (403, 403),
        "bob's and my admin's": (403, None),
        "another's": (None, 404),
    }
    for who, statuses in opens.items():
        for operation in world.operations:
            wanted = statuses[0] if operation.is_for_agents else None
            if operation.is_for_admins:
                wanted = statuses[1]
            if wanted is None or (wanted == 404 and "{workspace_id}" not in operation.path):
                continue
            answer = world.send(world.people[who], operation, world.mine.ids)
            assert answer.status_code == wanted, (who, operation.name, answer.text)
            check_tells_nothing(world.mine, answer)
    path = world.mine.ids["path"]
    link = f"/v1/files/raw?path={path}&in=alice"
    mine, theirs = (Caller(None, None, world.people[who].token) for who in ("mine", "another's"))
    assert world.ask(mine, "GET", link).text == "hush-content"
    answer = world.ask(theirs, "GET", link)
    assert answer.status_code == 404
    check_tells_nothing(world.mine, answer)


def test_who_a_person_is_nobody_else_is_told_or_ends(world: World):
    mine = world.people["mine"]
    cookie = cookie_of(mine.token)
    for caller in (Caller(None), Caller(API_KEY), world.other.admin):
        assert world.ask(caller, "GET", SESSION).status_code == 401
        for headers in ({}, {**OURS, "Sec-Fetch-Site": "cross-site"}):
            for method in ("POST", "DELETE"):
                body = BODIES["POST /console/session"] if method == "POST" else None
                more = {"headers": {**cookie, **headers}, "json": body}
                assert world.ask(caller, method, SESSION, **more).status_code == 403
    with holdfast.open(world.server.data) as vault:
        another = vault.tenant("other").keys.create("brief").api_key
        brief = sign_in(vault, another)
    answer = world.ask(brief, "GET", SESSION)
    assert answer.json()["workspace_id"] == world.other.ids["workspace_id"]
    check_tells_nothing(world.mine, answer)
    world.ask(brief, "DELETE", SESSION, params={"everywhere": "true"})
    assert world.ask(brief, "GET", SESSION).status_code == 401
    assert world.ask(mine, "GET", SESSION).status_code == 200


def test_a_key_that_only_adds_is_refused_what_takes_away(world: World):
    tried = [each for each in world.operations if VERDICTS.get(each.name)]
    assert len(tried) > 10
    for operation in tried:
        answer = world.send(world.adder, operation, world.mine.ids)
        assert answer.status_code == 403, (operation.name, answer.text)
        assert answer.json()["error"]["code"] == "add_only"
        check_tells_nothing(world.mine, answer)


ADDER = "a key for another namespace that only adds"


def strangers(world: World) -> dict[str, Caller]:
    return {
        "a key of another workspace": world.other.agent,
        "a key for another namespace": world.bobs.agent,
        ADDER: world.bobs_adder,
        "a key that names another namespace": Caller(API_KEY, "bob"),
    }


def test_what_is_somebody_elses_is_answered_like_what_is_not_there(world: World):
    mine = world.mine.ids
    missing = unknown(mine)
    for who, caller in strangers(world).items():
        for operation in world.operations:
            if not operation.is_for_agents or operation.name == "PUT /files/{path}":
                continue  # That one would make them a file of that name.
            theirs = world.send(caller, operation, mine)
            check_tells_nothing(world.mine, theirs)
            if operation.places:
                none = world.send(caller, operation, missing)
                assert without(theirs, mine) == without(none, missing), (who, operation.name)
                is_list = operation.path.endswith("/traces")
                wanted = 200 if is_list else 404
                if who == ADDER and VERDICTS.get(operation.name):
                    wanted = 403
                assert theirs.status_code == wanted, (who, operation.name)


def test_another_workspaces_operator_finds_nothing_of_mine_in_their_own(world: World):
    here = world.other.ids["workspace_id"]
    mine = {**world.mine.ids, "workspace_id": here}
    missing = {**unknown(world.mine.ids), "workspace_id": here}
    for operation in world.operations:
        if not (operation.is_for_admins or operation.path in FEEDS):
            continue
        answer = world.send(world.other.admin, operation, mine)
        check_tells_nothing(world.mine, answer)
        if operation.places:
            none = world.send(world.other.admin, operation, missing)
            assert without(answer, mine) == without(none, missing), operation.name
            assert answer.status_code in (400, 404), operation.name


# Ids by guess, where they are not in the path.


def probes(ids: dict[str, str]) -> list[tuple[str, str, dict[str, Any]]]:
    session, snapshot, word = ids["session_id"], ids["snapshot_id"], ids["name"]
    return [
        ("GET", "/v1/sessions", {"params": {"starting_after": session}}),
        ("GET", "/v1/memories", {"params": {"starting_after": ids["memory_id"]}}),
        ("GET", "/v1/memories", {"params": {"session_id": session}}),
        ("GET", "/v1/memories/search", {"params": {"query": "content", "session_id": session}}),
        ("POST", "/v1/memories/search", {"json": {"query": "memory", "session_id": session}}),
        ("POST", "/v1/memories", {"json": {"content": "x", "session_id": session}}),
        ("GET", "/v1/traces", {"params": {"starting_after": ids["trace_id"]}}),
        ("GET", "/v1/traces", {"params": {"session_id": session}}),
        ("GET", "/v1/traces", {"params": {"resource_id": session}}),
        ("GET", "/v1/entities", {"params": {"session_id": session}}),
        ("GET", "/v1/entities", {"params": {"starting_after": ids["row_id"]}}),
        ("GET", "/v1/tasks", {"params": {"starting_after": ids["task_id"]}}),
        ("GET", "/v1/history", {"params": {"name": ids["path"]}}),
        ("GET", "/v1/history", {"params": {"plane": "sessions", "name": session}}),
        ("GET", "/v1/diff", {"params": {"from": snapshot}}),
        ("GET", "/v1/diff", {"params": {"to": snapshot}}),
        ("GET", "/v1/diff/folders", {"params": {"from": snapshot}}),
        ("GET", "/v1/diff/text", {"params": {"path": "a.txt", "from": snapshot}}),
        ("GET", "/v1/diff/texts", {"params": {"to": snapshot}}),
        ("GET", "/v1/export", {"params": {"snapshot": snapshot}}),
        ("GET", "/v1/export", {"params": {"snapshot": snapshot, "files": True}}),
        ("GET", "/v1/files/stat", {"params": {"path": "a.txt", "at": snapshot}}),
        ("GET", "/v1/files/list", {"params": {"at": snapshot}}),
        ("GET", "/v1/files/list", {"params": {"starting_after": ids["path"]}}),
        ("GET", "/v1/files/raw", {"params": {"path": ids["path"], "at": snapshot}}),
        ("GET", "/v1/timeline/" + snapshot[:12], {}),
        ("GET", "/v1/store/items", {"params": {"at": snapshot}}),
        ("GET", "/v1/store/count", {"params": {"at": snapshot, "sizes": True}}),
        ("GET", "/v1/store/namespaces", {"params": {"at": snapshot}}),
        ("POST", "/v1/store/batch", {"params": {"at": snapshot}, "json": {}}),
        ("GET", "/v1/sessions", {"params": {"at": snapshot}}),
        ("GET", f"/v1/sessions/{session}", {"params": {"at": snapshot}}),
        ("GET", f"/v1/sessions/{session}/state", {"params": {"at": snapshot}}),
        ("GET", f"/v1/sessions/{session}/turns", {"params": {"at": snapshot}}),
        ("POST", "/v1/undo", {"json": {"operation": snapshot}}),
        ("POST", "/v1/fork", {"json": {"name": "f", "at": snapshot}}),
        ("POST", "/v1/merge", {"json": {"source": word}}),
        ("POST", "/v1/snapshots", {"json": {"expected": snapshot}}),
        ("POST", "/v1/snapshots/latest/restore", {"json": {"expected": snapshot}}),
        ("GET", f"/v1/snapshots/{snapshot[:12]}", {}),
    ]


def test_ids_in_queries_and_bodies_lead_nowhere_either(world: World):
    mine = world.mine.ids
    missing = unknown(mine)
    for who, caller in strangers(world).items():
        for theirs, none in zip(probes(mine), probes(missing), strict=True):
            if who != "a key of another workspace" and theirs[1] == "/v1/merge":
                continue  # One workspace: a key without a lock may, and one with a lock: below.
            found = world.ask(caller, theirs[0], theirs[1], **theirs[2])
            check_tells_nothing(world.mine, found)
            there = world.ask(caller, none[0], none[1], **none[2])
            if not there.is_success or not found.is_success:
                assert without(found, mine) == without(there, missing), (who, theirs)


def test_a_locked_key_neither_forks_nor_merges_across_its_lock(world: World):
    caller = world.bobs.agent
    for path, body in (
        ("/v1/merge", {"source": "alice"}),
        ("/v1/merge", {"source": "no-such-namespace"}),
        ("/v1/fork", {"name": "carol"}),
        ("/v1/fork", {"name": "alice"}),
    ):
        answer = world.ask(caller, "POST", path, json=body)
        assert answer.status_code == 403, (path, body)
        check_tells_nothing(world.mine, answer)


# Events.


def test_the_feed_shows_a_namespace_to_its_own_keys_alone(world: World):
    ws = f"/v1/workspaces/{world.mine.ids['workspace_id']}"
    locked, unlocked = world.bobs.agent, Caller(API_KEY)
    assert world.ask(unlocked, "GET", f"{ws}/events").status_code == 400
    for path in (f"{ws}/events", f"{ws}/events/stream"):
        query = {"namespace": "alice"}
        assert world.ask(locked, "GET", path, params=query).status_code == 403
        assert world.ask(world.other.agent, "GET", path, params=query).status_code == 404
    feed = world.ask(locked, "GET", f"{ws}/events", params={"limit": 200})
    assert {event["namespace"] for event in feed.json()["events"]} == {"bob"}
    check_tells_nothing(world.mine, feed)
    mine = world.ask(world.mine.admin, "GET", f"{ws}/events", params={"limit": 1}).json()
    assert mine["next_cursor"]
    for caller in (locked, Caller(API_KEY, "bob")):
        params = {"cursor": mine["next_cursor"], "namespace": "bob", "limit": 200}
        below = world.ask(caller, "GET", f"{ws}/events", params=params)
        assert {event["namespace"] for event in below.json()["events"]} <= {"bob"}
        check_tells_nothing(world.mine, below)


def test_a_stream_that_goes_on_after_somebody_elses_event_is_refused_or_tells_nothing(
    world: World,
):
    ws = f"/v1/workspaces/{world.mine.ids['workspace_id']}"
    params = {"namespace": "alice", "limit": 1}
    [event] = world.ask(world.mine.agent, "GET", f"{ws}/events", params=params).json()["events"]
    theirs = f"/v1/workspaces/{world.other.ids['workspace_id']}/events/stream"
    for caller, path in ((world.bobs.agent, f"{ws}/events/stream"), (world.other.admin, theirs)):
        answers = [
            world.ask(caller, "GET", path, headers={"Last-Event-ID": event_id})
            for event_id in (event["id"], unknown({"id": event["id"], **world.mine.ids})["id"])
        ]
        assert [answer.status_code for answer in answers] == [400, 400], path
        check_tells_nothing(world.mine, answers[0])


def listened(world: World, caller: Caller, workspace_id: str, until: str) -> Iterator[str]:
    """Yields once when the stream has begun, then all lines up to one that holds a text."""
    path = f"/v1/workspaces/{workspace_id}/events/stream"
    with world.http.stream("GET", path, headers=caller.headers()) as answer:
        lines = answer.iter_lines()
        told = "".join(takewhile(lambda line: line, lines))
        yield told
        for line in lines:
            told += line
            if until in line:
                break
        yield told


def test_streams_and_webhooks_bring_nothing_of_anybody_elses(world: World):
    with receiver() as bobs, receiver() as ours:
        hooks = {}
        for there, party, namespace in ((bobs, world.bobs, "bob"), (ours, world.other, None)):
            body = {"url": there.url, "namespace": namespace}
            path = f"/v1/workspaces/{party.ids['workspace_id']}/webhooks"
            made = world.ask(party.admin, "POST", path, json=body).json()
            hooks[f"{path}/{made['webhook_id']}"] = party.admin
        streams = [
            listened(world, world.bobs.agent, world.bobs.ids["workspace_id"], "last-of-all"),
            listened(world, world.other.admin, world.other.ids["workspace_id"], "last-of-all"),
        ]
        for stream in streams:
            assert "connected" in next(stream)
        carol = Caller(API_KEY, "carol")
        world.ask(carol, "PUT", "/files/hush-live.txt", content=b"hush")
        world.ask(carol, "POST", "/v1/snapshots", json={"label": "hush-live"})
        for party in (world.bobs, world.other):
            world.ask(party.agent, "PUT", "/files/last-of-all.txt", content=b"x")
        for stream in streams:
            told = next(stream)
            assert "last-of-all" in told
            assert "hush" not in told
        for there in (bobs, ours):
            assert "hush" not in str(there.wait_until(lambda got: "last-of-all" in str(got)))
        for path, admin in hooks.items():
            assert world.ask(admin, "DELETE", path).is_success


# Counts, audits, and answers that are given twice.


def test_rollbacks_are_counted_where_they_happened(world: World):
    rates = {
        who: world.ask(caller, "GET", "/v1/rollbacks").json()
        for who, caller in {"mine": world.mine.agent, **strangers(world)}.items()
    }
    assert {rate["rollbacks"] for rate in rates.values()} == {1}
    ws = world.other.ids["workspace_id"]
    whole = world.ask(world.other.admin, "GET", f"/v1/workspaces/{ws}/rollbacks").json()
    assert whole["rollbacks"] == 1
    query = {"agent_id": "hush-agent"}
    for caller in strangers(world).values():
        rate = world.ask(caller, "GET", "/v1/rollbacks", params=query).json()
        assert (rate["rollbacks"], rate["sessions"]) == (0, 0)


def test_the_dashboard_counts_what_is_the_callers_own(world: World):
    assert world.ask(Caller(world.bobs.agent.key, "alice"), "GET", "/v1/dashboard/stats").is_error
    for who, caller in strangers(world).items():
        stats = world.ask(caller, "GET", "/v1/dashboard/stats")
        check_tells_nothing(world.mine, stats)
        listed = world.ask(caller, "GET", "/v1/sessions", params={"limit": 100}).json()["data"]
        assert stats.json()["stats"]["total_sessions"] == len(listed), who
    keys = world.ask(world.other.admin, "GET", "/v1/dashboard/keys")
    assert world.other.ids["key_id"] in keys.text
    check_tells_nothing(world.mine, keys)


def test_another_workspaces_audit_holds_nothing_of_mine(world: World):
    ws = world.other.ids["workspace_id"]
    export = world.ask(world.other.admin, "GET", f"/v1/workspaces/{ws}/audit/export")
    assert "ours-trace" in export.text
    check_tells_nothing(world.mine, export)
    mine = f"/v1/workspaces/{world.mine.ids['workspace_id']}/audit/verify"
    anchor = world.ask(world.mine.admin, "GET", mine).json()["anchor"]
    path = f"/v1/workspaces/{ws}/audit/verify"
    check = world.ask(world.other.admin, "GET", path, params={"anchor": anchor})
    assert check.json()["ok"] is False
    check_tells_nothing(world.mine, check)


def test_a_name_for_a_request_belongs_to_the_key_that_gave_it(world: World):
    name, body = {"Idempotency-Key": "the-same-name"}, {"agent_id": "hush-again"}
    path, carol = "/v1/sessions", Caller(API_KEY, "carol")
    first = world.ask(carol, "POST", path, headers=name, json=body)
    again = world.ask(carol, "POST", path, headers=name, json=body)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json() == first.json()
    others = {**strangers(world), "another key of the workspace": world.second}
    for who, caller in others.items():
        answer = world.ask(caller, "POST", path, headers=name, json=body)
        assert "Idempotent-Replayed" not in answer.headers, who
        assert first.json()["id"] not in answer.text, who
